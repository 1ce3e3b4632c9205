"""Several libraries as one: what this machine measured, and what came with plugins."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from prune_engine.config import EngineConfig
from prune_engine.library.entries import LibraryEntry, LibraryQuery
from prune_engine.store.base import Store
from prune_engine.strategies import Library
from prune_engine.whitelist.events import whitelist_of
from prune_engine.whitelist.library import WhitelistLibrary


class JoinedLibrary:
    """Finds in several libraries at once. Of entries that several hold, the first one's counts."""

    def __init__(self, libraries: Sequence[Library]) -> None:
        self._libraries = tuple(libraries)

    def find(self, query: LibraryQuery) -> Sequence[LibraryEntry]:
        """The entries asked for, fastest (flop/s) first."""
        found: dict[str, LibraryEntry] = {}
        for library in self._libraries:
            for entry in library.find(query):
                found.setdefault(entry.entry_id, entry)
        return sorted(found.values(), key=lambda entry: -entry.flop_per_sec)[: query.limit]


def library_of(
    store: Library, config: EngineConfig, collect: Callable[..., Iterable[tuple[str, object]]]
) -> Library:
    """The library a run starts from: that of the store, its whitelist, and unless ``config`` says not to, what
    plugins ship.

    ``collect`` is ``PluginHost.collect``.
    """
    parts: list[Library] = [store]
    events = store.whitelist_events() if isinstance(store, Store) else ()
    if events:
        parts.append(WhitelistLibrary.of(whitelist_of(events)))
    if config.builtin_library:
        shipped = collect("register_libraries", config=config)
        parts += [item for _, item in shipped if isinstance(item, Library)]
    return JoinedLibrary(parts) if len(parts) > 1 else store
