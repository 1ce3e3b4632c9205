"""Entries of the library as table rows and back. What does not fit a column travels as JSON text."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterable

from sqlalchemy import RowMapping

from prune_engine.library.entries import LibraryEntry
from prune_engine.library.text import entry_of, entry_text
from prune_engine.store.rows import Row


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


def entries_of(found: Iterable[RowMapping], url: str) -> list[LibraryEntry]:
    """The entries that rows hold. One that cannot be read is passed over with a warning: a search goes on."""
    entries: list[LibraryEntry] = []
    broken: list[tuple[str, str]] = []
    for row in found:
        try:
            entries.append(entry_of(row["entry"]))
        except ValueError as error:
            broken.append((row["entry_id"], str(error)))
    if broken:
        names = " ".join(f"--entry {entry_id}" for entry_id, _ in broken[:3]) + " ..." * (len(broken) > 3)
        warnings.warn(
            f"{url}: {len(broken)} of the library's entries cannot be read and are passed over; "
            f"entry {broken[0][0]}: {broken[0][1]}. `prune-engine library prune {names}` removes them.",
            stacklevel=3,
        )
    return entries
