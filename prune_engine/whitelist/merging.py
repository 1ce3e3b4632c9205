"""Taking in another whitelist."""

from __future__ import annotations

from dataclasses import dataclass

from prune_engine.whitelist.entries import Whitelist, WhitelistEvent
from prune_engine.whitelist.events import added, checked
from prune_engine.whitelist.files import WhitelistContents


@dataclass(frozen=True, slots=True)
class Merge:
    """The changes that take in a list; ``remarks`` are sentences on what of it was left out."""

    events: tuple[WhitelistEvent, ...]
    n_new: int
    n_known: int
    n_left_out: int
    remarks: tuple[str, ...]


def merged(
    here: Whitelist, there: WhitelistContents, *, at: float, by: str, source: str, restore: bool = False
) -> Merge:
    """Take in what is not listed here. Of what is, checks that are not known here are taken in.

    What was removed here stays so, unless ``restore``; what was removed there and is listed here stays, with a
    remark.
    """
    events: list[WhitelistEvent] = []
    remarks: list[str] = []
    n_new = n_known = n_left_out = 0
    reason = f"imported from {source}, revision {there.revision}"
    for entry in there.entries:
        mine, gone = here.entries.get(entry.entry_id), here.removed.get(entry.entry_id)
        if mine is not None:
            n_known += 1
            events += [checked(mine, c, by=by, reason=reason) for c in entry.checks if c not in mine.checks]
        elif gone is not None and not restore:
            n_left_out += 1
            remarks.append(f"entry {entry.entry_id} was removed here ({gone.reason}): --restore takes it in again")
        else:
            n_new += 1
            events.append(added(entry, at=at, by=by, reason=reason))
    remarks += [
        f"entry {name} is listed here, but was removed there ({why})"
        for name, why in there.removed.items()
        if name in here.entries
    ]
    return Merge(tuple(events), n_new, n_known, n_left_out, tuple(remarks))
