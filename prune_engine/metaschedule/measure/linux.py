"""The few Linux calls Python has no name for, and what /proc tells about processes."""

from __future__ import annotations

import ctypes
import os
import signal
from collections.abc import Iterable
from pathlib import Path

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
#: Every process of a pool carries this variable, with the pool's folder as its value, in its environment.
COOKIE_VARIABLE = "PRUNE_ENGINE_MEASURE_POOL"


def die_with_parent() -> None:
    """Ask the kernel to kill this process when its parent dies, however the parent dies."""
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def adopt_orphans() -> None:
    """Become the parent of descendants whose parent dies, so that none can slip away."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def _prctl(option: int, value: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(option, ctypes.c_ulong(value), 0, 0, 0) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))


def children_of_this_process() -> list[int]:
    """Ids of the direct children, adopted ones included."""
    pid = os.getpid()
    try:
        text = Path(f"/proc/self/task/{pid}/children").read_text()
        return [int(word) for word in text.split()]
    except OSError:  # a kernel without CONFIG_PROC_CHILDREN
        return [child for child in _process_ids() if _parent_of(child) == pid]


def _parent_of(pid: int) -> int | None:
    try:
        # The name in parentheses may contain anything, so fields count from the last parenthesis.
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except (OSError, ValueError, IndexError):
        return None


def is_stopped(pid: int) -> bool:
    """Whether a process is stopped by a signal, or gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "TtZX"
    except (OSError, IndexError):
        return True


def status_bytes(name: str) -> int:
    """A size out of this process's /proc status, such as VmData; 0 where the kernel does not tell."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024
    return 0


def find_marked(cookie: str) -> list[int]:
    """Processes that carry a pool's cookie, except this one: also those that left their process group."""
    needle = f"{COOKIE_VARIABLE}={cookie}".encode()
    found = []
    for pid in _process_ids():
        try:
            is_marked = needle in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        except OSError:  # gone meanwhile, or another user's
            continue
        if is_marked and pid != os.getpid():
            found.append(pid)
    return found


def kill_marked(cookie: str) -> None:
    """Kill every process that carries a pool's cookie, until a look finds none."""
    for _ in range(10):
        marked = find_marked(cookie)
        if not marked:
            return
        kill_all(marked)


def kill_all(pids: Iterable[int]) -> None:
    """Send SIGKILL to each process that still exists."""
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue


def _process_ids() -> list[int]:
    return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]


def kill_group(pid: int, number: int) -> None:
    """Send a signal to a process group that may be gone."""
    try:
        os.killpg(pid, number)
    except (ProcessLookupError, PermissionError):
        # PermissionError is what some kernels report for a group of zombies.
        return
