"""When a task is closed."""

from __future__ import annotations

from prune_engine.config import EngineConfig
from prune_engine.loop.auditing import Auditor
from prune_engine.loop.task_state import TaskState

#: Rounds in a row without a new candidate after which a space counts as exhausted.
_MAX_BARREN_ROUNDS = 3


def retire(state: TaskState, config: EngineConfig, auditor: Auditor) -> None:
    """Close a task that cannot or need not go on, by its ``stop_reason``."""
    if state.stop_reason is not None:
        return
    if state.n_barren_rounds >= _MAX_BARREN_ROUNDS:
        if auditor.give_back_cuts(state):
            state.n_barren_rounds = 0
        else:
            state.stop_reason = "exhausted"
    elif 2 * state.n_hopeless_trials >= config.plateau_trials:
        state.stop_reason = "converged"
    elif len(state.history) > config.plateau_trials:
        before, now = state.history[-config.plateau_trials - 1], state.history[-1]
        if now > before * (1 - config.plateau_gain):
            state.stop_reason = "plateau"
