"""Writes an artefact's files so that a reader sees all of them or none."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import shutil
import signal
import sys
import tempfile
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

from prune_engine.errors import OutputError

_DISK_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_FULL_TEXTS = ("No space left on device", "Disk quota exceeded", "File too large")


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
        return _full_error(path, str(error))
    return OutputError(
        f"cannot write here ({error.strerror or error})", who=str(path), remedy="Choose another folder with --out."
    )


def in_child(work: Callable[[], None], path: Path) -> None:
    """Do ``work``, which writes below ``path``, in a forked process.

    When a write fails, LLVM does not raise but aborts the process: that must not be the engine's.

    Raises:
        OutputError: the work failed; it says whether the disk is full.
    """
    read_end, write_end = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    with warnings.catch_warnings():
        # Python 3.12 warns of forks while threads run; the child only generates code and links.
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
    if pid == 0:
        _child_main(work, write_end)
    os.close(write_end)
    with os.fdopen(read_end, "rb") as pipe:
        message = pipe.read().decode(errors="replace").strip()
    _, status = os.waitpid(pid, 0)
    if status == 0:
        return
    if any(text in message for text in _FULL_TEXTS):
        raise _full_error(path, message.split("\n")[-1][:300])
    code = os.waitstatus_to_exitcode(status)
    cause = f"killed by {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
    raise OutputError(
        "the compiled model cannot be written",
        who=str(path),
        got=f"{message[-600:] or 'no message'} ({cause})",
        remedy="A C compiler (cc, gcc or clang) must be installed and the folder writable.",
    )


def _child_main(work: Callable[[], None], write_end: int) -> NoReturn:
    """Run in the child: everything said goes to the parent, nothing of the parent's is cleaned up."""
    code = 1
    with contextlib.suppress(BaseException):
        os.dup2(write_end, 2)
        os.dup2(write_end, 1)
        # Ctrl-C is for the engine, which ends in order; neither this nor the linker should hear of it.
        os.setsid()
        try:
            work()
            code = 0
        except BaseException:  # noqa: BLE001  # reported through the pipe; the process ends here
            os.write(2, traceback.format_exc().encode()[-4000:])
    os._exit(code)


def _full_error(path: Path, message: str) -> OutputError:
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
