"""Records as table rows and back. Lists and mappings travel as JSON text, which keeps every float exact."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import RowMapping

from prune_engine.errors import StoreError
from prune_engine.measurement import Comparison, MeasuredCandidate, MeasureError, MeasureErrorKind, Measurement
from prune_engine.store.base import RunRecord, StoredCandidate
from prune_engine.task import TuningTask
from prune_engine.verdicts import Outcome, Stage, Verdict

Row = dict[str, object]


def to_json(value: object, what: str) -> str:
    """Write JSON text. Raises StoreError if ``value`` holds something that JSON has no form for."""
    try:
        return json.dumps(value, separators=(",", ":"))
    except (TypeError, ValueError) as error:
        raise StoreError(f"{what} cannot be written as JSON", got=error) from error


def task_row(task: TuningTask) -> Row:
    """What is true of a task in every model."""
    return {
        "task_id": task.task_id,
        "target": task.target,
        "flop_count": int(task.flop_count),
        "arg_shapes": to_json([[int(d) for d in shape] for shape in task.arg_shapes], "a task's shapes"),
        "arg_dtypes": to_json(list(task.arg_dtypes), "a task's dtypes"),
    }


def task_of(row: RowMapping) -> TuningTask:
    """Read a task back, with the name and weight that a run knew it by."""
    return TuningTask(
        task_id=row["task_id"],
        name=row["name"],
        target=row["target"],
        weight=row["weight"],
        flop_count=row["flop_count"],
        arg_shapes=tuple(tuple(shape) for shape in json.loads(row["arg_shapes"])),
        arg_dtypes=tuple(json.loads(row["arg_dtypes"])),
    )


def measurement_row(task_id: str, sketch_ids: Sequence[str], measured: MeasuredCandidate) -> Row:
    """One measurement. Raises StoreError for a sketch number that ``sketch_ids`` does not cover."""
    candidate, m = measured.candidate, measured.measurement
    if candidate is not None and not 0 <= candidate.sketch_index < len(sketch_ids):
        raise StoreError(
            "a candidate of an unknown sketch",
            who=f"candidate {m.candidate_id}",
            got=f"sketch number {candidate.sketch_index}",
            expected=f"one of the {len(sketch_ids)} sketches passed along",
        )
    decisions = [] if candidate is None else [[int(x) for x in decision] for decision in candidate.decisions]
    return {
        "task_id": task_id,
        "candidate_id": m.candidate_id,
        "device_name": m.device_name,
        "n_threads": int(m.n_threads),
        "sketch_id": None if candidate is None else sketch_ids[candidate.sketch_index],
        "sketch_index": None if candidate is None else int(candidate.sketch_index),
        "decisions": to_json(decisions, "decisions"),
        "trace_json": measured.trace_json,
        "run_secs": to_json([float(secs) for secs in m.run_secs], "latencies"),
        "error_kind": None if m.error is None else m.error.kind.value,
        "error_message": None if m.error is None else clean_text(m.error.message),
        "build_secs": float(m.build_secs),
        "profile_digest": m.profile_digest,
        "measured_at": float(m.measured_at),
        "stage": int(m.stage),
        "is_censored": bool(m.is_censored),
        "is_noisy": bool(m.is_noisy),
        "load_average": float(m.load_average),
    }


def stored_candidate(row: RowMapping) -> StoredCandidate:
    """Read a measurement row back."""
    error = None
    if row["error_kind"] is not None:
        error = MeasureError(MeasureErrorKind(row["error_kind"]), row["error_message"] or "")
    return StoredCandidate(
        candidate_id=row["candidate_id"],
        sketch_id=row["sketch_id"],
        sketch_index=row["sketch_index"],
        decisions=tuple(tuple(decision) for decision in json.loads(row["decisions"])),
        trace_json=row["trace_json"],
        measurement=Measurement(
            candidate_id=row["candidate_id"],
            run_secs=tuple(json.loads(row["run_secs"])),
            error=error,
            build_secs=row["build_secs"],
            device_name=row["device_name"],
            n_threads=row["n_threads"],
            profile_digest=row["profile_digest"],
            measured_at=row["measured_at"],
            stage=row["stage"],
            is_censored=row["is_censored"],
            is_noisy=row["is_noisy"],
            load_average=row["load_average"],
        ),
    )


def comparison_json(comparison: Comparison) -> str:
    """A comparison as JSON text."""
    return to_json(
        {
            "candidate_ids": list(comparison.candidate_ids),
            "run_secs": [[float(secs) for secs in repeats] for repeats in comparison.run_secs],
            "errors": [
                None if error is None else {"kind": error.kind.value, "message": error.message}
                for error in comparison.errors
            ],
        },
        "a comparison",
    )


def comparison_of(text: str) -> Comparison:
    """Read a comparison back."""
    fields: dict[str, Any] = json.loads(text)
    return Comparison(
        candidate_ids=tuple(fields["candidate_ids"]),
        run_secs=tuple(tuple(repeats) for repeats in fields["run_secs"]),
        errors=tuple(
            None if error is None else MeasureError(MeasureErrorKind(error["kind"]), error["message"])
            for error in fields["errors"]
        ),
    )


def verdict_row(verdict: Verdict) -> Row:
    """A verdict, without the candidate it is on."""
    return {
        "stage": verdict.stage.value,
        "strategy": verdict.strategy,
        "outcome": verdict.outcome.value,
        "reason": clean_text(verdict.reason),
        "count": int(verdict.count),
        "evidence": to_json({name: float(x) for name, x in verdict.evidence.items()}, "a verdict's evidence"),
    }


def verdict_of(row: RowMapping, count: int, candidate_id: str | None) -> Verdict:
    """Read a verdict back; ``count`` is the sum over the runs."""
    evidence: Mapping[str, float] = json.loads(row["evidence"])
    return Verdict(
        Stage(row["stage"]), row["strategy"], Outcome(row["outcome"]), row["reason"], count, candidate_id, evidence
    )


def run_record(row: RowMapping) -> RunRecord:
    """Read a run back."""
    return RunRecord(row["run_id"], row["started_at"], row["finished_at"], json.loads(row["manifest"]))


def clean_text(text: str) -> str:
    """Free text as every database takes it: what is no character (half a surrogate pair, NUL) is spelled out.

    A compiler's message may hold anything; a measurement must not be lost to its message.
    """
    return text.encode("utf-8", "backslashreplace").decode().replace("\0", "\\x00")
