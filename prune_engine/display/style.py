"""Colour or plain text: what the command line, the environment and the terminal say, in this order.

The answer is put into the environment, where rich, which draws help and tables, and processes of ours find it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from enum import Enum
from typing import TextIO

from prune_engine.errors import ConfigError

#: Colours of words that begin a line: red and yellow.
_CODES = {"error": 31, "warning": 33}


class Colour(str, Enum):
    """When to colour: ``auto`` is on a terminal that can, unless NO_COLOR is set, or where FORCE_COLOR is."""

    AUTO = "auto"
    ALWAYS = "always"
    NEVER = "never"


def take_style(arguments: Sequence[str]) -> list[str]:
    """Take ``--plain`` and ``--color WHEN`` out of a command line, wherever they stand, and act on them.

    What follows ``--`` is left alone. Raises ConfigError if WHEN is no such word.
    """
    left: list[str] = []
    words = iter(arguments)
    for word in words:
        if word == "--":
            return [*left, word, *words]
        option, equals, value = word.partition("=")
        if word == "--plain":
            set_style(is_plain=True)
        elif option in ("--color", "--colour"):
            set_style(_colour(value if equals else next(words, "")))
        else:
            left.append(word)
    return left


def set_style(colour: Colour | None = None, *, is_plain: bool = False) -> None:
    """Make what is printed from now on plain, or coloured or not; ``auto`` and None leave it to the environment."""
    if is_plain:  # also without bold type and lines that are drawn again
        os.environ["TERM"] = "dumb"
    if is_plain or colour is Colour.NEVER:
        os.environ["NO_COLOR"] = "1"
        os.environ.pop("FORCE_COLOR", None)
    elif colour is Colour.ALWAYS:
        os.environ["FORCE_COLOR"] = "1"
        os.environ.pop("NO_COLOR", None)
        if is_dumb():
            os.environ["TERM"] = "xterm-256color"


def is_dumb() -> bool:
    """Whether the terminal cannot move its cursor, or is to be treated so."""
    return os.environ.get("TERM", "").lower() in ("dumb", "unknown")


def is_live(stream: TextIO) -> bool:
    """Whether lines may be drawn again: on a terminal that can."""
    return stream.isatty() and not is_dumb()


def wants_colour(stream: TextIO) -> bool:
    """Whether text on a stream is coloured. What rich does, without importing it."""
    if os.environ.get("NO_COLOR") or is_dumb():
        return False
    return bool(os.environ.get("FORCE_COLOR")) or stream.isatty()


def painted(line: str, stream: TextIO) -> str:
    """Return a line whose first word warns of something, with that word in colour, where there is colour."""
    head, colon, rest = line.partition(":")
    code = _CODES.get(head)
    return f"\x1b[1;{code}m{head}:\x1b[0m{rest}" if code and colon and wants_colour(stream) else line


def print_error(message: str) -> None:
    """Print what ends the program, on stderr."""
    print(painted(f"error: {message}", sys.stderr), file=sys.stderr)


def _colour(word: str) -> Colour:
    try:
        return Colour(word)
    except ValueError as error:
        raise ConfigError(
            "cannot be read",
            who="--color",
            got=repr(word),
            expected=", ".join(member.value for member in Colour),
        ) from error
