"""Changes of the whitelist: making them, reading them back, and what holds after them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeVar

from pydantic import TypeAdapter, ValidationError

from prune_engine.whitelist.entries import (
    Check,
    Removal,
    Whitelist,
    WhitelistAction,
    WhitelistEntry,
    WhitelistEvent,
)

_T = TypeVar("_T")
_ENTRY: TypeAdapter[WhitelistEntry] = TypeAdapter(WhitelistEntry)
_CHECK: TypeAdapter[Check] = TypeAdapter(Check)


def whitelist_of(events: Sequence[WhitelistEvent]) -> Whitelist:
    """What holds after events in the order of their revisions. An event that cannot be read loses nothing else."""
    entries: dict[str, WhitelistEntry] = {}
    removed: dict[str, Removal] = {}
    broken: dict[str, str] = {}
    for event in events:
        name = event.entry_id
        try:
            if event.action is WhitelistAction.ADD:
                entry = entry_of(event.content)
                if entry.entry_id != name:
                    raise ValueError(f"its content is that of entry {entry.entry_id}")
                entries[name] = entry
                removed.pop(name, None)
                broken.pop(name, None)
            elif event.action is WhitelistAction.CHECK and name in entries:
                entries[name] = replace(entries[name], checks=(*entries[name].checks, check_of(event.content)))
            elif event.action is WhitelistAction.REMOVE:
                broken.pop(name, None)
                if name in entries:
                    removed[name] = Removal(entries.pop(name), event.at, event.by, event.reason, event.revision)
        except ValueError as error:
            # Half of what is known of a schedule is no proof: it is as if it were not listed, but told.
            entries.pop(name, None)
            broken[name] = f"revision {event.revision}: {error}"
    return Whitelist(entries, removed, broken, events[-1].revision if events else 0)


def added(entry: WhitelistEntry, *, at: float, by: str, reason: str) -> WhitelistEvent:
    """The event that lists an entry."""
    content = entry_text(entry)
    return WhitelistEvent(entry.entry_id, WhitelistAction.ADD, at, by, reason, entry.kernel_class.strict, content)


def checked(entry: WhitelistEntry, check: Check, *, by: str, reason: str) -> WhitelistEvent:
    """The event of another check of an entry."""
    content = _CHECK.dump_json(check).decode()
    strict = entry.kernel_class.strict
    return WhitelistEvent(entry.entry_id, WhitelistAction.CHECK, check.checked_at, by, reason, strict, content)


def removed(entry_id: str, strict_class: str, *, at: float, by: str, reason: str) -> WhitelistEvent:
    """The event that ends an entry; what was known of it stays readable."""
    return WhitelistEvent(entry_id, WhitelistAction.REMOVE, at, by, reason, strict_class)


def entry_text(entry: WhitelistEntry) -> str:
    """An entry as one line of JSON."""
    return _ENTRY.dump_json(entry).decode()


def entry_of(text: str | bytes) -> WhitelistEntry:
    """Read an entry back. Raises ValueError, which says in one clause where the text is none."""
    return _read(_ENTRY, text)


def check_of(text: str | bytes) -> Check:
    """Read a check back. Raises ValueError, as ``entry_of``."""
    return _read(_CHECK, text)


def _read(form: TypeAdapter[_T], text: str | bytes) -> _T:
    try:
        return form.validate_json(text)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "the text"
        raise ValueError(f"{where}: {first['msg']}") from error
