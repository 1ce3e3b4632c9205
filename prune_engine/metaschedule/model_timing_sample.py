"""One timed sample of a whole model; the same for every contestant."""

from __future__ import annotations

import time
from collections.abc import Callable

#: Runtimes let their threads spin for a moment after a call; the next contestant must not share with them.
_SETTLE_SECS = 0.02
#: Warm-up before each sample: caches are cold and threads asleep after the others' turns.
_WARM_UP_SECS = 0.02


def sample(call: Callable[[], object], n_calls: int) -> float:
    """Seconds per call over ``n_calls`` calls, after a pause and at least one call to warm up."""
    time.sleep(_SETTLE_SECS)
    started = time.perf_counter()
    while True:
        call()
        if time.perf_counter() - started >= _WARM_UP_SECS:
            break
    started = time.perf_counter()
    for _ in range(n_calls):
        call()
    return (time.perf_counter() - started) / n_calls
