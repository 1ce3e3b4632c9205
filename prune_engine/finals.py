"""The finals of a task: its best schedules and the default re-timed in turns, and what ships decided."""

from __future__ import annotations

import statistics

from prune_engine.candidates import Candidate
from prune_engine.config import EngineConfig
from prune_engine.measurement import DEFAULT_CANDIDATE, Comparison, Workbench
from prune_engine.store.base import Store
from prune_engine.task_state import Incumbent, TaskState

#: A finalist is within this factor of the incumbent (`close runners-up can be the better one`).
_FINALIST_RATIO = 1.15
#: A schedule ships only if it beats the default by more than this in the paired repeats.
_MIN_GAIN = 0.01


class Finals:
    """Decides what ships. Results are stored, so an unchanged field is not timed again."""

    def __init__(self, workbench: Workbench, store: Store, config: EngineConfig, run_id: str) -> None:
        self._workbench, self._store, self._config, self._run_id = workbench, store, config, run_id

    def decide(self, state: TaskState, *, measure: bool) -> None:
        """Set the state's winner (None: the default). Without ``measure`` earlier timings decide."""
        finalists = self._finalists(state)
        if state.space is None or not finalists:
            return
        comparison = self._comparison(state, finalists, measure=measure)
        if comparison is None:
            self._decide_by_ranking(state)
            return
        medians = {
            identity: statistics.median(secs)
            for identity, secs in zip(comparison.candidate_ids, comparison.run_secs, strict=True)
            if secs
        }
        default_secs = medians.get(DEFAULT_CANDIDATE)
        if default_secs is None:
            return  # without its default a task cannot be shown to gain
        state.final_default_secs = default_secs
        state.final_secs = default_secs
        timed = [f for f in finalists if f.candidate.candidate_id in medians]
        best = min(timed, key=lambda f: medians[f.candidate.candidate_id], default=None)
        if best is not None and medians[best.candidate.candidate_id] < default_secs * (1 - _MIN_GAIN):
            state.winner = best
            state.final_secs = medians[best.candidate.candidate_id]

    def _finalists(self, state: TaskState) -> list[Incumbent]:
        if not state.ranking:
            return []
        limit = state.ranking[0].latency_secs * _FINALIST_RATIO
        return [i for i in state.ranking[: self._config.n_finalists] if i.latency_secs <= limit]

    def _comparison(self, state: TaskState, finalists: list[Incumbent], *, measure: bool) -> Comparison | None:
        device, n_threads = self._workbench.device_name(), self._workbench.n_threads()
        ids = {DEFAULT_CANDIDATE, *(f.candidate.candidate_id for f in finalists)}
        last = self._store.last_comparison(state.task.task_id, device, n_threads)
        if last is not None and set(last.candidate_ids) == ids:
            return last
        if not measure or state.space is None:
            return None
        field: list[Candidate | None] = [None, *(f.candidate for f in finalists)]
        comparison = self._workbench.compare(state.space, field)
        self._store.add_comparison(self._run_id, state.task.task_id, device, n_threads, comparison)
        return comparison

    @staticmethod
    def _decide_by_ranking(state: TaskState) -> None:
        best = state.ranking[0]
        if state.default_secs is None or best.latency_secs < state.default_secs * (1 - _MIN_GAIN):
            state.winner, state.final_secs = best, best.latency_secs
