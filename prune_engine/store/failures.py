"""What a database says when it fails, turned into store errors that say what to do."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import exc

from prune_engine.errors import StoreError, StoreFullError, StoreLockedError

#: Less free space than this and we blame a failed write on it: some failures for lack of space do not say so.
_LITTLE_SPACE_BYTES = 1 << 20


@contextmanager
def store_errors(url: str, file: Path | None, wait_secs: float) -> Iterator[None]:
    """Turn what SQLAlchemy and the driver raise in the block into StoreError and its kinds.

    ``url`` names the store in messages; ``file`` is its file, None for a server or memory.
    """
    try:
        yield
    except (exc.SQLAlchemyError, sqlite3.Error) as error:  # the driver's own: while a connection is set up
        raise _translated(error, url, file, wait_secs) from error
    except (ValueError, OverflowError) as error:
        # What the driver cannot bind, and what was written by a version that knows more kinds of things.
        raise StoreError("a value cannot be stored or read", who=url, got=error) from error


def _translated(error: Exception, url: str, file: Path | None, wait_secs: float) -> StoreError:
    # The text, not the code: the standard library tells sqlite's code only from Python 3.11 on.
    text = str(getattr(error, "orig", None) or error).strip()
    if "locked" in text or "database is busy" in text:
        return StoreLockedError(
            f"another process held the write lock for more than {wait_secs:g} s",
            who=url,
            remedy=f"{_who_holds(file)} Nothing was written; the same command resumes where this one stopped.",
        )
    is_vague = "I/O error" in text or "unable to open" in text
    if "database or disk is full" in text or (is_vague and _is_nearly_full(file)):
        return StoreFullError(
            "no space left to write to",
            who=url,
            remedy="What was committed before is intact. Make space, or choose another place, and run again.",
        )
    if isinstance(error, (exc.IntegrityError, sqlite3.IntegrityError)):
        return StoreError(
            "a record contradicts what is stored",
            who=url,
            got=text,
            expected="a run that was started and tasks that were added before what refers to them",
        )
    if "not a database" in text or "malformed" in text:
        return StoreError(
            "the file is not a database, or a damaged one",
            who=url,
            got=text,
            remedy="Name another file, or move this one away; a new store is made when none is there.",
        )
    if "readonly" in text or "unable to open" in text:
        return StoreError(
            "the store cannot be opened for writing",
            who=url,
            got=text,
            remedy="Name a file in a folder that you can write to; of one on a read-only disk a copy can be read.",
        )
    return StoreError("the database failed", who=url, got=text)


def _is_nearly_full(file: Path | None) -> bool:
    """Whether the file system has hardly any space or no more room for files."""
    if file is None:
        return False
    try:
        disk = os.statvfs(file.parent)
    except OSError:
        return False
    # A limit of 0 is no limit: some file systems do not count files, /proc and the like have no blocks.
    has_no_space_left = disk.f_blocks > 0 and disk.f_bavail * disk.f_frsize < _LITTLE_SPACE_BYTES
    has_no_files_left = disk.f_files > 0 and disk.f_favail == 0
    return has_no_space_left or has_no_files_left


def _who_holds(file: Path | None) -> str:
    """Name the other processes that have the store open, as far as this user may see them."""
    if file is None:
        return "See which other process uses this database."
    import psutil  # slow to import, and only of use once something is wrong

    holders: list[str] = []
    path = str(file.resolve())
    for process in psutil.process_iter():
        try:
            if process.pid != os.getpid() and any(opened.path == path for opened in process.open_files()):
                holders.append(f"{process.pid} ({' '.join(process.cmdline()[:4])[:80]})")
        except (psutil.Error, OSError):
            continue
    if holders:
        return f"It is held open by process {', '.join(holders)}: wait for it or stop it."
    return "No other process of yours has the file open here: look on other machines that share the folder."
