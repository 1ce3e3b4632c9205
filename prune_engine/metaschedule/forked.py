"""Try in a copy of this process what may bring a process down: the compiler reads what it is given unchecked."""

from __future__ import annotations

import faulthandler
import os
import resource
import select
import signal
import warnings
from collections.abc import Callable

#: What the copy may take beside what this process has: a few kilobytes of text can ask for terabytes.
_MEMORY_BYTES = 4 << 30
_TIMEOUT_SECS = 120.0
_CAN_FORK = hasattr(os, "fork")


def crash_of(function: Callable[[], object], timeout_secs: float = _TIMEOUT_SECS) -> str | None:
    """Run a function in a fork of this process, for nothing but to see whether that survives it.

    Returns None if it does, also where the function raises, and where there is no fork; else what happened, in a
    clause. It takes milliseconds beside the function itself.
    """
    if not _CAN_FORK:
        return None
    reader, writer = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of threads: the copy does nothing but run the function
        child = os.fork()
    if not child:
        _run(function)
    os.close(writer)
    try:  # the other end closes when the copy ends, however it does
        has_ended = bool(select.select([reader], [], [], timeout_secs)[0])
        if not has_ended:
            os.kill(child, signal.SIGKILL)
    finally:
        os.close(reader)
        _, status = os.waitpid(child, 0)
    if not has_ended:
        return f"the compiler does not come to an end with it within {timeout_secs:g} seconds"
    if os.WIFSIGNALED(status):
        return f"the compiler crashes on it ({signal.Signals(os.WTERMSIG(status)).name})"
    return None


def _run(function: Callable[[], object]) -> None:
    """The copy's whole life: no clean-up of what is the original's, and not a word."""
    try:
        faulthandler.disable()
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        with open("/proc/self/statm", encoding="ascii") as file:  # noqa: PTH123
            n_bytes = int(file.read().split()[0]) * resource.getpagesize()
        _, most = resource.getrlimit(resource.RLIMIT_AS)
        wanted = n_bytes + _MEMORY_BYTES
        resource.setrlimit(resource.RLIMIT_AS, (wanted if most < 0 else min(wanted, most), most))
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 1)
        os.dup2(nowhere, 2)
        function()
    except BaseException:  # noqa: BLE001  # the original will meet it, and tell
        pass
    finally:
        os._exit(0)
