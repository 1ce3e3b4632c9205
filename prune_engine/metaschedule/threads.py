"""The threads of TVM's runtime: how many, and on which processors."""

from __future__ import annotations

import os
import warnings

from prune_engine.metaschedule._compat import import_tvm

_VARIABLE = "TVM_NUM_THREADS"


def thread_variables(n_threads: int) -> dict[str, str]:
    """Environment of a process in which TVM's kernels are to run on ``n_threads`` threads.

    TVM binds its threads to processors counted from 0, whether the process may use those or not. Where it may not
    use all (taskset, a container's cpuset), that is switched off.
    """
    variables = {_VARIABLE: str(n_threads)}
    if len(os.sched_getaffinity(0)) < (os.cpu_count() or 1):
        variables["TVM_BIND_THREADS"] = "0"
    return variables


def use_threads(n_threads: int) -> bool:
    """Make TVM's kernels in this process run on ``n_threads`` threads; return whether they will.

    TVM reads the number once, when its pool starts, and by itself takes half of the processors on x86.
    If the pool runs already with another number this warns: nothing can change it any more.
    """
    os.environ.update(thread_variables(n_threads))
    # Asking starts the pool if it does not run yet, so the answer is final.
    actual = int(import_tvm().get_global_func("runtime.NumThreads")())
    if actual == n_threads:
        return True
    warnings.warn(
        f"TVM's threads were started with {actual} instead of {n_threads} in this process; "
        f"start it with {_VARIABLE}={n_threads} for the speed that was measured",
        stacklevel=2,
    )
    return False
