"""Entries of the library in a store that somebody damaged, and what a look-up costs."""

from __future__ import annotations

import sqlite3
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

from prune_engine.library import LibraryQuery
from prune_engine.store import Store, open_store
from prune_engine.testing.store_samples import store_entry


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "store.sqlite3"


@pytest.fixture
def store(file: Path) -> Iterator[Store]:
    store = open_store(str(file))
    yield store
    store.close()


def execute(file: Path, statement: str, *values: object) -> list[tuple[str, ...]]:
    with sqlite3.connect(file) as connection:
        return connection.execute(statement, values).fetchall()


@pytest.mark.parametrize(
    "text",
    ["no JSON", "[]", "{}", '{"kernel_class":{"strict":"strict-1"}}'],
    ids=["no JSON", "a list", "nothing in it", "half of it"],
)
def test_an_entry_that_cannot_be_read_is_named_and_passed_over(store: Store, file: Path, text: str) -> None:
    good, bad = store_entry(sketch_id="good"), store_entry((1e-6,), sketch_id="bad")
    store.add_entries([good, bad])
    execute(file, "UPDATE library SET entry = ? WHERE entry_id = ?", text, bad.entry_id)
    with pytest.warns(UserWarning, match=f"1 of the library's entries.*{bad.entry_id}.*--entry {bad.entry_id}"):
        assert list(store.find(LibraryQuery(strict="strict-1"))) == [good]
    assert store.remove_entries([bad.entry_id]) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert list(store.find(LibraryQuery())) == [good]


def test_many_of_them_make_one_warning(store: Store, file: Path) -> None:
    store.add_entries([store_entry(sketch_id=f"sketch-{k}") for k in range(9)])
    execute(file, "UPDATE library SET entry = ''")
    with pytest.warns(UserWarning, match="9 of the library's entries") as caught:
        assert list(store.find(LibraryQuery())) == []
    assert len(caught) == 1


def test_run_times_that_are_none_are_no_entry(store: Store, file: Path) -> None:
    entry = store_entry((0.125,))
    store.add_entries([entry])
    execute(file, "UPDATE library SET entry = replace(entry, '[0.125]', '[-1.0]')")
    with pytest.warns(UserWarning, match="run times are seconds > 0"):
        assert list(store.find(LibraryQuery())) == []


def test_a_look_up_uses_an_index(store: Store, file: Path) -> None:
    store.add_entries([store_entry()])
    for column in ("strict_class", "anchor_class"):
        query = f"SELECT entry FROM library WHERE {column} = ? ORDER BY flop_per_sec DESC, seq LIMIT 256"
        (plan,) = (row[3] for row in execute(file, f"EXPLAIN QUERY PLAN {query}", "x") if "SEARCH" in row[3])
        assert f"USING INDEX ix_library_{column}" in plan
