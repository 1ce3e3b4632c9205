"""Before a schedule ships it is tried on inputs that are hard on numbers; who fails makes room for the next."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence

import numpy as np

from prune_engine.candidates import Candidate, CandidateBatch, rows_of
from prune_engine.config import EngineConfig
from prune_engine.loop.task_state import Incumbent, TaskState, Unmeasured
from prune_engine.measurement import Workbench
from prune_engine.numeric_safety import STRATEGY, ChecksNumbers, FpPolicy, SafetyReport
from prune_engine.store.base import Store
from prune_engine.verdicts import BoolArray, Outcome, Stage, Verdict

#: The strategy named in verdicts.
NAME = STRATEGY
#: What a schedule that does not pass counts as among a task's failures.
_FAILURE = "wrong_result"


class SafetyGate:
    """Holds what the finals chose against the untuned kernel, where the workbench can and the user wants it.

    ``say`` is told of what does not pass, ``note`` of each verdict with its candidate.
    """

    def __init__(
        self,
        workbench: Workbench,
        store: Store,
        config: EngineConfig,
        run_id: str,
        say: Callable[[str], None],
        note: Callable[[TaskState, Sequence[tuple[Candidate, Verdict]]], None] | None = None,
    ) -> None:
        self._note = note
        self._workbench, self._store, self._run_id, self._say = workbench, store, run_id, say
        self._is_wanted = config.stress_check
        self._policy = FpPolicy(config.fp_tolerance, config.strict_fp)

    def settle(self, state: TaskState) -> None:
        """Leave the state only winners and contenders that pass; without any the default ships."""
        workbench = self._workbench
        if not self._is_wanted or not isinstance(workbench, ChecksNumbers):
            return
        chosen = [one for one in _chosen(state) if one.trace_json is not None]
        traces = [str(one.trace_json) for one in chosen]
        if not traces:
            return
        reports = workbench.check_numbers(state.task, traces, self._policy)
        self._record(state, chosen, reports)
        unsafe = {
            one.candidate.candidate_id for one, report in zip(chosen, reports, strict=True) if not report.is_safe
        }
        if unsafe:
            _drop(state, unsafe)

    def _record(
        self, state: TaskState, chosen: Sequence[Incumbent | Unmeasured], reports: Sequence[SafetyReport]
    ) -> None:
        verdicts = []
        for one, report in zip(chosen, reports, strict=True):
            outcome = Outcome.KEPT if report.is_safe else Outcome.FAILED
            passed = f"right on {len(report.cases)} kinds of hard input"
            reason = passed if report.is_safe else f"not safe: {report.problem}"
            verdicts.append(Verdict(Stage.MEASURE, NAME, outcome, reason, 1, one.candidate.candidate_id))
            if not report.is_safe:
                state.failures[_FAILURE] += isinstance(one, Incumbent)
                state.failure_examples.setdefault(_FAILURE, reason)
                state.unsafe += (reason,)
                self._say(f"warning: {state.task.name}: a schedule does not ship, {reason}")
        self._store.add_verdicts(self._run_id, state.task.task_id, verdicts)
        if self._note is not None:
            self._note(state, [(one.candidate, verdict) for one, verdict in zip(chosen, verdicts, strict=True)])


def _chosen(state: TaskState) -> list[Incumbent | Unmeasured]:
    """What may ship: with the whole model to decide, that is any of the contenders."""
    if state.winner is not None:
        return list(state.contenders or (state.winner,))
    return [state.unmeasured] if state.unmeasured is not None else []


def _drop(state: TaskState, unsafe: set[str]) -> None:
    state.ranking = [one for one in state.ranking if one.candidate.candidate_id not in unsafe]
    if state.winner is None:
        state.unmeasured = None
        return
    state.contenders = tuple(one for one in state.contenders if one.candidate.candidate_id not in unsafe)
    if state.winner.candidate.candidate_id in unsafe:
        state.winner = next(iter(state.contenders), None)
        state.final_secs = _secs(state, state.winner)


def _secs(state: TaskState, winner: Incumbent | None) -> float | None:
    """Latency of what ships now, in the finals if it was in them."""
    if winner is None:
        return state.final_default_secs or state.default_secs
    if state.comparison is not None:
        timed = dict(zip(state.comparison.candidate_ids, state.comparison.run_secs, strict=True))
        if secs := timed.get(winner.candidate.candidate_id):
            return statistics.median(secs)
    return winner.latency_secs


def keep_legal(state: TaskState, judge: Callable[[CandidateBatch], tuple[BoolArray, BoolArray]]) -> None:
    """Leave out of the ranking what a LEGALITY rule drops now: earlier runs measured it under other demands.

    ``judge`` is `Pipeline.judge`. What no sketch of the space holds cannot be judged, and is left out too.
    """
    space = state.space
    if space is None:
        return
    allowed: set[str] = set()
    for sketch in space.sketches:
        mine = [one.candidate for one in state.ranking if one.candidate.sketch_index == sketch.index]
        placed = [(c.candidate_id, rows) for c in mine if (rows := rows_of(sketch, c.decisions)) is not None]
        if placed:
            batch = CandidateBatch(space, sketch, np.stack([rows for _, rows in placed]))
            legal, _ = judge(batch)
            allowed.update(identity for (identity, _), is_legal in zip(placed, legal, strict=True) if is_legal)
    state.ranking = [one for one in state.ranking if one.candidate.candidate_id in allowed]
    if state.unmeasured is not None and state.unmeasured.candidate.sketch_index >= len(space.sketches):
        state.unmeasured = None
