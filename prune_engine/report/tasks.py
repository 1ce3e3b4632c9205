"""One kernel's part of a report, from what the store and the result folder have of it."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from prune_engine.audits.rates import AuditLog, AuditReport
from prune_engine.decisions.records import Decision
from prune_engine.measurement import DEFAULT_CANDIDATE, Comparison
from prune_engine.pipeline import AUDIT_PREFIX
from prune_engine.report.chains import chains_of, close_call, drop_sentences, forecasts_of, with_decision
from prune_engine.report.decided import Decided
from prune_engine.report.funnels import funnel_of
from prune_engine.report.records import ChainStep, TaskReport, Trial
from prune_engine.store.base import RunRecord, StoredCandidate
from prune_engine.task import TuningTask
from prune_engine.verdicts import Outcome, Stage, Verdict


def task_report(
    number: int,
    task: TuningTask,
    run: RunRecord,
    stored: Sequence[StoredCandidate],
    verdicts: Sequence[Verdict],
    comparison: Comparison | None,
    told: Mapping[str, Any],
    decided: Decided,
    heuristics: frozenset[str] = frozenset(),
) -> TaskReport:
    """Put a kernel's report together.

    ``told`` is the task's part of result.json, empty where there is none, and so is ``decided``; ``heuristics`` are
    the rules that guess, as far as that is known.
    """
    chains = chains_of(verdicts)
    for identity, decision in decided.measured.items():
        chains[identity] = with_decision(chains.get(identity, ()), decision)
    default = next((row for row in stored if row.candidate_id == DEFAULT_CANDIDATE), None)
    others = [row for row in stored if row.candidate_id != DEFAULT_CANDIDATE]
    trials = tuple(
        _trial(i + 1, row, run, chains.get(row.candidate_id, ()), decided.measured.get(row.candidate_id))
        for i, row in enumerate(others)
    )
    default_secs, best_secs, best_id = _finals(default, trials, comparison)
    error = default.measurement.error if default else None
    size = told.get("space_size")
    best = told.get("best_secs", best_secs)
    return TaskReport(
        number=number,
        task=task,
        space_size=size if isinstance(size, int) else None,
        default_secs=told.get("default_secs", default_secs),
        best_secs=best,
        best_candidate_id=str(told.get("best_candidate_id", best_id)),
        stop_reason=str(told.get("stop_reason", "")),
        default_problem=f"{error.kind.value}: {error.message}" if error else "",
        funnel=funnel_of(verdicts, trials, size if isinstance(size, int) else None),
        trials=trials,
        audits=_audits(verdicts, stored, best, heuristics),
        chains=chains,
        drops=drop_sentences(task, verdicts),
        close_calls=tuple(close_call(decision) for decision in decided.close),
        final_failures=_final_failures(comparison),
    )


def _trial(
    number: int, row: StoredCandidate, run: RunRecord, chain: Sequence[ChainStep], decision: Decision | None
) -> Trial:
    measurement = row.measurement
    draft_secs, score, chosen_as = forecasts_of(chain)
    offset = measurement.measured_at - run.started_at
    is_of_run = offset >= 0 and (run.finished_at is None or measurement.measured_at <= run.finished_at)
    return Trial(
        number=number,
        candidate_id=row.candidate_id,
        latency_secs=measurement.latency_secs,
        error_kind=measurement.error.kind.value if measurement.error else None,
        error_message=measurement.error.message if measurement.error else "",
        is_censored=measurement.is_censored,
        is_noisy=measurement.is_noisy,
        run_offset_secs=offset if is_of_run else None,
        draft_secs=draft_secs,
        verifier_score=score,
        verifier_secs=decision.predicted_secs if decision and "verify_score" in decision.evidence else None,
        chosen_as=chosen_as,
        trace_json=row.trace_json,
    )


def _finals(
    default: StoredCandidate | None, trials: Sequence[Trial], comparison: Comparison | None
) -> tuple[float | None, float | None, str]:
    """Untuned and best latency and the best's id: as re-timed side by side, else as first measured."""
    alone = default.measurement.latency_secs if default else None
    if comparison is not None:
        timed = {
            identity: statistics.median(secs)
            for identity, secs in zip(comparison.candidate_ids, comparison.run_secs, strict=True)
            if secs
        }
        if timed:
            best = min(timed, key=lambda identity: timed[identity])
            return timed.get(DEFAULT_CANDIDATE, alone), timed[best], best
    known = {t.candidate_id: t.latency_secs for t in trials if t.latency_secs is not None and not t.is_censored}
    if alone is not None:
        known[DEFAULT_CANDIDATE] = alone
    if not known:
        return None, None, DEFAULT_CANDIDATE
    best = min(known, key=lambda identity: known[identity])
    return alone, known[best], best


def _final_failures(comparison: Comparison | None) -> tuple[tuple[str, str, str], ...]:
    if comparison is None:
        return ()
    pairs = zip(comparison.candidate_ids, comparison.errors, strict=True)
    return tuple((identity, error.kind.value, error.message) for identity, error in pairs if error is not None)


def _audits(
    verdicts: Sequence[Verdict],
    stored: Sequence[StoredCandidate],
    best_secs: float | None,
    heuristics: frozenset[str],
) -> tuple[AuditReport, ...]:
    """What audits say of the strategies that guess, also of those whose drops no audit was drawn of."""
    guesses = heuristics | {
        v.strategy
        for v in verdicts
        if (v.outcome is Outcome.KEPT and v.reason.startswith(AUDIT_PREFIX))
        or (v.outcome is Outcome.DROPPED and v.stage in (Stage.DRAFT, Stage.VERIFY))
    }
    log = AuditLog()
    log.restore(verdicts, stored, guesses)
    log.add_cuts(verdicts, guesses)
    return log.reports(best_secs)
