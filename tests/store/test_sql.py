"""The SQL store keeps the store's contract, in a file and in memory, and what SQLite alone promises."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from prune_engine.errors import StoreError
from prune_engine.store import open_store
from prune_engine.store.base import Store
from prune_engine.testing import StoreContract
from prune_engine.testing.store_samples import DEVICE, SKETCHES, THREADS, store_measured, store_task


class TestSqliteFile(StoreContract):
    @pytest.fixture
    def store(self, tmp_path: Path) -> Iterator[Store]:
        store = open_store(str(tmp_path / "store.sqlite3"))
        yield store
        store.close()

    @pytest.fixture
    def open_again(self, tmp_path: Path) -> Callable[[], Store]:
        return lambda: open_store(str(tmp_path / "store.sqlite3"))


class TestSqliteMemory(StoreContract):
    @pytest.fixture
    def store(self) -> Iterator[Store]:
        store = open_store("sqlite://")
        yield store
        store.close()


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = open_store(str(tmp_path / "store.sqlite3"))
    yield store
    store.close()


def test_forked_child_cannot_use_the_parents_connection(store: Store) -> None:
    child = os.fork()
    if child == 0:
        try:
            store.runs()
        except StoreError:
            os._exit(0)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert list(store.runs()) == []


def test_ten_thousand_measurements(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    run_id = store.start_run({})
    store.add_tasks(run_id, [store_task("task-1")])
    start = time.perf_counter()
    for batch in range(100):
        store.add_measured(
            run_id, "task-1", SKETCHES, [store_measured(f"{batch}.{i}", trace_json="x" * 2000) for i in range(100)]
        )
    written = time.perf_counter()
    assert len(store.measured_ids("task-1", DEVICE, THREADS)) == 10_000
    listed = time.perf_counter()
    assert len(store.candidates("task-1", DEVICE, THREADS)) == 10_000
    read = time.perf_counter()
    with capsys.disabled():
        print(
            f"\n10 000 rows of 2 kB: {written - start:.2f} s to write in 100 batches, "
            f"{listed - written:.3f} s to list the ids, {read - listed:.2f} s to read all"
        )


def test_listing_ids_reads_the_index_alone(tmp_path: Path, store: Store) -> None:
    import sqlite3

    with sqlite3.connect(tmp_path / "store.sqlite3") as connection:
        plan = connection.execute(
            "EXPLAIN QUERY PLAN SELECT candidate_id FROM measurements"
            " WHERE task_id = ? AND device_name = ? AND n_threads = ?",
            ("t", "d", 1),
        ).fetchall()
    assert "COVERING INDEX" in str(plan)
