"""The one folder a pool writes to, and the sweeping of folders that killed pools left behind."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

from prune_engine.metaschedule.measure.linux import kill_marked

_PREFIX = "prune-engine-measure-"
_NAME = re.compile(rf"^{_PREFIX}(\d+)-")
_LOCK = "owner.lock"


@dataclass(slots=True)
class PoolFolder:
    """A folder that lives as long as its owner; ``path`` is absolute."""

    path: Path
    _lock_fd: int

    def remove(self) -> None:
        """Delete the folder with everything in it. Idempotent."""
        shutil.rmtree(self.path, ignore_errors=True)
        if self._lock_fd >= 0:
            os.close(self._lock_fd)
            self._lock_fd = -1


def create_pool_folder() -> PoolFolder:
    """Make a private folder for this process, after removing what dead ones left."""
    sweep_stale_folders()
    path = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-")).resolve()
    lock_fd = os.open(path / _LOCK, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    fcntl.flock(lock_fd, fcntl.LOCK_EX)
    return PoolFolder(path, lock_fd)


@contextmanager
def scratch_folder() -> Iterator[Path]:
    """A folder for the time of a block, which a later run removes if this process is killed meanwhile."""
    folder = create_pool_folder()
    try:
        yield folder.path
    finally:
        folder.remove()


def sweep_stale_folders() -> None:
    """Remove the folders, and end the processes, of owners that died without doing so.

    An owner counts as dead only if its process id is unused *and* nobody holds its lock: with a shared
    /tmp the owner may live in another process namespace, where its id means nothing here.
    """
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        match = _NAME.match(folder.name)
        if match is None or psutil.pid_exists(int(match.group(1))) or not _is_ours_and_unlocked(folder):
            continue
        kill_marked(str(folder.resolve()))
        shutil.rmtree(folder, ignore_errors=True)


def _is_ours_and_unlocked(folder: Path) -> bool:
    try:
        if folder.is_symlink() or folder.stat().st_uid != os.getuid():
            return False
        if not (folder / _LOCK).exists():
            return True
        fd = os.open(folder / _LOCK, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    finally:
        os.close(fd)
    return True
