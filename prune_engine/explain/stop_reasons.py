"""Why a run or a task ended, in words."""

from __future__ import annotations

_STOP_REASONS = {
    "trials": "the trial budget is used up",
    "seconds": "the time budget is used up",
    "plateau": "no task improved any more",
    "converged": "the verifier expects no gain of what is left, and measuring some of it gave none",
    "transferred": "schedules from the library are as good as it promises",
    "measurements": "each kernel has its measurements",
    "no_seeds_left": "every schedule that the library offered was measured",
    "ranked": "the schedules that rank first ship without being measured",
    "exhausted": "no candidate is left to measure",
    "interrupted": "it was interrupted",
    "nothing_to_tune": "no kernel has anything to choose",
    "default_failed": "no untuned kernel could be measured",
}


def stop_reason_text(reason: str) -> str:
    """Why a run or a task ended, as what follows "because"."""
    return _STOP_REASONS.get(reason, reason)
