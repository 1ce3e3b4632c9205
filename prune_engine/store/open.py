"""Where the store is: from what the user names (or nothing) to an open store."""

from __future__ import annotations

from pathlib import Path

import platformdirs

from prune_engine.errors import StoreError
from prune_engine.store.base import Store


def default_path() -> Path:
    """The store of a user who names none: a file in the platform's folder for user data."""
    return Path(platformdirs.user_data_dir("prune_engine", appauthor=False)) / "store.sqlite3"


def open_store(url: str | None = None, *, wait_secs: float = 30.0) -> Store:
    """Open a store, making or upgrading it if needed.

    ``url`` is a file, a SQLAlchemy URL (``sqlite:///relative``, ``sqlite:////absolute``, ``sqlite://`` for
    memory, ``postgresql+psycopg://...``) or None for ``default_path()``; missing folders are made.
    ``wait_secs`` is how long a write waits while another process writes.

    Raises StoreError if it cannot be opened for writing or is not a store, StoreLockedError after
    ``wait_secs``, StoreVersionError for a schema newer than this prune_engine, StoreFullError.
    """
    # Importing SQLAlchemy takes a third of a second: paid by those who open a store.
    from prune_engine.store.connect import file_of, parse_url
    from prune_engine.store.sql import SqlStore

    text = str(default_path()) if url is None else url
    if not text.strip():
        raise StoreError("an empty store name", expected="a file or a SQLAlchemy URL")
    file = file_of(parse_url(text))
    if file is not None:
        _make_folder(file)
    return SqlStore(text, wait_secs=wait_secs)


def open_existing_store(url: str | None = None) -> Store:
    """As ``open_store``, for who reads: of a file that is named and is not there no store is made.

    Raises StoreError for it as well. The default store may be missing: then nothing was tuned yet.
    """
    from prune_engine.store.connect import file_of, parse_url

    if url is not None and url.strip():
        file = file_of(parse_url(url))
        if file is not None and not file.exists():
            raise StoreError(
                "there is no store", who=str(file), expected="a store's file or URL", remedy="Check its name."
            )
    return open_store(url)


def _make_folder(file: Path) -> None:
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(
            "the store's folder cannot be made",
            who=str(file.parent),
            got=error.strerror or str(error),
            remedy="Name a file in a folder that you can write to.",
        ) from error
    if file.is_dir():
        raise StoreError("the store is a folder", who=str(file), expected="a file, or a name for a new one")
