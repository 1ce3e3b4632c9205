"""Files that are written whole or not at all."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from prune_engine.errors import OutputError

#: What a file of SQLite begins with.
_STORE_HEAD = b"SQLite format 3\0"


def make_folder(path: Path) -> None:
    """Make a folder and those it is in, as far as they are missing, and see that one can write there.

    Raises OutputError.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path):
            pass
    except OSError as error:
        raise _output_error(error, path) from error


def check_place(path: Path, *, head: bytes | None = None) -> None:
    """Raise OutputError now, rather than after the work, if a file cannot be written there.

    A store is never replaced. ``head`` is what files of the kind begin with: another file is not replaced either.
    """
    try:
        if path.is_dir():
            raise IsADirectoryError(21, "it is a folder", str(path))
        check_replaceable(path, head)
        with tempfile.TemporaryFile(dir=path.parent):
            pass
    except OSError as error:
        raise _output_error(error, path) from error


def check_replaceable(path: Path, head: bytes | None = None) -> None:
    """Raise OutputError for a file of another kind: a mistyped name must not cost a store or a model."""
    if not path.is_file():
        return
    try:
        with path.open("rb") as file:
            found = file.read(max(len(_STORE_HEAD), len(head or b"")))
    except OSError as error:
        raise _output_error(error, path) from error
    if not found or (not found.startswith(_STORE_HEAD) and (head is None or found.startswith(head))):
        return
    raise OutputError(
        "holds something else, which is not overwritten",
        who=str(path),
        got="a store" if found.startswith(_STORE_HEAD) else f"a file that begins with {found[:16]!r}",
        expected="a new file, or an earlier one of the same kind",
        remedy="Name another place, or move that file away.",
    )


def is_store(path: Path) -> bool:
    """Whether there is a file of a store. Raises OSError for one that cannot be read."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(len(_STORE_HEAD)) == _STORE_HEAD


def write_whole(path: Path, text: str) -> None:
    """Write a file; whoever reads it meanwhile sees the old one or the new. Raises OutputError."""
    try:
        if path.exists() and not path.is_file():  # a device or a pipe cannot be replaced
            path.write_text(text, encoding="utf-8")
            return
        with tempfile.NamedTemporaryFile(
            "w", encoding="utf-8", dir=path.parent, prefix=f".{path.name}.", suffix=".tmp", delete=False
        ) as file:
            staged = Path(file.name)
            try:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
                staged.chmod(0o666 & ~_umask())  # temporary files are private
                staged.replace(path)
            except BaseException:
                staged.unlink(missing_ok=True)
                raise
    except OSError as error:
        raise _output_error(error, path) from error


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _output_error(error: OSError, path: Path) -> OutputError:
    return OutputError(
        f"cannot be written ({error.strerror or error})", who=str(path), remedy="Name another place."
    )
