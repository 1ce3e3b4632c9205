"""What goes into the measuring processes and what comes out."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from prune_engine.measurement import MeasureError
from prune_engine.numeric_safety import SafetyCase


@dataclass(frozen=True, slots=True)
class BuildJob:
    """A candidate to build and run: ``module_json`` is ``tvm.ir.save_json`` of its post-processed IRModule.

    The module's entry function is ``main``; ``job_id`` is the caller's, unique within one call.
    """

    job_id: str
    module_json: str


@dataclass(frozen=True, slots=True)
class ArtifactJob:
    """A kernel that is already a shared library with the entry ``main``; its build is a copy of the file."""

    job_id: str
    path: str


@dataclass(frozen=True, slots=True)
class DefaultJob:
    """A task's untuned schedule: what it computes is the reference of the task ``task_id``.

    ``main`` of the module takes one buffer per shape and dtype.
    """

    task_id: str
    module_json: str
    arg_shapes: Sequence[Sequence[int]]
    arg_dtypes: Sequence[str]


Job = BuildJob | ArtifactJob


@dataclass(frozen=True, slots=True)
class JobResult:
    """What became of one job.

    ``run_secs`` holds one latency (seconds per call) per repeat, empty exactly if ``error`` is set.
    ``stage`` is how far the timing went (0: one call, 1: three calls, 2: full repeats); ``is_censored``
    says that it was stopped there because the kernel was clearly slower than the incumbent. ``is_noisy``
    says that other load disturbed the timing, also on a second try. ``build_secs`` is the time the build
    ran, pauses excluded; ``load_average`` is the machine's, our own builds included. ``cases`` are those of a run
    on hard inputs, which is not timed.
    """

    job_id: str
    run_secs: tuple[float, ...]
    error: MeasureError | None
    build_secs: float
    stage: int = 2
    is_censored: bool = False
    is_noisy: bool = False
    load_average: float = 0.0
    cases: tuple[SafetyCase, ...] = ()

    @property
    def latency_secs(self) -> float | None:
        """Median latency of one call, or None if the job failed."""
        return statistics.median(self.run_secs) if self.run_secs else None
