"""What alembic runs: migrate over the connection (and in the transaction) that ``migrate.py`` hands in."""

from __future__ import annotations

from alembic import context

from prune_engine.store.schema import VERSION_TABLE, metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    version_table=VERSION_TABLE,
    render_as_batch=True,  # SQLite alters a table by copying it
)
context.run_migrations()
