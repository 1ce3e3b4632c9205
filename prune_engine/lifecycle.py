"""What observers are told: the payloads of the notifying hooks, progress, and the result of a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from prune_engine.audits.rates import AuditReport
from prune_engine.transfers.log import TransferReport
from prune_engine.transfers.source_choice import SourceScore
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


class Observer(Protocol):
    """Told what happens, for progress displays. Called between batches, so it may be slow-ish, not slow."""

    def on_status(self, message: str) -> None:
        """A phase has begun."""

    def on_tasks(
        self, tasks: Sequence[TaskSummary], elapsed_secs: float, left_secs: float | None, n_trials_left: int | None
    ) -> None:
        """The state of all tasks after a batch."""


class SilentObserver:
    """Says nothing."""

    def on_status(self, message: str) -> None:
        """Ignore it."""

    def on_tasks(
        self, tasks: Sequence[TaskSummary], elapsed_secs: float, left_secs: float | None, n_trials_left: int | None
    ) -> None:
        """Ignore it."""


@dataclass(frozen=True, slots=True)
class TaskResult:
    """A task's outcome. ``trace_json`` is the schedule that ships, None where that is the default.

    ``audits`` says of each strategy that guesses how its drops fared, ``transfer`` what the library did; None where
    it was not asked. ``contenders`` are schedules that beat the default in the finals, the one that ships first;
    none where an unmeasured one ships. ``unsafe`` says of those that would have shipped why they do not: they
    compute something else on hard inputs.
    """

    summary: TaskSummary
    trace_json: str | None
    failure_examples: Mapping[str, str]
    audits: tuple[AuditReport, ...] = ()
    transfer: TransferReport | None = None
    contenders: tuple[str, ...] = ()
    unsafe: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RunResult:
    """What a run achieved.

    ``stop_reason``: trials, seconds or interrupted; else what closed most of the tasks: plateau, converged,
    exhausted, nothing_to_tune or default_failed.
    """

    run_id: str
    tasks: tuple[TaskResult, ...]
    stop_reason: str
    n_new: int
    elapsed_secs: float
    census: Mapping[str, int] = field(default_factory=dict)
    #: Models of the library, the best source first, where one was to be chosen.
    sources: tuple[SourceScore, ...] = ()
