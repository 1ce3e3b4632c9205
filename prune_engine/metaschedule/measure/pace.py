"""How fast the machine is just now: latencies are told as they would be at the pace of the pool's start.

Other guests of a host, and clocks that step, change a processor's pace by half for a moment or for minutes.
All that runs on it is changed alike, so a little fixed work, timed before and after a kernel, tells by how much.
Without that a search takes the schedules that were timed in good moments for the fast ones.
"""

from __future__ import annotations

import statistics
import time
from collections import deque
from collections.abc import Callable

import numpy as np

#: Arithmetic on so many floats, which stay in a first-level cache, and how often: about 80 microseconds.
_N_FLOATS, _N_ROUNDS = 4096, 30
#: Rounds before that are not timed: the kernel has emptied the caches.
_N_WARM = 15
#: Probes of the pace at the start, and the newest of a kernel's that are believed together: one alone is noisy.
_N_FIRST, _N_BELIEVED = 63, 24
#: How much of the fixed work's change a kernel has, as an exponent: 0.6 by single probes, 0.8 to 0.9 by medians.
_SHARED = 0.85
#: What differs by more than this is no matter of pace.
_MOST = 3.0


class Pace:
    """The pace at the start, against which later ones are held. Forked children go on with a copy."""

    def __init__(self, probe: Callable[[], float] | None = None) -> None:
        """Find out what the pace is now. ``probe`` gives seconds of some fixed work."""
        self._work = probe or _Work().secs
        self._newest: deque[float] = deque(maxlen=_N_BELIEVED)
        self.first_secs = statistics.median(self._work() for _ in range(_N_FIRST))

    def probe(self) -> None:
        """Do the fixed work once more."""
        self._newest.append(self._work())

    @property
    def slowdown(self) -> float:
        """By how much kernels are slower now than at the start, below 1 where they are faster."""
        if not self._newest or self.first_secs <= 0:
            return 1.0
        ratio = statistics.median(self._newest) / self.first_secs
        slowdown: float = min(max(ratio, 1 / _MOST), _MOST) ** _SHARED
        return slowdown

    def paced(self, time_calls: Callable[[int], float]) -> Callable[[int], float]:
        """``time_calls`` with its seconds held against the pace while it ran."""

        def timed(n_calls: int) -> float:
            self.probe()
            secs = time_calls(n_calls)
            self.probe()
            return secs / self.slowdown

        return timed


class _Work:
    def __init__(self) -> None:
        self._a = np.linspace(0.5, 1.0, _N_FLOATS, dtype=np.float32)
        self._b, self._c = self._a.copy(), np.float32(0.999)

    def secs(self) -> float:
        self._rounds(_N_WARM)
        begun = time.perf_counter()
        self._rounds(_N_ROUNDS)
        return time.perf_counter() - begun

    def _rounds(self, n: int) -> None:
        for _ in range(n):
            np.multiply(self._a, self._c, out=self._b)
            np.add(self._b, self._a, out=self._b)
