"""What a measurement is, how it can fail, and what a measuring backend must offer."""

from __future__ import annotations

import statistics
from collections.abc import Generator, Iterator, Sequence, Set
from dataclasses import dataclass
from enum import Enum
from typing import Protocol, runtime_checkable

from prune_engine.candidates import Candidate
from prune_engine.space import DesignSpace, Sketch
from prune_engine.task import TuningTask

#: Identity of a task's untuned schedule among its measurements.
DEFAULT_CANDIDATE = "default"
#: The device that measurements of a replay are filed under, where nothing ran.
REPLAY_DEVICE = "replay"
#: Latency over the incumbent's above which a measurement stops after its first call, and after three calls.
STOP_RATIOS = (3.0, 1.3)


class MeasureErrorKind(Enum):
    """How a candidate failed."""

    SCHEDULE_ERROR = "schedule_error"  #: the compiler refused the schedule while replaying or post-processing
    BUILD_ERROR = "build_error"
    BUILD_TIMEOUT = "build_timeout"
    RUN_ERROR = "run_error"
    RUN_TIMEOUT = "run_timeout"
    CRASH = "crash"
    WRONG_RESULT = "wrong_result"
    OUT_OF_MEMORY = "out_of_memory"


@dataclass(frozen=True, slots=True)
class MeasureError:
    """A typed failure; never an exception through the loop, never a sentinel cost."""

    kind: MeasureErrorKind
    message: str


@dataclass(frozen=True, slots=True)
class Measurement:
    """One candidate's measurement on one device.

    ``run_secs`` holds one latency per repeat (seconds per call), empty if it failed. ``is_censored`` says
    that the measurement was stopped early because the candidate was clearly slower than the incumbent;
    then ``stage`` names the stage (0: one call, 1: three calls, 2: full repeats) and the latency is good
    enough to rank as a loser, not to compare. ``is_noisy`` marks a sample taken while other load ran.
    ``measured_at`` is seconds since the epoch (UTC).
    """

    candidate_id: str
    run_secs: tuple[float, ...]
    error: MeasureError | None
    build_secs: float
    device_name: str
    n_threads: int
    profile_digest: str
    measured_at: float
    stage: int = 2
    is_censored: bool = False
    is_noisy: bool = False
    load_average: float = 0.0

    def __post_init__(self) -> None:
        if (self.error is None) != bool(self.run_secs):
            raise ValueError(f"candidate {self.candidate_id}: a measurement has either latencies or an error")

    @property
    def latency_secs(self) -> float | None:
        """Median latency of one call, or None if the candidate failed."""
        return statistics.median(self.run_secs) if self.run_secs else None


@dataclass(frozen=True, slots=True)
class MeasuredCandidate:
    """A candidate with its measurement; ``candidate`` is None for the task's default schedule.

    ``trace_json`` is the compiler's own text of the schedule, so that others can replay it.
    """

    candidate: Candidate | None
    measurement: Measurement
    trace_json: str | None = None


@dataclass(frozen=True, slots=True)
class Comparison:
    """Interleaved repeats of several schedules of one task: ``run_secs[i]`` belongs to ``candidate_ids[i]``."""

    candidate_ids: tuple[str, ...]
    run_secs: tuple[tuple[float, ...], ...]
    errors: tuple[MeasureError | None, ...]


@runtime_checkable
class Workbench(Protocol):
    """A compiler and a device, as the engine sees them. The adapter package provides one; tests provide fakes."""

    def design_space(self, task: TuningTask) -> DesignSpace:
        """The task's design space. Raises SpaceError."""

    def device_name(self) -> str:
        """What the measurements are valid for: processor model or device."""

    def n_threads(self) -> int:
        """Threads every kernel runs on."""

    def measure_defaults(self, tasks: Sequence[TuningTask]) -> Generator[tuple[TuningTask, MeasuredCandidate]]:
        """Measure untuned schedules, yielding each with its task as it is done, in any order.

        What a default computes becomes the reference of its task. Closing the iterator drops the rest.
        """

    def refusal(self, space: DesignSpace, candidate: Candidate) -> str | None:
        """Why the compiler does not take a candidate, None if it does: asked where nothing else can tell."""

    def measure(
        self,
        space: DesignSpace,
        candidates: Sequence[Candidate],
        incumbent_secs: float | None,
        known_ids: Set[str] = frozenset(),
    ) -> Iterator[MeasuredCandidate]:
        """Build and run candidates, yielding each as it is done, in any order.

        A returned candidate may differ from the one asked for when the compiler repaired a decision; it
        then has the identity of what was really run. One that is repaired into a candidate of
        ``known_ids``, or of this batch, is not run and not returned.
        """

    def compare(self, space: DesignSpace, candidates: Sequence[Candidate | None]) -> Comparison:
        """Re-time schedules against each other, interleaved; None stands for the default schedule."""

    def close(self) -> None:
        """Stop every process and remove every temporary file."""


@runtime_checkable
class FixesSchedules(Protocol):
    """What a workbench can offer besides: schedules that no sketch of a generated space holds."""

    def fixed_sketch(self, space: DesignSpace, trace_json: str) -> Sketch:
        """A sketch whose only candidate is this schedule, the compiler's text with or without post-processing.

        It is opaque, its number is that of the sketches in ``space``, and a schedule has always one ``sketch_id``.
        The workbench measures the candidate in a space that holds the sketch at that number.

        Raises SpaceError where the schedule does not fit the task.
        """


@runtime_checkable
class WritesSchedules(Protocol):
    """What a workbench can offer besides: the text of a schedule that was not measured."""

    def schedule_text(self, space: DesignSpace, candidate: Candidate) -> str | None:
        """A candidate's schedule as ``MeasuredCandidate.trace_json`` has it; None if the compiler refuses it."""
