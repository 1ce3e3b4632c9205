"""Libraries as files: one entry a line as JSON, compressed where the name ends in .gz."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from prune_engine.bounded_files import json_of, read_maybe_gzipped
from prune_engine.errors import ConfigError, OutputError
from prune_engine.library.entries import LibraryEntry, LibraryQuery, Origin
from prune_engine.library.text import entry_of, entry_text

#: Names the first line, which says what the file is; the number is its version.
_MARK, _VERSION = "prune_engine_library", 1
#: The class of an entry stands first in its line, so most lines need not be read to be passed over.
_CLASS = re.compile(rb'\{"kernel_class":\{"strict":"([^"\\]*)","anchor":"([^"\\]*)"')
#: Problems that are told one by one.
_N_TOLD = 5


@dataclass(frozen=True, slots=True)
class LibraryContents:
    """What a file holds. ``remarks`` tell of lines that are no entries, ``provenance`` is what its writer noted."""

    entries: tuple[LibraryEntry, ...]
    remarks: tuple[str, ...] = ()
    provenance: Mapping[str, object] = field(default_factory=dict)


class LibraryFile:
    """The entries of a file, as the Library of prune_engine.strategies: read when first asked, line by line.

    ``origin`` is what the entries' origin becomes. Nothing is raised: a file that cannot be read holds no entries,
    and ``problems`` says so.
    """

    def __init__(self, path: Path, origin: Origin | None = None) -> None:
        self._path, self._origin = path, origin
        self._lines: list[bytes] | None = None
        self._by_class: dict[str, list[int]] = {}
        self._read: dict[int, LibraryEntry | None] = {}
        self.problems: list[str] = []

    def find(self, query: LibraryQuery) -> Sequence[LibraryEntry]:
        """The entries asked for, fastest (flop/s) first."""
        self._open()
        wanted = [name for name in (query.strict, query.anchor) if name is not None]
        numbers: Iterable[int] = range(len(self._lines or ()))
        if wanted:
            numbers = sorted(set.intersection(*(set(self._by_class.get(name, ())) for name in wanted)))
        entries = [entry for number in numbers if (entry := self._entry(number)) and _fits(entry, query)]
        entries.sort(key=lambda entry: -entry.flop_per_sec)
        return entries[: query.limit]

    def _open(self) -> None:
        if self._lines is not None:
            return
        try:
            self._lines, _ = _lines_of(self._path)
        except ConfigError as error:
            self._lines = []
            self.problems.append(str(error))
        for number, line in enumerate(self._lines):
            if match := _CLASS.match(line):
                names = [name.decode(errors="replace") for name in match.groups()]
            elif entry := self._entry(number):
                names = [entry.kernel_class.strict, entry.kernel_class.anchor]
            else:
                continue
            for name in set(names):
                self._by_class.setdefault(name, []).append(number)

    def _entry(self, number: int) -> LibraryEntry | None:
        if number not in self._read:
            assert self._lines is not None, "opened before anything is read"
            self._read[number] = None
            try:
                entry = _identified(entry_of(self._lines[number]), self._origin)
            except ValueError as error:
                self.problems.append(f"entry {number + 1} of {self._path.name} cannot be read ({error})")
            else:
                self._read[number] = entry
        return self._read[number]


def read_library(path: Path, origin: Origin = Origin.IMPORTED) -> LibraryContents:
    """Read a file that ``write_library`` wrote; lines that are no entries become remarks.

    Raises ConfigError if the file cannot be read, is of a newer version or holds no entry at all.
    """
    lines, provenance = _lines_of(path)
    entries: list[LibraryEntry] = []
    remarks: list[str] = []
    for number, line in enumerate(lines, 1):
        try:
            entries.append(_identified(entry_of(line), origin))
        except ValueError as error:
            remarks.append(f"entry {number} of {path.name} cannot be read ({error})")
    if not entries:
        raise ConfigError(
            "holds no entry of a library",
            who=str(path),
            got="; ".join(remarks[:3]) or "no entry",
            expected="lines as `prune-engine library export` writes them, or a MetaSchedule database",
        )
    if len(remarks) > _N_TOLD:
        remarks[_N_TOLD:] = [f"{len(remarks) - _N_TOLD} more entries cannot be read"]
    return LibraryContents(tuple(entries), tuple(remarks), provenance)


def write_library(
    path: Path, entries: Iterable[LibraryEntry], provenance: Mapping[str, object] | None = None
) -> int:
    """Write entries, one a line, compressed if the name ends in .gz; returns how many.

    ``provenance`` (JSON values) is noted in the first line. The same entries give the same bytes. Raises
    OutputError.
    """
    texts = [json.dumps({_MARK: _VERSION, "provenance": dict(provenance or {})}), *map(entry_text, entries)]
    content = "".join(f"{text}\n" for text in texts).encode()
    # No time of writing in it: a file in version control changes with its contents alone.
    data = gzip.compress(content, mtime=0) if path.name.endswith(".gz") else content
    staged = path.with_name(f".{path.name}.tmp")
    try:
        if path.exists() and not path.is_file():  # a device or a pipe cannot be replaced
            path.write_bytes(data)
        else:
            staged.write_bytes(data)
            staged.replace(path)
    except OSError as error:
        staged.unlink(missing_ok=True)
        raise OutputError(
            f"cannot be written ({error.strerror or error})", who=str(path), remedy="Name another place."
        ) from error
    return len(texts) - 1


def _lines_of(path: Path) -> tuple[list[bytes], Mapping[str, object]]:
    """The lines that hold entries, and the provenance. Raises ConfigError."""
    try:
        data = read_maybe_gzipped(path)
    except (OSError, ValueError) as error:
        raise ConfigError(
            "cannot be read",
            who=str(path),
            got=getattr(error, "strerror", None) or str(error),
            expected="a library file that you may read",
        ) from error
    lines = [line for line in data.split(b"\n") if line.strip()]
    header = _header(lines)
    if header is None:
        return lines, {}
    version = header[_MARK]
    if version != _VERSION:
        raise ConfigError(
            "is of a version that this prune-engine does not read",
            who=str(path),
            got=f"version {version}",
            expected=f"version {_VERSION}",
            remedy="Update prune-engine, or export the library again.",
        )
    provenance = header.get("provenance")
    return lines[1:], provenance if isinstance(provenance, dict) else {}


def _header(lines: Sequence[bytes]) -> Mapping[str, object] | None:
    """The first line, where it is none of an entry."""
    try:
        first = json_of(lines[0]) if lines else None
    except ValueError:
        return None
    return first if isinstance(first, dict) and _MARK in first else None


def _identified(entry: LibraryEntry, origin: Origin | None) -> LibraryEntry:
    """The entry under the name that its contents give it, whatever the file says."""
    return replace(entry, entry_id="", origin=origin or entry.origin)


def _fits(entry: LibraryEntry, query: LibraryQuery) -> bool:
    pairs: Iterator[tuple[object, object]] = iter(
        (
            (query.strict, entry.kernel_class.strict),
            (query.anchor, entry.kernel_class.anchor),
            (query.device_name, entry.device_name),
            (query.n_threads, entry.n_threads),
            (query.model, entry.model),
        )
    )
    return all(wanted is None or wanted == is_ for wanted, is_ in pairs)
