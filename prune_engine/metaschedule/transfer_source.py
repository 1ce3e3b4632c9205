"""What `transfer --from` names: the whole library, one model of it, or somebody's library or database."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from prune_engine.config import EngineConfig
from prune_engine.errors import ConfigError
from prune_engine.library.entries import LibraryQuery
from prune_engine.library.files import read_library
from prune_engine.plugins import PluginHost
from prune_engine.store.base import Store
from prune_engine.store.open import open_store
from prune_engine.strategies import Library
from prune_engine.transfers.joined_library import library_of
from prune_engine.transfers.source_choice import BEST_MODEL, WHOLE_LIBRARY

#: Models that an error names.
_N_NAMED = 8


def is_place(source: str) -> bool:
    """Whether a source is a file or folder, not a model's name. Raises ConfigError for one that does not exist."""
    if source in (WHOLE_LIBRARY, BEST_MODEL):
        return False
    if Path(source).exists():
        return True
    if "/" in source or source.endswith((".gz", ".jsonl", ".json")):
        raise ConfigError("no such file or folder", who="--from", got=source)
    return False


def library_at(path: Path) -> tuple[Library, tuple[str, ...]]:
    """The library in a file that `library export` wrote, or in a MetaSchedule database, and remarks on it.

    Raises ConfigError if there is none, or nothing of it can be read, and SpaceError where no workload can.
    """
    library = open_store("sqlite://")
    if path.is_dir() or path.suffix == ".json":
        from prune_engine.metaschedule.library_import import import_database

        imported = import_database(path)
        entries, remarks = imported.entries, imported.remarks
    else:
        contents = read_library(path)
        entries, remarks = contents.entries, contents.remarks
    library.add_entries(entries)
    return library, remarks


def transfer_library(
    store: Store, config: EngineConfig, host: PluginHost, path: Path | None
) -> tuple[Library, tuple[str, ...]]:
    """What a run transfers from, and remarks on it. Raises ConfigError for a model that the library lacks."""
    library, remarks = library_at(path) if path else (library_of(store, config, host.collect), ())
    source = config.transfer_source
    if source not in (WHOLE_LIBRARY, BEST_MODEL) and not library.find(LibraryQuery(model=source, limit=1)):
        known = Counter(entry.model for entry in library.find(LibraryQuery(limit=100_000)))
        names = ", ".join(name for name, _ in known.most_common(_N_NAMED))
        more = f" and {len(known) - _N_NAMED} more" if len(known) > _N_NAMED else ""
        raise ConfigError(
            "the library has no kernel of such a model",
            who="--from",
            got=repr(source),
            expected=f"library, best, a file, or one of: {names}{more}"
            if known
            else "a file: the library is empty",
            remedy="`prune-engine library list` shows what there is; tuning and `library import` add to it.",
        )
    return library, remarks
