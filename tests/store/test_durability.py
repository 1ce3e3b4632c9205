"""What survives: kill -9, two writers at once, a lock that is not given up, a full disk."""

from __future__ import annotations

import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import pytest
from sqlalchemy import Engine, event

from prune_engine.errors import StoreFullError, StoreLockedError
from prune_engine.store import open_store
from prune_engine.testing.store_samples import DEVICE, SKETCHES, THREADS, store_measured, store_task
from prune_engine.verdicts import Outcome, Stage, Verdict

BATCH = 5
DROP = Verdict(Stage.RULE, "rules.x", Outcome.DROPPED, "too big")

IMPORTS = """
import os, sys
from prune_engine.errors import *
from prune_engine.store import open_store
from prune_engine.testing.store_contract import *
from prune_engine.verdicts import *
def write(name, size=5):
    store.add_measured(run_id, "task-1", SKETCHES, [store_measured(f"{name}.{i}") for i in range(size)])
"""
START = """
store = open_store(sys.argv[1])
run_id = store.start_run({})
store.add_tasks(run_id, [store_task("task-1")])
"""
PRELUDE = IMPORTS + START


def _python(code: str, *args: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", PRELUDE + code, *args]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def _out(process: subprocess.Popen[str]) -> IO[str]:
    assert process.stdout is not None
    return process.stdout


def _check_integrity(file: Path) -> None:
    connection = sqlite3.connect(file)
    assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
    connection.close()


WRITE_FOR_EVER = """
n = 0
while True:
    write(f"{sys.argv[2]}.{n}")
    store.add_verdicts(run_id, "task-1", [Verdict(Stage.RULE, "rules.x", Outcome.DROPPED, "too big")])
    print(n, flush=True)
    n += 1
"""


def test_kill_9_loses_nothing_acknowledged(tmp_path: Path) -> None:
    """Killed at 12 random moments, among them the opening of the store and the middle of a transaction."""
    file, rng = tmp_path / "store.db", random.Random(20)
    n_acknowledged = 0
    for attempt in range(12):
        writer = _python(WRITE_FOR_EVER, str(file), str(attempt))
        # Wait for a number of acknowledgements, then a little more, so that the kill falls anywhere in a write.
        lines = [_out(writer).readline() for _ in range(rng.choice([1, 2, 5, 20]))]
        try:
            writer.wait(timeout=rng.uniform(0, 0.02))
        except subprocess.TimeoutExpired:
            os.kill(writer.pid, signal.SIGKILL)
        lines += _out(writer).readlines()
        assert writer.wait(timeout=30) == -signal.SIGKILL
        done = [int(line) for line in lines if line.endswith("\n")]
        n_acknowledged += len(done)

        _check_integrity(file)
        store = open_store(str(file))
        found = store.measured_ids("task-1", DEVICE, THREADS)
        for n in done:
            assert all(f"{attempt}.{n}.{i}" in found for i in range(BATCH))
        # The batch in flight is there as a whole or not at all, and there is only one such.
        mine = [c for c in found if c.startswith(f"{attempt}.")]
        assert len(mine) in (len(done) * BATCH, (len(done) + 1) * BATCH)
        assert n_acknowledged <= store.verdicts("task-1")[0].count
        store.close()


def test_kill_9_while_the_store_is_made(tmp_path: Path) -> None:
    """Killed at 10 random moments of the first opening; whatever is left then opens."""
    rng = random.Random(21)
    opening = (
        "import sys; from prune_engine.store import sql, open_store; import alembic.command; print(1, flush=True)"
    )
    for attempt in range(10):
        file = tmp_path / f"{attempt}.db"
        command = [sys.executable, "-c", opening + "; open_store(sys.argv[1]); print(2, flush=True)", str(file)]
        opener = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert _out(opener).readline() == "1\n"
        try:
            opener.wait(timeout=rng.uniform(0, 0.08))
        except subprocess.TimeoutExpired:
            opener.kill()
        opener.communicate(timeout=30)
        store = open_store(str(file))
        store.finish_run(store.start_run({}))
        store.close()
        _check_integrity(file)


WRITE_SOME = """
print("ready", flush=True)
sys.stdin.readline()
for n in range(60):
    write(f"shared.{n}")
    write(f"{sys.argv[2]}.{n}")
    store.add_verdicts(run_id, "task-1", [Verdict(Stage.RULE, "rules.x", Outcome.DROPPED, "too big")] * 2)
    assert f"shared.{n}.0" in store.measured_ids("task-1", DEVICE, THREADS)
"""


def test_two_writers_at_once(tmp_path: Path) -> None:
    """No lost update, no duplicate, no deadlock."""
    file = tmp_path / "store.db"
    writers = [_python(WRITE_SOME, str(file), name) for name in ("first", "second")]
    for writer in writers:
        assert _out(writer).readline() == "ready\n"
    for writer in writers:
        assert writer.stdin is not None
        writer.stdin.write("go\n")
        writer.stdin.flush()
    for writer in writers:
        writer.communicate(timeout=120)
        assert writer.returncode == 0
    store = open_store(str(file))
    found = [c.candidate_id for c in store.candidates("task-1", DEVICE, THREADS)]
    expected = {f"{name}.{n}.{i}" for name in ("shared", "first", "second") for n in range(60) for i in range(5)}
    assert len(found) == len(expected)
    assert set(found) == expected
    assert [v.count for v in store.verdicts("task-1")] == [2 * 2 * 60]
    store.close()
    _check_integrity(file)


HOLD = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("BEGIN IMMEDIATE")
print("held", flush=True)
sys.stdin.readline()
connection.execute("ROLLBACK")
print("released", flush=True)
sys.stdin.readline()
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    file = tmp_path / "store.db"
    open_store(str(file)).close()
    return file


@pytest.fixture
def holder(file: Path) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(file)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert _out(process).readline() == "held\n"
    yield process
    process.kill()
    process.communicate(timeout=30)


def test_locked_for_too_long(file: Path, holder: subprocess.Popen[str]) -> None:
    store = open_store(str(file), wait_secs=0.2)  # opening and reading do not need the lock
    assert list(store.runs()) == []
    with pytest.raises(StoreLockedError) as caught:
        store.start_run({})
    for part in (str(file), "0.2 s", f"process {holder.pid}"):
        assert part in str(caught.value)
    assert holder.stdin is not None
    holder.stdin.write("\n")
    holder.stdin.flush()
    assert _out(holder).readline() == "released\n"
    store.start_run({})
    assert len(store.runs()) == 1
    store.close()


def test_a_new_store_that_is_locked(tmp_path: Path) -> None:
    file = tmp_path / "new.db"
    connection = sqlite3.connect(file, isolation_level=None)
    connection.execute("BEGIN EXCLUSIVE")
    with pytest.raises(StoreLockedError):
        open_store(str(file), wait_secs=0.1)
    connection.execute("ROLLBACK")
    connection.close()
    open_store(str(file), wait_secs=0.1).close()


def test_no_room_in_the_database(tmp_path: Path) -> None:
    """SQLite's own limit stands in for the disk's: the same error, on any machine."""

    def limit(connection: Any, _record: object) -> None:
        connection.execute("PRAGMA max_page_count = 100")

    file = tmp_path / "store.db"
    event.listen(Engine, "connect", limit)
    try:
        store = open_store(str(file))
        run_id = store.start_run({})
        store.add_tasks(run_id, [store_task("task-1")])
        n, problem = 0, None
        while problem is None and n < 1000:
            batch = [store_measured(f"{n}.{i}", trace_json="x" * 2000) for i in range(BATCH)]
            try:
                store.add_measured(run_id, "task-1", SKETCHES, batch)
                n += 1
            except StoreFullError as error:
                problem = str(error)
        assert problem is not None
        assert str(file) in problem
        assert "committed before is intact" in problem
        assert n > 2
        # The same store goes on: all before the failed batch is there, nothing of that batch, and small writes fit.
        assert len(store.measured_ids("task-1", DEVICE, THREADS)) == n * BATCH
        store.close()
    finally:
        event.remove(Engine, "connect", limit)
    _check_integrity(file)
    store = open_store(str(file))
    store.add_measured(run_id, "task-1", SKETCHES, [store_measured(f"{n}.{i}") for i in range(BATCH)])
    assert len(store.measured_ids("task-1", DEVICE, THREADS)) == (n + 1) * BATCH
    store.close()


FILL_DISK = """
n = 0
try:
    for n in range(10000):
        batch = [store_measured(f"{n}.{i}", trace_json="x" * 2000) for i in range(5)]
        store.add_measured(run_id, "task-1", SKETCHES, batch)
except StoreFullError as error:
    assert n > 2, n
else:
    raise SystemExit("the disk never filled up")
assert len(store.measured_ids("task-1", DEVICE, THREADS)) == n * 5
try:  # closing a store on a full disk says at most that
    store.close()
except StoreFullError:
    pass
os.system("mount -o remount,size=64m " + os.path.dirname(sys.argv[1]))
store = open_store(sys.argv[1])
assert len(store.measured_ids("task-1", DEVICE, THREADS)) == n * 5
write(n)
assert len(store.measured_ids("task-1", DEVICE, THREADS)) == (n + 1) * 5
store.close()
import sqlite3
assert sqlite3.connect(sys.argv[1]).execute("PRAGMA integrity_check").fetchall() == [("ok",)]
print("fine")
"""


def _in_small_disk(folder: Path, size: str, code: str) -> subprocess.CompletedProcess[str]:
    """Run code with a tiny disk mounted on a folder, in a mount namespace that goes away with the process."""
    if shutil.which("unshare") is None:
        pytest.skip("no unshare here")
    namespace = ["unshare", "--map-root-user", "--mount", "sh", "-c"]
    mount = f"mount -t tmpfs -o size={size} tmpfs '{folder}'"
    if subprocess.run([*namespace, mount], capture_output=True, timeout=30).returncode != 0:
        pytest.skip("no file system can be mounted here")
    script = f'{mount} && exec "$@"'
    command = [*namespace, script, "sh", sys.executable, "-c", code, str(folder / "store.db")]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


@pytest.mark.parametrize("size", ["1m", "1400k", "3m"])
def test_full_disk(tmp_path: Path, size: str) -> None:
    done = _in_small_disk(tmp_path, size, PRELUDE + FILL_DISK)
    assert done.stdout == "fine\n", done.stdout + done.stderr


ANY_SIZE = """
folder = os.path.dirname(sys.argv[1])
sizes = [f"size={kib}k" for kib in range(4, 136, 4)] + [f"size=8m,nr_inodes={n}" for n in range(1, 4)]
for size in sizes:
    assert os.system(f"mount -t tmpfs -o {size} tmpfs '{folder}'") == 0
    store = None
    try:
        store = open_store(sys.argv[1])
        run_id = store.start_run({})
        store.add_tasks(run_id, [store_task("task-1")])
        for n in range(1000):
            write(n)
        print(size, "never filled up")
    except StoreFullError:
        pass
    except StoreError as error:
        print(size, error)
    if store is not None:
        store.close()
    os.system(f"umount '{folder}'")
print("done")
"""


def test_wherever_the_space_ends(tmp_path: Path) -> None:
    """SQLite runs out of space in the database, its log, its shared memory and for lack of files: each says so."""
    done = _in_small_disk(tmp_path, "1m", IMPORTS + ANY_SIZE)
    assert done.stdout == "done\n", done.stdout + done.stderr


def test_a_read_only_file_system(tmp_path: Path) -> None:
    code = """
import os, sys
from prune_engine.errors import StoreError
from prune_engine.store import open_store
open_store(sys.argv[1]).close()
assert os.system("mount -o remount,ro " + os.path.dirname(sys.argv[1])) == 0
for name in (sys.argv[1], os.path.dirname(sys.argv[1]) + "/new.db", os.path.dirname(sys.argv[1]) + "/a/b.db"):
    try:
        open_store(name).start_run({})
    except StoreError as error:
        print(type(error).__name__)
"""
    done = _in_small_disk(tmp_path, "2m", code)
    assert done.stdout == "StoreError\n" * 3, done.stdout + done.stderr
