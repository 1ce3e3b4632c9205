"""Standard streams that are closed, full, or not there at all."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from prune_engine.display.style import painted
from prune_engine.errors import OutputError


def open_closed_streams() -> None:
    """Give this process the standard streams that whoever started it closed (``>&-``): they lead nowhere.

    The next file to be opened would otherwise get the descriptor of stderr, and compilers write there.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is not None:
            continue
        try:
            os.fstat(number)
        except OSError:
            descriptor = os.open(os.devnull, os.O_RDWR)
            if descriptor != number:
                os.dup2(descriptor, number)
                os.close(descriptor)
        stream = Path(os.devnull).open("r" if number == 0 else "w")  # noqa: SIM115  # for as long as the process lives
        setattr(sys, name, stream)


def abandon_streams() -> None:
    """Let nothing be written to stdout and stderr any more."""
    for name in ("stdout", "stderr"):
        setattr(sys, name, Path(os.devnull).open("w"))  # noqa: SIM115  # for as long as the process lives


def say(line: str) -> None:
    """Print a line on stderr. If the disk behind it is full, nothing more is said, but the work goes on."""
    try:
        print(painted(line, sys.stderr), file=sys.stderr, flush=True)
    except BrokenPipeError:
        raise
    except OSError:
        sys.stderr = Path(os.devnull).open("w")  # noqa: SIM115  # for as long as the process lives


@contextmanager
def telling_warnings(tell: Callable[[str], None] = say) -> Iterator[None]:
    """Let Python's warnings to users be told as all others are, without the place in our code that gave them."""
    show = warnings.showwarning

    def told(
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        file: TextIO | None = None,
        line: str | None = None,
    ) -> None:
        if issubclass(category, UserWarning):
            tell(f"warning: {message}")
        else:  # for developers
            show(message, category, filename, lineno, file, line)

    warnings.showwarning = told
    try:
        yield
    finally:
        warnings.showwarning = show


@contextmanager
def writing_to_stdout(remedy: str) -> Iterator[None]:
    """Turn a failed write (a full disk behind a redirection) into an OutputError; a closed pipe stays one."""
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        if error.filename is not None:  # a file that somebody named: not this stream
            raise
        # Python would try to write the rest once more when it ends.
        sys.stdout = Path(os.devnull).open("w")  # noqa: SIM115  # for as long as the process lives
        raise OutputError(
            "cannot be written", who="standard output", got=error.strerror or str(error), remedy=remedy
        ) from error
