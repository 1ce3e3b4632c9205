"""What plugins print: to stderr, line by line, with the plugin's name, and not without end."""

from __future__ import annotations

import io
import sys
from functools import lru_cache

#: Lines of one plugin that are shown, and characters of a line.
_MAX_LINES = 100
_MAX_CHARS = 500


class NamedOutput(io.TextIOBase):
    """Stands in for stdout while a plugin runs: stdout is for results alone."""

    def __init__(self, who: str) -> None:
        self._who = who
        self._begun = ""
        self._n_lines = 0

    @staticmethod
    @lru_cache(maxsize=1024)
    def of(who: str) -> NamedOutput:
        """The output of one plugin's strategy or hook, the same object each time: its lines are counted."""
        return NamedOutput(who)

    def writable(self) -> bool:
        """True: ``print`` asks."""
        return True

    def write(self, text: str) -> int:
        """Show the lines that end in ``text``; the last, if it does not, waits for its end."""
        if self._n_lines > _MAX_LINES:
            return len(text)
        *lines, self._begun = (self._begun + text[: _MAX_LINES * _MAX_CHARS]).split("\n")
        self._begun = self._begun[:_MAX_CHARS]
        for line in lines:
            self._n_lines += 1
            if self._n_lines > _MAX_LINES:
                self._show("printed more, which is not shown")
                self._begun = ""
                break
            self._show(f"printed: {line[:_MAX_CHARS]}")
        return len(text)

    def _show(self, line: str) -> None:
        if sys.stderr is not None:
            sys.stderr.write(f"{self._who} {line}\n")
