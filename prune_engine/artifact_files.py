"""Writes an artefact's files so that a reader sees all of them or none."""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from prune_engine.errors import OutputError

_DISK_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


@contextmanager
def staging_folder(out_dir: Path) -> Iterator[Path]:
    """A temporary folder beside ``out_dir``, on the same disk; gone afterwards. Raises OutputError."""
    try:
        out_dir.parent.mkdir(parents=True, exist_ok=True)
        if out_dir.exists() and not out_dir.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, "there is a file of this name", str(out_dir))
        folder = Path(tempfile.mkdtemp(prefix=f".{out_dir.name}.", suffix=".tmp", dir=out_dir.parent))
    except OSError as error:
        raise output_error(error, out_dir) from error
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def publish(staging: Path, out_dir: Path, names: list[str]) -> None:
    """Move files from the staging folder into ``out_dir``, in this order. Raises OutputError.

    Each move replaces what is there in one step. The last name should be the file readers look at first.
    """
    try:
        out_dir.mkdir(exist_ok=True)
        for name in names:
            _flush(staging / name)
            (staging / name).replace(out_dir / name)
    except OSError as error:
        raise output_error(error, out_dir) from error


def file_digest(path: Path) -> str:
    """Hash of a file's bytes, 32 hexadecimal digits."""
    digest = hashlib.blake2b(digest_size=16)
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def output_error(error: OSError, path: Path) -> OutputError:
    """The error to raise for a failed write."""
    if error.errno in _DISK_FULL:
        return full_error(path, str(error))
    return OutputError(
        f"cannot write here ({error.strerror or error})", who=str(path), remedy="Choose another folder with --out."
    )


def full_error(path: Path, message: str) -> OutputError:
    """The error to raise when a write failed for lack of space."""
    return OutputError(
        "the disk is full while saving",
        who=str(path),
        got=message,
        remedy="Nothing half-written was left. Free some space and run the same command again: "
        "what was measured is in the store.",
    )


def _flush(path: Path) -> None:
    """Make sure the bytes are on disk before the name is: delayed allocation can fail as late as here."""
    with path.open("rb") as file:
        os.fsync(file.fileno())
