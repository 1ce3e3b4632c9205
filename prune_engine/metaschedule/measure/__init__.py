"""Building and running candidates in processes of their own, so that nothing a kernel does can hurt the engine.

The pool's process starts one server, which imports TVM once and then forks a child per build and per run
within milliseconds. A build child writes a shared library; a run child loads it, times it in stages and
checks its outputs against those of the task's default schedule. Crashes, hangs, memory hogs and wrong
results come back as typed errors.

**Why timings are undisturbed although builds and runs overlap**: a kernel is timed only inside a *window*,
which one run child has at a time. Before a window opens every other child (builds, and runs that load or
check) is stopped with SIGSTOP and seen to be stopped, and it opens only while the pool's own process sleeps
waiting for results; the server sleeps too, and forks and sends nothing until the window closes. What others
on the machine do cannot be stopped, but it is noticed (``load.py``): a full timing that was disturbed is
repeated once and flagged if it was disturbed again. Kernels run on ``n_threads`` threads, pinned to as many
processors.
"""

from prune_engine.metaschedule.measure.jobs import ArtifactJob, BuildJob, DefaultJob, Job, JobResult
from prune_engine.metaschedule.measure.pool import MeasurePool
from prune_engine.metaschedule.measure.settings import MeasureSettings
from prune_engine.metaschedule.measure.timing import TimingPlan
from prune_engine.metaschedule.measure.warm import WarmServer

__all__ = [
    "ArtifactJob",
    "BuildJob",
    "DefaultJob",
    "Job",
    "JobResult",
    "MeasurePool",
    "MeasureSettings",
    "TimingPlan",
    "WarmServer",
]
