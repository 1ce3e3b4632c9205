"""Entries of the library as table rows and back. What does not fit a column travels as JSON text."""

from __future__ import annotations

import time

from pydantic import TypeAdapter, ValidationError

from prune_engine.errors import StoreError
from prune_engine.library import LibraryEntry
from prune_engine.store.rows import Row

_ENTRY: TypeAdapter[LibraryEntry] = TypeAdapter(LibraryEntry)


def entry_row(entry: LibraryEntry) -> Row:
    """One entry."""
    return {
        "entry_id": entry.entry_id,
        "strict_class": entry.kernel_class.strict,
        "anchor_class": entry.kernel_class.anchor,
        "device_name": entry.device_name,
        "n_threads": int(entry.n_threads),
        "model": entry.model,
        "flop_per_sec": float(entry.flop_per_sec),
        "added_at": time.time(),
        "entry": entry_text(entry),
    }


def entry_text(entry: LibraryEntry) -> str:
    """An entry as JSON text."""
    return _ENTRY.dump_json(entry).decode()


def entry_of(text: str | bytes) -> LibraryEntry:
    """Read an entry back. Raises StoreError for text that is none."""
    try:
        return _ENTRY.validate_json(text)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "the text"
        raise StoreError(
            "an entry of the library cannot be read",
            got=f"{where}: {first['msg']}",
            expected="an entry as this version writes it",
            remedy="Import the database that it came from again.",
        ) from error
