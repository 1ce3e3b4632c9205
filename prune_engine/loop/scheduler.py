"""Which task gets the next batch: the one whose next trials promise to save the most time per inference."""

from __future__ import annotations

from collections.abc import Sequence

from prune_engine.loop.task_state import TaskState

#: Share of the observed slope against the optimistic one (Ansor's alpha, OSDI'20, section 6).
_OBSERVED_SHARE = 0.2
#: Trials over which the observed slope is taken.
_WINDOW = 32


class GradientScheduler:
    """Greedy on the expected decrease of weight x latency per trial.

    After Ansor (OSDI'20, section 6): the slope of a task is a mix of what its last trials gained and of an
    optimistic guess that latency falls as 1 / trials, times the calls per inference. Tasks that never had a
    batch go first, the most expensive one before the others, so that each has a valid schedule early.
    """

    def next_task(self, states: Sequence[TaskState]) -> TaskState | None:
        """The open task to tune next, or None if none is left."""
        candidates = [state for state in states if state.is_open]
        if not candidates:
            return None
        fresh = [state for state in candidates if not state.n_trials]
        return max(fresh, key=cost_secs) if fresh else max(candidates, key=gradient_secs_per_trial)


def gradient_secs_per_trial(state: TaskState) -> float:
    """Expected saving per inference and trial, seconds, >= 0."""
    history = state.history
    if not history:
        # Trials were spent and nothing is known: fall behind tasks that respond, but not for ever.
        return cost_secs(state) / (1 + state.n_trials)
    window = history[-_WINDOW:]
    observed = (window[0] - window[-1]) / len(window)
    optimistic = history[-1] / max(len(history), 1)
    return state.task.weight * (_OBSERVED_SHARE * observed + (1 - _OBSERVED_SHARE) * optimistic)


def cost_secs(state: TaskState) -> float:
    """Time per inference as it stands; flops stand in when nothing was measured yet."""
    known = state.best_secs
    return state.task.weight * (known if known is not None else state.task.flop_count * 1e-9)
