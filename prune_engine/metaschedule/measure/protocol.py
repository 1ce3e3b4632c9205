"""What the pool and its server say to each other.

The two take turns, strictly. The pool submits orders, then says ``Wait`` and sleeps; the server answers each
``Wait`` with exactly one ``Done``. So neither can block on a full socket, and the server knows when the
pool's process is asleep, which it must be while a kernel is timed.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path

from prune_engine.metaschedule.measure.jobs import BuildJob, Job, JobResult
from prune_engine.metaschedule.measure.settings import MeasureSettings
from prune_engine.numeric_safety import FpPolicy

#: Below the pool's folder: one folder per job, alive as long as the job.
JOBS_FOLDER = "jobs"
#: In a job's folder: the kernel in float64.
WIDE_FILE = "wide.so"


def kept_library(task_folder: str, job: BuildJob) -> Path:
    """Where the library of a kernel that was timed in full stays, so that finals need not build it again."""
    return Path(task_folder) / f"{hashlib.blake2b(job.module_json.encode(), digest_size=12).hexdigest()}.so"


class RunMode(Enum):
    """What is wanted from running a kernel."""

    REFERENCE = "reference"  #: time in full, keep the outputs for the others to be checked against
    STAGED = "staged"  #: check, and time as far as it is promising
    PAIRED = "paired"  #: check, then take turns with the other kernels of the batch, one repeat each
    STRESS_REFERENCE = "stress_reference"  #: keep what the others must compute of hard inputs
    STRESS = "stress"  #: check on hard inputs, do not time


@dataclass(frozen=True, slots=True)
class Configure:
    """First message to a new server. ``folder`` is the pool's folder."""

    settings: MeasureSettings
    folder: str


@dataclass(frozen=True, slots=True)
class Ready:
    """First message from a server that can work; ``problem`` says why it cannot."""

    problem: str | None = None


@dataclass(frozen=True, slots=True)
class Order:
    """One job with all that is needed to do it; the server remembers nothing about tasks.

    ``task_folder`` holds the reference outputs. Timeouts in seconds of the job's own time.
    ``stress_budget_secs`` is what making a reference for hard inputs may take before the rest of them is left out.
    """

    batch: int
    job: Job
    mode: RunMode
    task_folder: str
    arg_shapes: tuple[tuple[int, ...], ...]
    arg_dtypes: tuple[str, ...]
    build_timeout_secs: float
    run_timeout_secs: float
    incumbent_secs: float | None = None
    n_repeats: int = 0
    policy: FpPolicy = field(default_factory=FpPolicy)
    stress_budget_secs: float = 1.0


@dataclass(frozen=True, slots=True)
class Wait:
    """The pool sleeps until it gets a ``Done``."""


@dataclass(frozen=True, slots=True)
class Cancel:
    """Forget all orders and kill what works on them."""


@dataclass(frozen=True, slots=True)
class Done:
    """One job is through."""

    batch: int
    result: JobResult


ToServer = Configure | Order | Wait | Cancel
FromServer = Ready | Done
