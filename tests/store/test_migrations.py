"""The migrations lead to exactly the schema the code uses, under one roof with other openers."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Table, create_engine

from prune_engine.errors import StoreLockedError
from prune_engine.store import migrations, open_store, schema

SCRIPTS = Path(migrations.__file__).parent


def _differences(file: Path) -> list[object]:
    engine = create_engine(f"sqlite:///{file}")
    with engine.connect() as connection:
        options = {"version_table": schema.VERSION_TABLE, "compare_type": True}
        context = MigrationContext.configure(connection, opts=options)
        found = list(compare_metadata(context, schema.metadata))
    engine.dispose()
    return found


def test_migrated_schema_is_the_schema(tmp_path: Path) -> None:
    file = tmp_path / "store.db"
    open_store(str(file)).close()
    assert _differences(file) == []


@pytest.mark.parametrize(
    "change",
    [
        "ALTER TABLE measurements ADD COLUMN extra TEXT",
        "ALTER TABLE measurements RENAME COLUMN is_noisy TO noisy",
        "DROP INDEX ix_comparisons_task_id",
    ],
)
def test_a_difference_would_be_seen(tmp_path: Path, change: str) -> None:
    file = tmp_path / "store.db"
    open_store(str(file)).close()
    with sqlite3.connect(file) as connection:
        connection.execute(change)
    connection.close()
    assert _differences(file) != []


def test_head_is_the_newest_script() -> None:
    config = Config()
    config.set_main_option("script_location", str(SCRIPTS))
    scripts = ScriptDirectory.from_config(config)
    assert scripts.get_heads() == [schema.HEAD_REVISION]
    for script in scripts.walk_revisions():
        assert Path(script.path).name.partition("_")[0] == script.revision


def test_upgrade_is_one_transaction(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A migration that fails half way leaves the file as it was, and the next opener repeats it."""
    from alembic import op

    file, made = tmp_path / "store.db", []
    create = op.create_table

    def create_three(*args: object, **kwargs: object) -> Table:
        made.append(args[0])
        if len(made) > 3:
            raise KeyboardInterrupt
        return create(*args, **kwargs)  # type: ignore[arg-type]

    monkeypatch.setattr(op, "create_table", create_three)
    with pytest.raises(KeyboardInterrupt):
        open_store(str(file))
    with sqlite3.connect(file) as connection:
        assert connection.execute("SELECT name FROM sqlite_master").fetchall() == []
    connection.close()
    monkeypatch.undo()
    open_store(str(file)).close()
    assert _differences(file) == []


def test_opening_waits_for_a_writer_before_it_changes_the_journal(tmp_path: Path) -> None:
    """SQLite refuses that change at once, without its usual waiting, while another process writes."""
    file = tmp_path / "store.db"
    open_store(str(file)).close()
    writer = sqlite3.connect(file, isolation_level=None, check_same_thread=False)
    assert writer.execute("PRAGMA journal_mode = DELETE").fetchall() == [("delete",)]
    writer.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreLockedError):
        open_store(str(file), wait_secs=0.1)
    release = threading.Timer(0.3, lambda: writer.execute("ROLLBACK"))
    release.start()
    open_store(str(file), wait_secs=60).close()
    release.join()
    writer.close()
    reader = sqlite3.connect(file)
    assert reader.execute("PRAGMA journal_mode").fetchall() == [("wal",)]
    reader.close()


OPENER = """
import sys
from prune_engine.store import open_store
import prune_engine.store.sql, alembic.command  # imported before the start, so that the openers meet
print("ready", flush=True)
sys.stdin.readline()
for name in sys.argv[1:]:
    store = open_store(name)
    store.start_run({})
    store.close()
"""


def test_many_processes_open_fresh_stores_at_once(tmp_path: Path) -> None:
    files = [str(tmp_path / f"{i}.db") for i in range(15)]
    openers = [
        subprocess.Popen(
            [sys.executable, "-c", OPENER, *files],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(3)
    ]
    for opener in openers:
        assert opener.stdout is not None
        assert opener.stdout.readline() == "ready\n"
    for opener in openers:
        assert opener.stdin is not None
        opener.stdin.write("go\n")
        opener.stdin.flush()
    for opener in openers:
        _, errors = opener.communicate(timeout=120)
        assert opener.returncode == 0, errors
    for file in files:
        store = open_store(file)
        assert len(store.runs()) == len(openers)
        store.close()
