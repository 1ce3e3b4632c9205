"""What observers are told: the payloads of the notifying hooks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from prune_engine.verdicts import Verdict


@dataclass(frozen=True, slots=True)
class EngineInfo:
    """An engine that has just started."""

    version: str
    run_id: str
    device_name: str
    n_threads: int
    profile_name: str
    seed: int


@dataclass(frozen=True, slots=True)
class PruneSummary:
    """Stages 1 to 5 of one batch: how many were proposed, how many are measured, and every drop by reason."""

    n_proposed: int
    n_selected: int
    verdicts: Sequence[Verdict]
    seconds: float


@dataclass(frozen=True, slots=True)
class TaskSummary:
    """A task at the end of a run. ``best_candidate_id`` is the schedule that ships, maybe the default."""

    task_id: str
    name: str
    weight: int
    space_size: int
    n_trials: int
    n_valid: int
    n_new: int
    failures: dict[str, int]
    default_secs: float | None
    best_secs: float | None
    best_candidate_id: str
    stop_reason: str

    @property
    def speedup(self) -> float | None:
        """Default latency over best latency, or None if either is unknown."""
        if self.default_secs is None or self.best_secs is None:
            return None
        return self.default_secs / self.best_secs
