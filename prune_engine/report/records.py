"""What a report says, as plain records: everything is already counted, nothing is drawn yet. Times in seconds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from prune_engine.audits.rates import AuditReport
from prune_engine.store.base import RunRecord
from prune_engine.task import TuningTask


@dataclass(frozen=True, slots=True)
class FunnelBar:
    """How many candidates of a task got as far as this; ``basis`` says how that is known."""

    label: str
    count: int
    basis: str


@dataclass(frozen=True, slots=True)
class Trial:
    """One measured schedule. ``run_offset_secs`` counts from the run's start; None if another run measured it.

    ``draft_secs``, ``verifier_score`` and ``verifier_secs`` are what was foreseen, None where nothing was, or is
    recorded. ``chosen_as`` is why it was measured (top, explore, probe, audit, seed), "" where nobody knows.
    """

    number: int
    candidate_id: str
    latency_secs: float | None
    error_kind: str | None
    error_message: str
    is_censored: bool
    is_noisy: bool
    run_offset_secs: float | None
    draft_secs: float | None
    verifier_score: float | None
    verifier_secs: float | None
    chosen_as: str
    trace_json: str | None = None


@dataclass(frozen=True, slots=True)
class ChainStep:
    """What one strategy decided on a candidate, in one sentence, and the numbers it looked at."""

    stage: str
    strategy: str
    outcome: str
    reason: str
    evidence: Mapping[str, float] = field(default_factory=dict)
    #: Fields of the hardware profile that it rests on, with their values, or the schedule's own variables.
    basis: str = ""


@dataclass(frozen=True, slots=True)
class CloseCall:
    """A candidate that was looked at and not measured, though it promised much."""

    candidate_id: str
    predicted_secs: float
    predicted_by: str
    stopped_at: str
    reason: str
    schedule: str


@dataclass(frozen=True, slots=True)
class FailureRow:
    """One kind of failure in all tasks, with an example."""

    kind: str
    count: int
    task_name: str
    candidate_id: str
    message: str
    trace_json: str | None


@dataclass(frozen=True, slots=True)
class TaskReport:
    """One kernel. ``best_secs`` is that of the schedule that ships, ``default_secs`` the untuned one's.

    ``number`` is its place in the result from 1 on, by which `prune-engine explain` knows it, too.

    ``chains`` are the decisions on candidates, by id; ``drops`` sentences on those that have none of their own.
    """

    number: int
    task: TuningTask
    space_size: int | None
    default_secs: float | None
    best_secs: float | None
    best_candidate_id: str
    stop_reason: str
    default_problem: str
    funnel: tuple[FunnelBar, ...]
    trials: tuple[Trial, ...]
    audits: tuple[AuditReport, ...]
    chains: Mapping[str, tuple[ChainStep, ...]]
    drops: tuple[str, ...]
    close_calls: tuple[CloseCall, ...] = ()
    #: What failed when the best were re-timed side by side: candidate, kind and message.
    final_failures: tuple[tuple[str, str, str], ...] = ()

    @property
    def speedup(self) -> float | None:
        """Untuned latency over the shipped one, None if either is unknown."""
        if not self.default_secs or not self.best_secs:
            return None
        return self.default_secs / self.best_secs

    @property
    def bytes_moved(self) -> int:
        """Bytes of all arguments and results, each moved once: the least that any schedule moves."""
        from prune_engine.report.rooflines import argument_bytes

        return argument_bytes(self.task)

    @property
    def n_failed(self) -> int:
        """Trials that gave no latency, and schedules that failed when the best were re-timed."""
        return sum(trial.error_kind is not None for trial in self.trials) + len(self.final_failures)


@dataclass(frozen=True, slots=True)
class ModelLatency:
    """A whole model's latency under one compiler or schedule set."""

    name: str
    median_secs: float
    low_secs: float
    high_secs: float
    n_runs: int


@dataclass(frozen=True, slots=True)
class Ceiling:
    """A line of the roofline: a peak (``flop_per_sec``) or a memory level (``bytes_per_sec``)."""

    name: str
    source: str
    flop_per_sec: float | None = None
    bytes_per_sec: float | None = None


@dataclass(frozen=True, slots=True)
class RunReport:
    """A whole run. ``missing`` are sentences on what could not be told, and why, by section."""

    run: RunRecord
    model: str
    store_url: str
    tasks: tuple[TaskReport, ...]
    latencies: tuple[ModelLatency, ...]
    is_tuned: bool | None
    n_untunable: int
    ceilings: tuple[Ceiling, ...]
    profile_name: str
    audits: tuple[AuditReport, ...]
    failures: tuple[FailureRow, ...]
    policy: str
    environment: tuple[tuple[str, str], ...]
    notes: tuple[str, ...]
    missing: Mapping[str, str]
