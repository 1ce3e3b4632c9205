"""Files of decisions: gzip members that are whole after each round, so that a kill costs at most the last of them.

``NNNN.jsonl.gz`` is written to; a new one is begun when it is full, and by each run. When all of them are more than
is allowed, the oldest is rewritten as ``NNNN.measured.jsonl.gz``, which keeps only candidates that were measured;
when nothing is left to rewrite, the oldest goes.
"""

from __future__ import annotations

import gzip
import os
import re
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path

#: Where they are in a result folder.
DECISIONS_FOLDER = "decisions"
#: Bytes that all files of a folder may have by default.
DEFAULT_MAX_BYTES = 64 << 20
#: The part of it that one file may have.
_FILES = 16
_MEASURED = ".measured"
_NAME = re.compile(r"(\d{4,})(\.measured)?\.jsonl\.gz")
_UNMEASURED_MARK = b'"measured":null'
#: Lines on schedules that were about to ship, of numeric safety: few, and as good as measurements.
_CHECK_MARK = b'"strategy":"numeric-safety"'
_CHUNK_BYTES = 1 << 18
#: Lines are alike, so that the fastest level already finds nearly all that repeats.
_LEVEL = 1
#: A line is never longer: what is, was not written here.
_MAX_LINE_BYTES = 1 << 20


class DecisionWriter:
    """Appends lines to a folder's files, ``max_bytes`` in all. Nothing is made before there is a line to write."""

    def __init__(self, folder: Path, max_bytes: int = DEFAULT_MAX_BYTES) -> None:
        self.folder, self._max_bytes = folder, max_bytes
        self._path: Path | None = None
        self._n_bytes = 0

    def add(self, lines: Iterable[str]) -> None:
        """Write the lines of one round, each a JSON object. Raises OSError; what was written before is intact."""
        text = "\n".join(lines)
        if not text:
            return
        member = gzip.compress((text + "\n").encode(), _LEVEL, mtime=0)
        if self._path is None or self._n_bytes + len(member) > max(1, self._max_bytes // _FILES):
            self._trim(len(member))
            self._path, self._n_bytes = self._begun(), 0
        # One write to the end of the file: a kill leaves all of it, or a part that readers can tell.
        with self._path.open("ab") as file:
            file.write(member)
        self._n_bytes += len(member)

    def _begun(self) -> Path:
        """A new file, also if other runs begin theirs in the same folder."""
        self.folder.mkdir(parents=True, exist_ok=True)
        number = max((_number(path) for path in decision_files(self.folder)), default=0) + 1
        while True:
            path = self.folder / f"{number:04d}.jsonl.gz"
            try:
                path.open("xb").close()
            except FileExistsError:
                number += 1
                continue
            return path

    def _trim(self, n_coming: int) -> None:
        """Make room for another file."""
        share = max(self._max_bytes // _FILES, n_coming)
        files = decision_files(self.folder)
        sizes = {path: _size(path) for path in files}
        whole = [path for path in files if _MEASURED not in path.name and path != self._path]
        while whole and sum(sizes.values()) + share > self._max_bytes:
            path = whole.pop(0)
            del sizes[path]
            if (rewritten := _only_measured(path)) is not None:
                sizes[rewritten] = _size(rewritten)
        for path in sorted(sizes, key=_number):
            if sum(sizes.values()) + share <= self._max_bytes:
                break
            path.unlink(missing_ok=True)
            del sizes[path]


def decision_files(folder: Path) -> list[Path]:
    """A folder's files, oldest first; of one that was being rewritten when a run was killed, the rewritten one."""
    found: dict[int, Path] = {}
    try:
        paths = sorted(folder.iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return []
    for path in paths:  # NNNN.jsonl.gz comes before NNNN.measured.jsonl.gz
        if match := _NAME.fullmatch(path.name):
            found[int(match[1])] = path
    return [found[number] for number in sorted(found)]


def lines_of(path: Path) -> Iterator[bytes]:
    """The whole lines of a file, without their ends, as far as it can be read: memory stays flat.

    What follows damage is not found, but for a member that a kill cut short: it ends the file. Raises OSError.
    """
    rest = b""
    try:
        file = path.open("rb")
    except FileNotFoundError:  # rewritten or removed by a run that is going on
        return
    with file:
        for piece in _inflated(iter(lambda: file.read(_CHUNK_BYTES), b"")):
            *lines, rest = (rest + piece).split(b"\n")
            yield from lines
            if len(rest) > _MAX_LINE_BYTES:
                return


def _inflated(chunks: Iterator[bytes]) -> Iterator[bytes]:
    """What gzip members say, piece by piece of bounded size, up to the first damage."""
    stream = zlib.decompressobj(wbits=31)
    for chunk in chunks:
        data = chunk
        while data:
            try:
                yield stream.decompress(data, _CHUNK_BYTES)
            except zlib.error:
                return
            data = stream.unconsumed_tail
            if stream.eof:
                data, stream = stream.unused_data, zlib.decompressobj(wbits=31)


def _only_measured(path: Path) -> Path | None:
    """Rewrite a file without what was not measured, in one step; None where nothing of it is left."""
    rewritten = path.with_name(path.name.replace(".jsonl", f"{_MEASURED}.jsonl"))
    draft = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    n_kept = 0
    try:
        with gzip.open(draft, "wb", _LEVEL) as file:
            for line in lines_of(path):
                if _UNMEASURED_MARK not in line or _CHECK_MARK in line:
                    file.write(line + b"\n")
                    n_kept += 1
        if n_kept:
            draft.replace(rewritten)
    finally:
        draft.unlink(missing_ok=True)
    path.unlink(missing_ok=True)
    return rewritten if n_kept else None


def _number(path: Path) -> int:
    match = _NAME.fullmatch(path.name)
    return int(match[1]) if match else 0


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0
