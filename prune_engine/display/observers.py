"""Who shows how a run goes on, for commands and functions alike."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from prune_engine.display.streams import telling_warnings

if TYPE_CHECKING:
    from prune_engine.lifecycle import Observer


@contextmanager
def progress_observer(quiet: bool, as_json: bool) -> Iterator[Observer]:
    """Who shows progress: nobody, JSON lines, a live display on a terminal, else plain lines."""
    from prune_engine.display.progress import JsonProgress, LineProgress, LiveProgress
    from prune_engine.display.style import is_live
    from prune_engine.lifecycle import SilentObserver

    if quiet:
        yield SilentObserver()
    elif as_json:
        progress = JsonProgress()
        with telling_warnings(progress.on_status):  # each line of it is JSON
            yield progress
    elif is_live(sys.stderr):
        from rich.console import Console

        with LiveProgress(Console(stderr=True)) as live:
            yield live
    else:
        yield LineProgress()
