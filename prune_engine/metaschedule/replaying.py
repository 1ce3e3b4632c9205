"""Random schedules of traces, for design spaces that cannot be read: TVM's own sampling and its own model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from prune_engine.metaschedule.materialise import SCHEDULE_ERRORS
from prune_engine.verdicts import Float64Array

#: Schedules drawn for each that is wanted, where a cost model tells which of them are good.
_DRAWS_PER_PLACE = 8
#: Share of the places that go to schedules whatever the model says of them, as in TVM's evolutionary search.
_AT_RANDOM = 0.05
#: Draws in a row without anything new after which traces count as exhausted, or refused for good.
_MAX_FAILURES = 256

#: What a cost model thinks of schedules, float64 (n,), higher is better.
Predict = Callable[[Sequence[Any]], Float64Array]


class RandomReplay:
    """Draws schedules of traces; ``is_new`` says, once, whether a module was not met before."""

    def __init__(
        self,
        mod: Any,
        traces: Sequence[Any],
        postprocs: Sequence[Any],
        is_new: Callable[[Any], bool],
        rng: np.random.Generator,
        predict: Predict | None = None,
    ) -> None:
        """``predict`` is the cost model's; without one what is drawn first is taken."""
        from tvm import s_tir

        self._s_tir, self._mod = s_tir, mod
        self._traces, self._postprocs = list(traces), list(postprocs)
        self._is_new, self._rng, self._predict = is_new, rng, predict
        self._waiting: list[Any] = []
        self._is_exhausted = not self._traces

    @property
    def n_traces(self) -> int:
        """How many design spaces are drawn from."""
        return len(self._traces)

    def draw(self, k: int) -> list[Any]:
        """At most ``k`` post-processed schedules, none twice; fewer where no more are found."""
        wanted = k * (_DRAWS_PER_PLACE if self._predict else 1)
        n_failures = 0
        while len(self._waiting) < wanted and not self._is_exhausted:
            schedule = self._drawn()
            if schedule is not None and self._is_new(schedule.mod):
                self._waiting.append(schedule)
                n_failures = 0
                continue
            n_failures += 1
            self._is_exhausted = n_failures >= _MAX_FAILURES
        order = self._order(k)
        chosen = [self._waiting[i] for i in order[:k]]
        self._waiting = [self._waiting[i] for i in order[k:]]
        return chosen

    def _order(self, k: int) -> list[int]:
        """The waiting schedules, those to take first in front."""
        n = len(self._waiting)
        if self._predict is None or n <= k:
            return list(range(n))
        ranked = np.argsort(-self._predict(self._waiting), kind="stable")
        n_random = int(k * _AT_RANDOM + self._rng.random())
        best, rest = ranked[: k - n_random], self._rng.permutation(ranked[k - n_random :])
        return [int(i) for i in (*best, *rest)]

    def _drawn(self) -> Any:
        """One schedule, None where the compiler or a post-processor refuses it."""
        trace = self._traces[int(self._rng.integers(len(self._traces)))]
        seed = int(self._rng.integers(1, 2**31 - 1))
        try:
            schedule = self._s_tir.Schedule(self._mod, seed=seed, debug_mask="none")
            type(trace)(trace.insts, {}).apply_to_schedule(schedule, remove_postproc=True)
            schedule.enter_postproc()
            return schedule if all(postproc.apply(schedule) for postproc in self._postprocs) else None
        except SCHEDULE_ERRORS:
            return None
