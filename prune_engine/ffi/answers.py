"""Answers as JSON objects: keys are only added."""

from __future__ import annotations

import json
from typing import Any

from prune_engine.candidates import candidate_id
from prune_engine.ffi.handles import Profile, Space
from prune_engine.ffi.sessions import Kept, Pruned
from prune_engine.verdicts import Verdict

_DEFAULT_COUNT = 64


def space_record(handle: Space) -> dict[str, Any]:
    """What a space is."""
    space = handle.space
    return {
        "name": space.task.name,
        "task_id": space.task.task_id,
        "target": json.loads(space.task.target) if space.task.target else None,
        "size": space.size,
        "n_candidates": sum(map(len, handle.candidates)),
        "sketches": [
            {
                "sketch": sketch.index,
                "sketch_id": sketch.sketch_id,
                "size": sketch.size,
                "is_interpreted": sketch.nests is not None,
                "opaque_reason": sketch.opaque_reason or None,
                "variables": [
                    {
                        "name": variable.name,
                        "kind": variable.kind.value,
                        "rows": len(variable.table),
                        "width": int(variable.table.shape[1]),
                    }
                    for variable in sketch.variables
                ],
            }
            for sketch in space.sketches
        ],
        "symbols": sorted(handle.declared),
    }


def pruned_record(handle: Space, judge: Profile, count: int | None, explore_size: int, seed: int) -> dict[str, Any]:
    """What is left of a space, or of the candidates that came with it, and why the rest is not."""
    session = judge.session(handle)
    if handle.candidates:
        found = session.choose(handle.candidates, count or sum(map(len, handle.candidates)), seed)
    else:
        found = session.search(count or _DEFAULT_COUNT, explore_size, seed)
    positions = _positions(handle)
    record = {
        "task": handle.space.task.name,
        "task_id": handle.space.task.task_id,
        "profile": judge.profile.name,
        "size": handle.space.size,
        "size_after_rules": session.restricted.size,
        "n_proposed": found.n_proposed,
        "kept": [_kept_record(handle, one, positions) for one in found.kept],
        "verdicts": [_verdict_record(verdict) for verdict in found.verdicts],
        "funnel": _funnel_records(found),
        "left_out": found.left_out,
    }
    if handle.candidates:
        record["dropped"] = [
            {"position": at, **_verdict_record(verdict)}
            for batch, places in zip(handle.candidates, handle.positions, strict=True)
            for at, verdict in zip(places, session.objections(batch), strict=True)
            if verdict is not None
        ]
    return record


def _positions(handle: Space) -> dict[tuple[int, bytes], list[int]]:
    """The numbers of the candidates that came with a space, by sketch and rows: equal ones share them."""
    found: dict[tuple[int, bytes], list[int]] = {}
    for batch, places in zip(handle.candidates, handle.positions, strict=True):
        for row, at in zip(batch.indices, places, strict=True):
            found.setdefault((batch.sketch.index, row.tobytes()), []).append(at)
    return found


def _kept_record(handle: Space, one: Kept, positions: dict[tuple[int, bytes], list[int]]) -> dict[str, Any]:
    sketch, indices = one.batch.sketch, one.batch.indices[one.row]
    rows = indices.tolist()
    decisions = [v.table[row].tolist() for v, row in zip(sketch.variables, rows, strict=True)]
    record: dict[str, Any] = {
        "sketch": sketch.index,
        "candidate_id": candidate_id(handle.space.task.task_id, sketch.sketch_id, decisions),
        "rows": rows,
        "decisions": {v.name: decision for v, decision in zip(sketch.variables, decisions, strict=True)},
        "score": one.score,
        "latency_secs": one.latency_secs,
    }
    if handle.candidates:
        record["positions"] = positions[sketch.index, indices.tobytes()]
    if handle.texts is not None:
        record["trace"] = handle.texts.of(sketch, rows)
    return record


def _verdict_record(verdict: Verdict) -> dict[str, Any]:
    return {
        "stage": verdict.stage.value,
        "strategy": verdict.strategy,
        "outcome": verdict.outcome.value,
        "reason": verdict.reason,
        "count": verdict.count,
        "candidate_id": verdict.candidate_id,
        "evidence": dict(verdict.evidence),
    }


def _funnel_records(found: Pruned) -> list[dict[str, Any]]:
    return [
        {
            "stage": step.stage.value,
            "strategy": step.strategy,
            "kind": step.kind.value if step.kind else None,
            "n_in": step.n_in,
            "n_out": step.n_out,
        }
        for step in found.funnel
    ]
