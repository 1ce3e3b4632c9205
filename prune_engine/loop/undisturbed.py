"""Deciding without Python's collector of reference cycles, which would go through all that a search has made."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def undisturbed() -> Iterator[None]:
    """Let the collector wait until this is done. Whoever switched it off finds it switched off afterwards.

    Loop structures and expressions are kept and hold no cycles: looking for some among hundreds of thousands of
    them is up to a tenth of a first round, and finds nothing. What a round leaves is collected after it.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
