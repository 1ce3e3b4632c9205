"""Opening a store: what is accepted, what is refused and how, and that nothing is harmed by it."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, event
from typer.testing import CliRunner

from prune_engine.cli.app import make_app
from prune_engine.errors import StoreError, StoreVersionError
from prune_engine.store import default_path, open_store
from prune_engine.store.base import Store
from prune_engine.store.schema import HEAD_REVISION, VERSION_TABLE
from prune_engine.testing.store_samples import DEVICE, SKETCHES, THREADS, store_measured, store_task


def _use(store: Store) -> None:
    store.finish_run(store.start_run({}))
    store.close()


def test_none_is_the_users_own_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    _use(open_store(None))
    assert default_path() == tmp_path / "prune_engine" / "store.sqlite3"
    assert default_path().is_file()


@pytest.mark.parametrize("form", ["{}", "sqlite:///{}", "sqlite+pysqlite:///{}"])
def test_paths_and_urls_name_the_same_store(tmp_path: Path, form: str) -> None:
    file = tmp_path / "new" / "folder with %, ? and ü" / "store.db"
    if "?" in str(file) and ":" in form:
        file = tmp_path / "new" / "folder" / "store.db"  # a URL ends at the question mark
    store = open_store(form.format(file))
    assert str(file) in store.url
    _use(store)
    assert file.is_file()
    for name in (str(file), store.url):
        store = open_store(name)
        assert len(store.runs()) == 1
        store.close()


def test_relative_path_and_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    _use(open_store("rel/a.db"))
    _use(open_store("sqlite:///rel/b.db"))
    _use(open_store("~/c.db"))
    for file in ("rel/a.db", "rel/b.db", "home/c.db"):
        assert (tmp_path / file).is_file()


@pytest.mark.parametrize("name", [":memory:", "sqlite://", "sqlite:///:memory:"])
def test_memory_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.chdir(tmp_path)
    _use(open_store(name))
    assert list(tmp_path.iterdir()) == []


def test_folder_change_does_not_move_a_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    store = open_store("a.db")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    _use(store)
    assert [p.name for p in (tmp_path / "elsewhere").iterdir()] == []


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("", "empty store name"),
        ("nonsense://x", "not a store URL"),
        ("sqlite:/too/few.db", "not a store URL"),
        ("mysql://host/db", "unsupported database"),
        ("sqlite+nonsense:///x.db", "not a store URL"),
    ],
)
def test_urls_that_name_no_store(url: str, message: str) -> None:
    with pytest.raises(StoreError, match=message):
        open_store(url)


def test_password_is_not_shown() -> None:
    with pytest.raises(StoreError) as caught:
        open_store("postgresql+psycopg2://me:hunter2@localhost:1/db")
    assert "hunter2" not in str(caught.value)


def test_a_text_file_is_not_a_database(tmp_path: Path) -> None:
    file = tmp_path / "notes.txt"
    file.write_text("not a database, but long enough to have a header of a hundred bytes or so. " * 20)
    before = file.read_bytes()
    with pytest.raises(StoreError, match="not a database") as caught:
        open_store(str(file))
    assert str(file) in str(caught.value)
    assert file.read_bytes() == before


def test_a_truncated_store_is_reported(tmp_path: Path) -> None:
    file = tmp_path / "store.db"
    _use(open_store(str(file)))
    file.write_bytes(file.read_bytes()[:5000])
    with pytest.raises(StoreError, match="not a database, or a damaged one"):
        _use(open_store(str(file)))


def test_another_programs_database_is_left_alone(tmp_path: Path) -> None:
    file = tmp_path / "other.db"
    with sqlite3.connect(file) as connection:
        connection.execute("CREATE TABLE alembic_version (version_num TEXT)")
        connection.execute("INSERT INTO alembic_version VALUES ('0001')")
    before = file.read_bytes()
    with pytest.raises(StoreError, match="another program"):
        open_store(str(file))
    assert file.read_bytes() == before


def test_newer_schema_is_refused_unharmed(tmp_path: Path) -> None:
    file = tmp_path / "store.db"
    _use(open_store(str(file)))
    with sqlite3.connect(file) as connection:
        connection.execute(f"UPDATE {VERSION_TABLE} SET version_num = '9999'")
    connection.close()
    before = file.read_bytes()
    with pytest.raises(StoreVersionError) as caught:
        open_store(str(file))
    for part in (str(file), "9999", HEAD_REVISION, "pip install --upgrade prune-engine"):
        assert part in str(caught.value)
    assert file.read_bytes() == before


def test_newer_schema_is_not_waited_for(tmp_path: Path) -> None:
    """While the newer version writes, the older one says what the matter is, not that it is locked."""
    file = tmp_path / "store.db"
    _use(open_store(str(file)))
    writer = sqlite3.connect(file, isolation_level=None)
    writer.execute(f"UPDATE {VERSION_TABLE} SET version_num = '9999'")
    writer.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreVersionError):
        open_store(str(file), wait_secs=0.1)
    writer.close()


def test_values_of_a_later_version(tmp_path: Path) -> None:
    """A kind of failure this version has no name for is a StoreError, not a ValueError."""
    file = tmp_path / "store.db"
    store = open_store(str(file))
    run_id = store.start_run({})
    store.add_tasks(run_id, [store_task("task-1")])
    store.add_measured(run_id, "task-1", SKETCHES, [store_measured("c1")])
    with sqlite3.connect(file) as connection:
        connection.execute("UPDATE measurements SET error_kind = 'melted', run_secs = '[]'")
    connection.close()
    with pytest.raises(StoreError, match="melted"):
        store.candidates("task-1", DEVICE, THREADS)
    store.close()


def test_how_the_file_is_kept(tmp_path: Path) -> None:
    """A write-ahead log that is synced at each commit: that is what kill -9 and power cuts are survived by."""
    connections: list[Any] = []

    def note(connection: Any, _record: object, _proxy: object) -> None:
        connections.append(connection)

    event.listen(Engine, "checkout", note)
    try:
        store = open_store(str(tmp_path / "store.db"))
        settings = ("journal_mode", "synchronous", "foreign_keys")
        found = [connections[-1].execute(f"PRAGMA {name}").fetchone()[0] for name in settings]
        store.close()
    finally:
        event.remove(Engine, "checkout", note)
    assert found == ["wal", 2, 1]  # 2: FULL


def test_a_file_in_place_of_the_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="folder cannot be made"):
        open_store(str(tmp_path / "file" / "store.db"))


def test_a_folder_in_place_of_the_file(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="is a folder"):
        open_store(str(tmp_path))


def test_a_folder_nobody_can_write_to() -> None:
    with pytest.raises(StoreError, match="cannot be"):
        open_store("/proc/self/store.db")


def test_a_read_only_file(tmp_path: Path) -> None:
    file = tmp_path / "store.db"
    _use(open_store(str(file)))
    # Permissions do not stop root, SQLite's own read-only mode does.
    with pytest.raises(StoreError, match="cannot be opened for writing"):
        _use(open_store(f"sqlite:///file:{file}?mode=ro&uri=true"))
    with pytest.raises(StoreError, match="cannot be opened for writing"):
        open_store(f"sqlite:///file:{tmp_path / 'new.db'}?mode=ro&uri=true")


@pytest.mark.parametrize(
    ("statement", "unwanted"),
    [
        ("import prune_engine.store.base, prune_engine.store", ["sqlalchemy", "alembic"]),
        ("from prune_engine.store import open_store; open_store({!r}).runs()", ["alembic"]),
    ],
    ids=["import", "open"],
)
def test_what_is_not_imported(tmp_path: Path, statement: str, unwanted: list[str]) -> None:
    file = str(tmp_path / "store.db")
    _use(open_store(file))
    code = f"import sys; {statement.format(file)}; print([m for m in {unwanted} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(
    "arguments",
    [
        ("whitelist", "list"),
        ("whitelist", "verify"),
        ("whitelist", "remove", "abcd", "--reason", "old"),
        ("whitelist", "export", "list.json"),
        ("library", "list"),
        ("library", "export", "library.jsonl"),
        ("explain", "dense1"),
        ("policy", "show", "abcd"),
        ("report", "store.sqlite3"),
    ],
    ids=lambda arguments: " ".join(arguments[:2]),
)
def test_commands_that_read_make_no_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...]
) -> None:
    """A mistyped --store would pass `whitelist verify` in CI otherwise."""
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(make_app(), [*arguments, "--store", "stroe.sqlite3"])
    assert isinstance(done.exception, StoreError), done.output
    assert "there is no store" in str(done.exception)
    assert list(tmp_path.iterdir()) == []
