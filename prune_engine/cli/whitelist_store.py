"""The whitelist of a store, as the verbs on it open and read it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from prune_engine.display.streams import say

if TYPE_CHECKING:
    from prune_engine.store.base import Store
    from prune_engine.whitelist.entries import Whitelist, WhitelistEvent

#: What to do where stdout is full.
REDIRECTED = "Redirect it to a place with room."
#: Letters of an id that are enough.
_MIN_PREFIX = 4


@contextmanager
def opened_store(url: str | None, *, may_make: bool = False) -> Iterator[Store]:
    """The store, closed at the end. One that is named but missing is only made for what comes from elsewhere."""
    from prune_engine.store.open import open_existing_store, open_store

    opened = open_store(url) if may_make else open_existing_store(url)
    try:
        yield opened
    finally:
        opened.close()


def listed_in(store: Store) -> Whitelist:
    """What is listed on a store now."""
    from prune_engine.whitelist.events import whitelist_of

    return whitelist_of(store.whitelist_events())


def tell_broken(listed: Whitelist) -> None:
    """Warn on stderr of entries that cannot be read."""
    for name, why in listed.broken.items():
        say(f"warning: entry {name} cannot be read and does not count ({why})")


def one_of(names: list[str], wanted: str, place: str) -> str:
    """The id that begins with some letters. Raises ConfigError if none does, or several do."""
    from prune_engine.errors import ConfigError

    found = [one for one in names if one == wanted or (len(wanted) >= _MIN_PREFIX and one.startswith(wanted))]
    if len(found) != 1:
        raise ConfigError(
            "several entries begin so" if found else "no such entry",
            who=place,
            got=repr(wanted),
            expected=f"one of: {', '.join(names[:8])}" if names else "an entry: the whitelist is empty",
        )
    return found[0]


def strict_of(store: Store, name: str) -> str:
    """The class under which an entry that cannot be read is filed."""
    found: list[WhitelistEvent] = [event for event in store.whitelist_events() if event.entry_id == name]
    return found[-1].strict_class


def user_name() -> str:
    """Who gives the command; a container may have no name for its user."""
    import getpass
    import os

    try:
        return getpass.getuser()
    except (KeyError, OSError, ImportError):
        return f"user {os.getuid()}"
