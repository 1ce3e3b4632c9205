"""Keeps the compiler's chatter off the user's terminal."""

from __future__ import annotations

import os
import sys
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass


@dataclass
class Captured:
    """What was written meanwhile; filled when the block ends."""

    text: str = ""
    warnings: tuple[str, ...] = ()


@contextmanager
def captured_stderr() -> Iterator[Captured]:
    """Collect Python warnings and whatever is written to file descriptor 2 meanwhile.

    TVM logs from C++ straight to the descriptor, so ``sys.stderr`` alone would not do. The descriptor
    belongs to the whole process: what other threads print to stderr meanwhile is collected too.
    """
    captured = Captured()
    sys.stderr.flush()
    saved = os.dup(2)
    try:
        with tempfile.TemporaryFile() as file, warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            os.dup2(file.fileno(), 2)
            try:
                yield captured
            finally:
                sys.stderr.flush()
                os.dup2(saved, 2)
                file.seek(0)
                captured.text = file.read().decode(errors="replace")
                captured.warnings = tuple(str(w.message) for w in caught)
    finally:
        os.close(saved)
