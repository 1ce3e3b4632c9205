"""How the store talks to its database: URLs, connections, transactions."""

from __future__ import annotations

import re
import sqlite3
import time
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Engine, create_engine, event, exc, make_url
from sqlalchemy.engine import Connection
from sqlalchemy.pool import QueuePool, StaticPool

from prune_engine.errors import StoreError

#: Dialects with INSERT ... ON CONFLICT, on which idempotent writes rest.
SUPPORTED_DIALECTS = ("sqlite", "postgresql")

#: A file whose name begins like this can be given as ./name; "sqlite:/x" is a slip, not a folder "sqlite:".
_LOOKS_LIKE_URL = re.compile(r"[a-z][a-z0-9+]*:")

#: Execution option of connections that will write.
WRITES = "prune_engine_writes"


def parse_url(text: str) -> URL:
    """Read a SQLAlchemy URL or the path of a SQLite file. Raises StoreError."""
    if text == ":memory:":
        text = "sqlite://"
    if not _LOOKS_LIKE_URL.match(text):
        return URL.create("sqlite", database=str(Path(text).expanduser().absolute()))
    try:
        url = make_url(text)
        dialect = url.get_backend_name()
        if dialect == "sqlite" and url.database and url.database != ":memory:" and "uri" not in url.query:
            url = url.set(database=str(Path(url.database).expanduser().absolute()))
        url.get_dialect()
    except (exc.ArgumentError, exc.NoSuchModuleError, ValueError) as error:
        raise StoreError(
            "not a store URL",
            got=repr(text),
            expected="a file, or a SQLAlchemy URL such as sqlite:////home/me/store.sqlite3",
        ) from error
    if dialect not in SUPPORTED_DIALECTS:
        raise StoreError("unsupported database", got=dialect, expected=" or ".join(SUPPORTED_DIALECTS))
    return url


def file_of(url: URL) -> Path | None:
    """The file behind a URL, or None for memory or a server."""
    if url.get_backend_name() != "sqlite" or url.database in (None, "", ":memory:") or "uri" in url.query:
        return None
    return Path(str(url.database))


def connect(url: URL, wait_secs: float) -> Engine:
    """Make an engine with one connection. Nothing is opened yet. Raises StoreError if the driver is missing."""
    is_sqlite = url.get_backend_name() == "sqlite"
    in_memory = is_sqlite and url.database in (None, "", ":memory:")
    options: dict[str, Any] = {"connect_args": {"timeout": wait_secs}} if is_sqlite else {}
    if in_memory:
        options["poolclass"] = StaticPool  # the data lives and dies with its only connection
        # Which thread calls is the caller's business, as it is with a file; SQLite itself takes turns.
        options["connect_args"]["check_same_thread"] = False
    else:
        options |= {"poolclass": QueuePool, "pool_size": 1, "max_overflow": 0}
    try:
        engine = create_engine(url, **options)
    except ImportError as error:
        raise StoreError(
            "the database's driver is not installed",
            who=url.render_as_string(),
            got=error,
            remedy=f"Install it: pip install {error.name}.",
        ) from error
    if is_sqlite:
        event.listen(engine, "connect", _set_up_sqlite)
        event.listen(engine, "begin", _begin_sqlite)
    return engine


def use_write_ahead_log(engine: Engine, wait_secs: float) -> None:
    """Let readers and the writer work side by side. A file system that cannot do it keeps SQLite's own journal."""
    if engine.dialect.name != "sqlite":
        return
    deadline = time.monotonic() + wait_secs
    with engine.connect() as pooled:
        connection = pooled.connection
        while True:
            try:
                connection.execute("PRAGMA journal_mode = WAL")
                return
            except sqlite3.OperationalError as error:
                if "locked" not in str(error) or time.monotonic() >= deadline:
                    raise
            # Another process writes. This pragma does not wait for it as everything else does: taking the
            # write lock does.
            connection.execute("BEGIN IMMEDIATE")
            connection.execute("ROLLBACK")


def _set_up_sqlite(dbapi_connection: Any, _record: object) -> None:
    dbapi_connection.isolation_level = None  # we say BEGIN ourselves, and which kind
    dbapi_connection.execute("PRAGMA foreign_keys = ON")
    # FULL syncs the log at each commit. NORMAL would survive kill -9 as well, but a power cut could take the
    # last commits back; one sync per measured batch costs nothing beside measuring it.
    dbapi_connection.execute("PRAGMA synchronous = FULL")


def _begin_sqlite(connection: Connection) -> None:
    # A transaction that starts as a reader and then writes fails at once, without waiting, if another
    # process wrote in between: writers take the lock first.
    writes = connection.get_execution_options().get(WRITES, False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")
