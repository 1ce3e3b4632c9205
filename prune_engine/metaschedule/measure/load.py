"""Load detection: whether something else ran while a kernel was timed."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path

#: Share of the timed span that may be lost to others before a sample counts as noisy.
_ACCEPTED_SHARE = 0.05
#: Processor time in /proc/stat comes in ticks of 10 ms per processor, so less than this says nothing.
_RESOLUTION_SECS = 0.04
_ACCEPTED_WAIT_SECS = 0.0005


@dataclass(frozen=True, slots=True)
class _Sample:
    wall_secs: float
    own_cpu_secs: float
    #: All processors together, this process included.
    busy_secs: float
    stolen_secs: float
    #: Time this process's threads were ready but did not get a processor.
    waited_secs: float


class ProcLoadWatch:
    """Compares what the machine did with what this process did, from /proc.

    Three signs of disturbance: this process's threads waited for a processor (exact, in nanoseconds, but
    meaningless when there are more threads than processors); other processes used processor time; the
    hypervisor took processors away.
    """

    def __init__(self, n_threads: int, n_cpus: int) -> None:
        self._n_cpus = n_cpus
        self._n_threads = n_threads
        self._first = _sample()

    def start(self) -> None:
        """Begin to watch."""
        self._first = _sample()

    def is_noisy(self) -> bool:
        """Whether other load took more than a twentieth of the time since ``start``."""
        first, last = self._first, _sample()
        wall = last.wall_secs - first.wall_secs
        waited = last.waited_secs - first.waited_secs
        if self._n_threads <= self._n_cpus and waited > max(_ACCEPTED_WAIT_SECS, _ACCEPTED_SHARE * wall):
            return True
        stolen = last.stolen_secs - first.stolen_secs
        others = (last.busy_secs - first.busy_secs) - (last.own_cpu_secs - first.own_cpu_secs)
        accepted = max(_RESOLUTION_SECS, 2 * _ACCEPTED_SHARE * wall * (os.cpu_count() or 1))
        return others > accepted or stolen > accepted


def _sample() -> _Sample:
    busy, stolen = _machine_secs()
    return _Sample(time.monotonic(), time.process_time(), busy, stolen, _waited_secs())


def _machine_secs() -> tuple[float, float]:
    with Path("/proc/stat").open() as lines:
        ticks = [int(word) for word in lines.readline().split()[1:9]]
    user, nice, system, _idle, _iowait, irq, softirq, steal = ticks
    per_sec = os.sysconf("SC_CLK_TCK")
    return (user + nice + system + irq + softirq) / per_sec, steal / per_sec


def _waited_secs() -> float:
    total_ns = 0
    for task in Path("/proc/self/task").iterdir():
        try:
            total_ns += int((task / "schedstat").read_text().split()[1])
        except (OSError, IndexError):  # a thread that just ended, or a kernel without schedstat
            continue
    return total_ns / 1e9
