"""The finals of a task: its best schedules and the default re-timed in turns, and what ships decided."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from prune_engine.candidates import Candidate
from prune_engine.config import EngineConfig
from prune_engine.loop.task_state import Incumbent, TaskState
from prune_engine.measurement import DEFAULT_CANDIDATE, Comparison, Workbench
from prune_engine.store.base import Store

#: A finalist is within this factor of the incumbent (`close runners-up can be the better one`).
_FINALIST_RATIO = 1.15
#: A finalist was not slower than the default by more than this.
_CONTENDER_RATIO = 1.05
#: A schedule ships only if it beats the default by more than this in the paired repeats ...
_MIN_GAIN = 0.01
#: ... and in so many of them that one that is no faster would do so with at most this probability.
_MAX_LUCK = 0.05
#: Without paired repeats, measurements minutes apart have to differ by more than a machine's moods.
_MIN_UNPAIRED_GAIN = 0.05


class Finals:
    """Decides what ships. Results are stored, so an unchanged field is not timed again."""

    def __init__(self, workbench: Workbench, store: Store, config: EngineConfig, run_id: str) -> None:
        self._workbench, self._store, self._config, self._run_id = workbench, store, config, run_id

    def decide(self, state: TaskState, *, measure: bool) -> None:
        """Set the state's winner (None: the default). Without ``measure`` earlier timings decide."""
        state.is_decided, state.final_secs = True, state.default_secs
        finalists = self._finalists(state)
        # Without its default a task cannot be shown to gain, so the default ships.
        if state.space is None or not finalists:
            return
        comparison = state.comparison = self._comparison(state, finalists, measure=measure)
        if comparison is None:
            self._decide_by_ranking(state)
        else:
            self._decide_by(state, finalists, comparison)

    @staticmethod
    def _decide_by(state: TaskState, finalists: Sequence[Incumbent], comparison: Comparison) -> None:
        timed = {i: secs for i, secs in zip(comparison.candidate_ids, comparison.run_secs, strict=True) if secs}
        default = timed.get(DEFAULT_CANDIDATE)
        if default is None:
            return
        state.final_default_secs = state.final_secs = statistics.median(default)
        faster = [
            (statistics.median(secs), finalist)
            for finalist in finalists
            if (secs := timed.get(finalist.candidate.candidate_id)) and is_faster(secs, default)
        ]
        if faster:
            faster.sort(key=lambda pair: pair[0])
            state.final_secs, state.winner = faster[0]
            state.contenders = tuple(finalist for _, finalist in faster)

    def _finalists(self, state: TaskState) -> list[Incumbent]:
        if not state.ranking or state.default_secs is None:
            return []
        # What was slower than the default by more than noise cannot ship, so it is not timed again.
        limit = min(state.ranking[0].latency_secs * _FINALIST_RATIO, state.default_secs * _CONTENDER_RATIO)
        return [i for i in state.ranking[: self._config.n_finalists] if i.latency_secs <= limit]

    def _comparison(self, state: TaskState, finalists: list[Incumbent], *, measure: bool) -> Comparison | None:
        device, n_threads = self._workbench.device_name(), self._workbench.n_threads()
        ids = {DEFAULT_CANDIDATE, *(f.candidate.candidate_id for f in finalists)}
        last = self._store.last_comparison(state.task.task_id, device, n_threads)
        if last is not None and set(last.candidate_ids) == ids and _has_default(last):
            return last
        if not measure or state.space is None:
            return None
        field: list[Candidate | None] = [None, *(f.candidate for f in finalists)]
        comparison = self._workbench.compare(state.bench_space, field)
        self._store.add_comparison(self._run_id, state.task.task_id, device, n_threads, comparison)
        return comparison

    @staticmethod
    def _decide_by_ranking(state: TaskState) -> None:
        best = state.ranking[0]
        if state.default_secs is not None and best.latency_secs < state.default_secs * (1 - _MIN_UNPAIRED_GAIN):
            state.winner, state.final_secs = best, best.latency_secs
            state.contenders = (best,)


def is_faster(secs: Sequence[float], default_secs: Sequence[float]) -> bool:
    """Whether a schedule beats the default: by its median, and in enough of the paired repeats (sign test).

    ``secs[i]`` and ``default_secs[i]`` were taken in turns, so a disturbance that lasts hits both.
    """
    pairs = list(zip(secs, default_secs, strict=False))
    n_wins = sum(mine < theirs for mine, theirs in pairs)
    is_luck = n_wins < len(pairs) and _luck(n_wins, len(pairs)) > _MAX_LUCK
    return not is_luck and statistics.median(secs) < statistics.median(default_secs) * (1 - _MIN_GAIN)


def _luck(n_wins: int, n: int) -> float:
    """Probability that equals win at least ``n_wins`` of ``n`` repeats."""
    return float(sum(math.comb(n, wins) for wins in range(n_wins, n + 1)) / 2**n)


def _has_default(comparison: Comparison) -> bool:
    """Whether the default was timed; if it failed in passing, the comparison decides nothing."""
    return any(
        secs and i == DEFAULT_CANDIDATE
        for i, secs in zip(comparison.candidate_ids, comparison.run_secs, strict=True)
    )
