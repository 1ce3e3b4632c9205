"""Progress of what usually takes no time: nothing is said unless it does."""

from __future__ import annotations

import time
from collections.abc import Callable

from prune_engine.display.streams import say

#: Seconds of silence at first, and the most there are between two lines.
_PATIENCE_SECS, _MAX_PATIENCE_SECS = 2.0, 30.0


class LateProgress:
    """Says a line on stderr now and then, from two seconds after it was made; the longer it takes the rarer."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._last, self._patience = clock, clock(), _PATIENCE_SECS

    def tell(self, line: str) -> None:
        """Say where the work stands, if it is time to."""
        now = self._clock()
        if now - self._last >= self._patience:
            self._last, self._patience = now, min(1.5 * self._patience, _MAX_PATIENCE_SECS)
            say(line)
