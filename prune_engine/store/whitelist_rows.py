"""Events of the whitelist as table rows and back."""

from __future__ import annotations

from sqlalchemy import RowMapping

from prune_engine.store.rows import Row, clean_text
from prune_engine.whitelist.entries import WhitelistAction, WhitelistEvent


def event_row(event: WhitelistEvent, revision: int) -> Row:
    """One event under its revision."""
    return {
        "revision": revision,
        "entry_id": event.entry_id,
        "strict_class": event.strict_class,
        "action": event.action.value,
        "happened_at": float(event.at),
        "author": clean_text(event.by),
        "reason": clean_text(event.reason),
        "content": event.content,
    }


def event_of(row: RowMapping) -> WhitelistEvent:
    """Read an event back."""
    return WhitelistEvent(
        entry_id=row["entry_id"],
        action=WhitelistAction(row["action"]),
        at=row["happened_at"],
        by=row["author"],
        reason=row["reason"],
        strict_class=row["strict_class"],
        content=row["content"],
        revision=row["revision"],
    )
