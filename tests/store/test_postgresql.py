"""The same contract on PostgreSQL, where a database to write to is given.

PRUNE_ENGINE_TEST_POSTGRESQL=postgresql+psycopg2://user@host/empty_database pytest tests/store
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

import pytest
from sqlalchemy import create_engine, text

from prune_engine.store import open_store, schema
from prune_engine.store.base import Store
from prune_engine.testing.store_contract import StoreContract

URL = os.environ.get("PRUNE_ENGINE_TEST_POSTGRESQL")


if URL is None:
    pytest.skip("PRUNE_ENGINE_TEST_POSTGRESQL names no database", allow_module_level=True)


class TestPostgresql(StoreContract):
    @pytest.fixture
    def store(self) -> Iterator[Store]:
        assert URL is not None  # for mypy: module-level skips do not narrow
        store = open_store(URL)
        yield store
        store.close()
        engine = create_engine(URL)
        with engine.begin() as connection:
            schema.metadata.drop_all(connection)
            connection.execute(text(f"DROP TABLE {schema.VERSION_TABLE}"))
        engine.dispose()

    @pytest.fixture
    def open_again(self) -> Callable[[], Store]:
        return lambda: open_store(str(URL))
