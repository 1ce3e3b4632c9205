"""Bring a database to the schema this version of prune_engine uses."""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import Connection, Engine, column, func, inspect, select, table

from prune_engine.errors import StoreError, StoreVersionError
from prune_engine.store.connect import WRITES
from prune_engine.store.schema import HEAD_REVISION, VERSION_TABLE

#: Any number, as long as no other program uses it for its advisory lock on the same database.
_MIGRATION_LOCK = 0x70727565

_SCRIPTS = Path(__file__).parent / "migrations"


def bring_up_to_date(engine: Engine, who: str) -> None:
    """Create or upgrade the schema if needed; an up-to-date store is only read.

    Raises StoreVersionError for a schema that a newer prune_engine wrote and StoreError for somebody
    else's database; both leave it as it was.
    """
    with engine.connect() as connection:
        revision = stored_revision(connection)
    if revision == HEAD_REVISION:
        return
    if revision is not None:
        _refuse_newer(revision, who)
    # Under the write lock, and looking again: of two processes that find a new file one makes the schema
    # and the other then finds it made. All of it is one transaction.
    with engine.connect().execution_options(**{WRITES: True}) as connection, connection.begin():
        if connection.dialect.name == "postgresql":  # whose transactions do not exclude each other
            connection.execute(select(func.pg_advisory_xact_lock(_MIGRATION_LOCK)))
        revision = stored_revision(connection)
        if revision == HEAD_REVISION:
            return
        if revision is None:
            _refuse_foreign_tables(connection, who)
        else:
            _refuse_newer(revision, who)  # upgraded by another version while we waited
        _upgrade(connection)


def stored_revision(connection: Connection) -> str | None:
    """The schema revision a database says it has, or None."""
    if not inspect(connection).has_table(VERSION_TABLE):
        return None
    revision = connection.execute(select(column("version_num")).select_from(table(VERSION_TABLE))).scalar()
    return None if revision is None else str(revision)


def _refuse_foreign_tables(connection: Connection, who: str) -> None:
    foreign = [name for name in inspect(connection).get_table_names() if name != VERSION_TABLE]
    if foreign:
        raise StoreError(
            "a database of another program",
            who=who,
            got=f"tables {', '.join(sorted(foreign)[:5])}",
            expected="a prune_engine store, or nothing yet",
            remedy="Name another file.",
        )


def _refuse_newer(revision: str, who: str) -> None:
    known = {file.name.partition("_")[0] for file in (_SCRIPTS / "versions").glob("[0-9]*.py")}
    if revision not in known:
        raise StoreVersionError(
            "the store was written by a newer prune_engine",
            who=who,
            got=f"schema revision {revision}",
            expected=f"{HEAD_REVISION} or older",
            remedy="Run `pip install --upgrade prune-engine`, or name another store. It was left as it is.",
        )


def _upgrade(connection: Connection) -> None:
    from alembic import command  # half a second to import: only when there is something to migrate
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(_SCRIPTS).replace("%", "%%"))
    config.attributes["connection"] = connection
    command.upgrade(config, HEAD_REVISION)
