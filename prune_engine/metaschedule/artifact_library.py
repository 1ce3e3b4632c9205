"""Links a compiled model into a shared library."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from prune_engine.artifact_files import full_error, output_error
from prune_engine.errors import OutputError

#: Object files that TVM's export writes: one per compiled module (one for a processor), and the constants.
_OBJECT_FILES = ("lib0.o", "lib1.o", "devc.o")

#: What linkers say when the disk is full; those that map their output die by a bus error.
_FULL_TEXTS = ("No space left on device", "Disk quota exceeded", "File too large", "Bus error")


def write_library(executable: Any, path: Path, shown: Path) -> None:
    """Generate code for a Relax executable and link it into ``path``, using nothing but its folder.

    Errors name ``shown``, the place the user knows.

    Raises:
        OutputError: the disk is full, or no C compiler can be run.
    """
    with _objects_in_memory(path.parent):
        try:
            executable.export_library(str(path), workspace_dir=str(path.parent))
        except OSError as error:
            if isinstance(error, FileNotFoundError | PermissionError) and error.filename != str(path):
                raise _linker_error(shown, str(error)) from error
            raise output_error(error, shown) from error
        except (RuntimeError, TypeError) as error:
            # TypeError: TVM found no compiler and makes a command of None.
            message = str(error)
            if any(text in message for text in _FULL_TEXTS):
                raise full_error(shown, _telling_line(message)) from error
            raise _linker_error(shown, message) from error


@contextmanager
def _objects_in_memory(folder: Path) -> Iterator[None]:
    """Make TVM write its object files into memory, by links of their names.

    When a write fails, LLVM does not raise but ends the process; the linker, which then writes to the
    disk, is a process of its own. (Forking for the export is no way out: it deadlocks once TVM's threads run.)
    """
    with contextlib.ExitStack() as stack:
        for name in _OBJECT_FILES:
            descriptor = os.memfd_create(name)
            stack.callback(os.close, descriptor)
            link = folder / name
            try:
                link.symlink_to(f"/proc/{os.getpid()}/fd/{descriptor}")
            except OSError as error:
                raise output_error(error, folder) from error
            stack.callback(link.unlink, missing_ok=True)
        yield


def _linker_error(path: Path, message: str) -> OutputError:
    return OutputError(
        "the compiled model cannot be linked",
        who=str(path),
        got=_telling_line(message),
        remedy="Install a C compiler (gcc or clang), or name one in the environment variable CC.",
    )


def _telling_line(message: str) -> str:
    """What the linker said: neither TVM's heading nor its command line."""
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    told = [line for line in lines if not line.startswith(("Compilation error", "Command line"))]
    return "; ".join(told or lines)[:400] or "no message"
