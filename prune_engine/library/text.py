"""Entries of the library as JSON text and back: the one form they have in stores and files."""

from __future__ import annotations

from pydantic import TypeAdapter, ValidationError

from prune_engine.library.entries import LibraryEntry

_ENTRY: TypeAdapter[LibraryEntry] = TypeAdapter(LibraryEntry)


def entry_text(entry: LibraryEntry) -> str:
    """An entry as one line of JSON. Its class comes first: files are searched by it."""
    return _ENTRY.dump_json(entry).decode()


def entry_of(text: str | bytes) -> LibraryEntry:
    """Read an entry back. Raises ValueError, which says in one clause where the text is none."""
    try:
        return _ENTRY.validate_json(text)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "the text"
        raise ValueError(f"{where}: {first['msg']}") from error
