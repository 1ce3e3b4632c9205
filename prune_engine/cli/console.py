"""Where results are printed: as wide as the terminal, and uncut in files and pipes."""

from __future__ import annotations

import sys

from rich.console import Console

#: Width of what is no terminal: wide enough that nothing is cut.
_PLAIN_WIDTH = 200


def result_console() -> Console:
    """A console on stdout that colours nothing by itself."""
    return Console(highlight=False, width=None if sys.stdout.isatty() else _PLAIN_WIDTH)
