"""How busy other programs keep this machine, from what the kernel counts."""

from __future__ import annotations

import os
import time
from pathlib import Path

#: Columns of a line of /proc/stat that are no work: idle, waiting for a disk. Guests are in the first two already.
_IDLE_COLUMNS, _N_COLUMNS = (3, 4), 8


class LoadMeter:
    """Counts what other programs use from its creation on. ``root`` replaces the file system."""

    def __init__(self, root: Path = Path("/")) -> None:
        self._root = root
        self._start = self._counts()

    def others_share(self) -> float | None:
        """Part of all processors' time that others used since then, 0 to 1; None if the kernel does not tell.

        On a virtual machine that includes what its host gave to other machines.
        """
        now = self._counts()
        if now is None or self._start is None or now[0] <= self._start[0]:
            return None
        available, busy, own = (end - start for end, start in zip(now, self._start, strict=True))
        return min(1.0, max(0.0, busy - own) / available)

    def _counts(self) -> tuple[float, float, float] | None:
        """Seconds so far: of all processors, of them busy, of them for this process."""
        try:
            lines = (self._root / "proc/stat").read_text().splitlines()
            ticks = [int(text) for text in lines[0].split()[1 : 1 + _N_COLUMNS]]
            busy = sum(n for i, n in enumerate(ticks) if i not in _IDLE_COLUMNS) / os.sysconf("SC_CLK_TCK")
        except (OSError, ValueError, IndexError):
            return None
        n_processors = sum(line.startswith("cpu") for line in lines) - 1
        own = os.times()
        return time.monotonic() * n_processors, busy, own.user + own.system
