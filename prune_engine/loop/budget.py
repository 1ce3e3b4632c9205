"""How much a run may still spend: trials, seconds, and how many of them the next batch gets."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from prune_engine.config import EngineConfig
from prune_engine.loop.scheduler import cost_secs
from prune_engine.loop.task_state import TaskState

#: Share of a seconds budget that is kept for re-timing the winners, at most so many seconds per task.
_FINALS_SHARE, _FINALS_SECS_PER_TASK = 0.2, 0.6
#: Share of what is left that the first batches of all tasks may use: the rest goes where it pays.
_FIRST_BATCHES_SHARE = 0.5


class Budget:
    """The limits of one run. ``clock`` counts seconds from anywhere, never backwards."""

    def __init__(
        self, config: EngineConfig, should_stop: Callable[[], bool], clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Start the clock."""
        self._config, self._should_stop, self._clock = config, should_stop, clock
        self._started = clock()
        self._trials_secs, self._n_timed = 0.0, 0

    @property
    def elapsed_secs(self) -> float:
        """Seconds since the start."""
        return self._clock() - self._started

    @property
    def left_secs(self) -> float | None:
        """Seconds left, negative when overdrawn, or None without such a budget."""
        return None if self._config.budget_secs is None else self._config.budget_secs - self.elapsed_secs

    @property
    def is_spent(self) -> bool:
        """Whether even the finals must not start anything any more."""
        left = self.left_secs
        return self._should_stop() or (left is not None and left <= 0)

    def left_trials(self, states: Sequence[TaskState]) -> int | None:
        """Trials left, or None without such a budget."""
        if self._config.n_trials is None:
            return None
        return max(0, self._config.n_trials - sum(state.n_trials for state in states))

    def interruption(self, states: Sequence[TaskState]) -> str | None:
        """Why nothing at all must be measured any more, or None."""
        if self._should_stop():
            return "interrupted"
        secs = self._tuning_secs(states)
        return "seconds" if secs is not None and secs <= 0 else None

    def stop_reason(self, states: Sequence[TaskState]) -> str | None:
        """Why no further trial must be made, or None."""
        if reason := self.interruption(states):
            return reason
        return "trials" if self.left_trials(states) == 0 else None

    def timed(self, n_trials: int, secs: float) -> None:
        """Tell how long a batch of ``n_trials`` took."""
        self._n_timed += n_trials
        self._trials_secs += secs

    def batch_size(self, state: TaskState, states: Sequence[TaskState]) -> int:
        """Candidates of a task's next batch, >= 1: no more than can be paid, and less while others wait."""
        payable, size = self._payable_trials(states), self._batch_size(state)
        if payable is None:
            return size
        fresh = [s for s in states if s.is_open and not s.n_trials]
        if not state.n_trials and len(fresh) > 1:
            # Half of it evenly, half by what a task costs: trials on trivial kernels gain nothing.
            share = 0.5 / len(fresh) + 0.5 * cost_secs(state) / (sum(map(cost_secs, fresh)) or 1.0)
            payable = int(_FIRST_BATCHES_SHARE * payable * share)
        return max(1, min(size, payable))

    def _batch_size(self, state: TaskState) -> int:
        """Small at first, when each batch teaches much, and never beyond the trials for which it is to be small."""
        config = self._config
        if state.n_trials >= config.first_trials or config.first_batch_size >= config.batch_size:
            return config.batch_size
        return min(config.first_batch_size, config.first_trials - state.n_trials)

    def _payable_trials(self, states: Sequence[TaskState]) -> int | None:
        limits: list[int] = []
        if (trials := self.left_trials(states)) is not None:
            limits.append(trials)
        secs = self._tuning_secs(states)
        if secs is not None and self._n_timed and self._trials_secs > 0:
            limits.append(int(secs / (self._trials_secs / self._n_timed)))
        return min(limits, default=None)

    def _tuning_secs(self, states: Sequence[TaskState]) -> float | None:
        """Seconds left without those that the finals need."""
        left = self.left_secs
        if left is None:
            return None
        total = self._config.budget_secs or 0.0
        n_finals = sum(bool(state.ranking) for state in states)
        return left - min(_FINALS_SHARE * total, _FINALS_SECS_PER_TASK * n_finals)
