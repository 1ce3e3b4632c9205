"""Disks, locks, clocks, signals and streams that go wrong around a replayed run."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

from kits.recordings import fake_recording
from reliability.driver import N_ROWS
from reliability.figure import Figure

from prune_engine.config import EngineConfig
from prune_engine.recorded.replay import replay
from prune_engine.store.open import open_store
from prune_engine.testing import make_profile

N_TRIALS = 48
_WITHOUT = (
    "--verifier",
    "none",
    "--draft",
    "none",
    "--selector",
    "select.epsilon-greedy",
    "--batch",
    "8",
    "--no-decisions",
)
#: The store of a run of this size takes about 200 kB; each trial adds four more.
_TRACE_BYTES, _SMALL_DISK = 4000, "380k"
_SLOW = {"delay_secs": 0.02}


@dataclass(slots=True)
class Case:
    """One kind of trouble: what the program must do, and in what it did otherwise."""

    name: str
    behaviour: str
    problems: list[str] = field(default_factory=list)
    is_possible: bool = True

    def expect(self, what: str, got: object, expected: object) -> None:
        """Note a difference."""
        if got != expected:
            self.problems.append(f"{what}: got {got!r}, expected {expected!r}")

    def expect_words(self, text: str, *words: str) -> None:
        """Note what a message lacks, and a traceback."""
        self.problems += [f"the message lacks {word!r}: {text[-400:]}" for word in words if word not in text]
        if "Traceback" in text:
            self.problems.append(f"a traceback: {text[-400:]}")


def command(store: Path | str, **options: float) -> list[str]:
    """The command line of a replayed run on a store, in surroundings as the driver makes them."""
    driver = [sys.executable, str(Path(__file__).parent / "driver.py"), json.dumps(options)]
    tune = ["tune", "--replay", "any", "--store", str(store), "--trials", str(N_TRIALS), *_WITHOUT, "--json"]
    return driver + tune


def _full_disk(case: Case, folder: Path, _hold_secs: float) -> None:
    done = _in_small_disk(case, folder, "", command("disk/store.db", trace_bytes=_TRACE_BYTES))
    if done is not None:
        case.expect("exit code", done.returncode, 4)
        case.expect_words(done.stderr, "no space left", "committed before is intact")
        n = _check_resumable(case, folder / "store.db")
        if not 0 < n < N_TRIALS:
            case.problems.append(f"the disk was full too early or too late, with {n} stored")


def _read_only(case: Case, folder: Path, _hold_secs: float) -> None:
    first = [word if word != str(N_TRIALS) else "16" for word in command("disk/store.db")]
    prepare = f"{shlex.join(first)} >/dev/null 2>&1 && mount -o remount,ro disk"
    done = _in_small_disk(case, folder, prepare, command("disk/store.db"))
    if done is not None:
        case.expect("exit code", done.returncode, 4)
        case.expect_words(done.stderr, "cannot be opened for writing", "Name a file in a folder")
        case.expect("stored before", _check_resumable(case, folder / "store.db"), 16)


def _locked(case: Case, folder: Path, hold_secs: float) -> None:
    store = folder / "store.db"
    run = _start(command(store, **_SLOW))
    _wait_for_rows(store, 8)
    with closing(sqlite3.connect(store, isolation_level=None, timeout=60)) as holder:
        holder.execute("BEGIN IMMEDIATE")
        n_locked = len(_rows(store))
        time.sleep(hold_secs)
        case.expect("stored while locked", len(_rows(store)), n_locked)
        case.expect("ended while locked", run.poll(), None)
        holder.execute("ROLLBACK")
    _out, err = run.communicate(timeout=120)
    case.expect("exit code", run.returncode, 0)
    case.expect_words(err)
    case.expect("stored", _check_resumable(case, store), N_TRIALS)


def _locked_for_too_long(case: Case, folder: Path, hold_secs: float) -> None:
    store = folder / "store.db"
    # What the store waits for by itself is too long for a quick test.
    is_quick = hold_secs < 20
    run = _start(command(store, **(_SLOW | {"wait_secs": hold_secs} if is_quick else _SLOW)))
    _wait_for_rows(store, 8)
    with closing(sqlite3.connect(store, isolation_level=None, timeout=60)) as holder:
        holder.execute("BEGIN IMMEDIATE")
        _out, err = run.communicate(timeout=120)
        holder.execute("ROLLBACK")
    case.expect("exit code", run.returncode, 4)
    case.expect_words(err, str(store), f"{hold_secs if is_quick else 30:g} s", f"process {os.getpid()}", "resumes")
    _check_resumable(case, store)


def _clock(case: Case, folder: Path, _hold_secs: float) -> None:
    stores = [folder / "straight.db", folder / "back.db"]
    for store, options in zip(stores, ({}, {"clock_back_secs": 86400.0}), strict=True):
        done = subprocess.run(command(store, **options), capture_output=True, text=True, timeout=120)
        case.expect("exit code", done.returncode, 0)
        case.expect_words(done.stderr)
    straight, back = map(_rows, stores)
    case.expect("same trials in the same order", back, straight)
    case.expect("stored", _check_resumable(case, stores[1]), N_TRIALS)
    # A budget of seconds ends when they are over, not a day later.
    timed = command(folder / "timed.db", clock_back_secs=86400.0, **_SLOW)
    timed[timed.index("--trials") : timed.index("--trials") + 2] = ["--seconds", "2", "--plateau", "100000"]
    done = subprocess.run(timed, capture_output=True, text=True, timeout=120)
    case.expect("ended by", json.loads(done.stdout)["stop_reason"] if done.stdout else None, "seconds")


def _terminated(case: Case, folder: Path, _hold_secs: float) -> None:
    store = folder / "store.db"
    run = _start(command(store, **_SLOW))
    _wait_for_rows(store, 8)
    run.send_signal(signal.SIGTERM)
    out, err = run.communicate(timeout=120)
    case.expect("exit code", run.returncode, 0)
    case.expect_words(err, "stopping after this batch")
    case.expect("reason", json.loads(out)["stop_reason"] if out else None, "interrupted")
    n = _check_resumable(case, store)
    case.expect("told", json.loads(out)["tasks"][0]["n_trials"] if out else None, n)


def _terminated_twice(case: Case, folder: Path, _hold_secs: float) -> None:
    store = folder / "store.db"
    run = _start(command(store, delay_secs=0.3))
    _wait_for_rows(store, 8)
    run.send_signal(signal.SIGTERM)
    assert run.stderr is not None
    while "stopping after this batch" not in (line := run.stderr.readline()) and line:
        pass
    run.send_signal(signal.SIGTERM)
    _out, err = run.communicate(timeout=120)
    case.expect("exit code", run.returncode, 130)
    case.expect_words(err)
    _check_resumable(case, store)


def _closed_stdout(case: Case, folder: Path, _hold_secs: float) -> None:
    for name, redirection in {"stdout": ">&-", "all": "<&- >&- 2>&-"}.items():
        store = folder / f"{name}.db"
        line = f"{shlex.join(command(store))} {redirection}"
        done = subprocess.run(["sh", "-c", line], capture_output=True, text=True, timeout=120)
        case.expect("exit code", done.returncode, 0)
        case.expect_words(done.stderr)
        case.expect("stored", _check_resumable(case, store), N_TRIALS)


def _reader_gone(case: Case, folder: Path, _hold_secs: float) -> None:
    store = folder / "store.db"
    run = subprocess.Popen(command(store), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert run.stdout is not None
    assert run.stderr is not None
    run.stdout.close()
    err = run.stderr.read()
    run.stderr.close()
    case.expect("exit code", run.wait(120), 141)
    case.expect_words(err)
    case.expect("stored", _check_resumable(case, store), N_TRIALS)


def _reader_of_all_gone(case: Case, folder: Path, _hold_secs: float) -> None:
    store = folder / "store.db"
    line = f"({shlex.join(command(store, **_SLOW))} 2>&1; echo $? >{folder / 'code'}) | head -1"
    done = subprocess.run(["sh", "-c", line], capture_output=True, text=True, timeout=120)
    case.expect("exit code", (folder / "code").read_text().strip(), "141")
    case.expect_words(done.stdout + done.stderr)
    n = _check_resumable(case, store) if store.exists() else 0
    case.expect("stopped before its end", n < N_TRIALS, True)


def _full_stdout(case: Case, folder: Path, _hold_secs: float) -> None:
    store = folder / "store.db"
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(command(store), stdout=full, stderr=subprocess.PIPE, text=True, timeout=120)
    case.expect("exit code", done.returncode, 5)
    case.expect_words(done.stderr, "standard output: cannot be written")
    case.expect("stored", _check_resumable(case, store), N_TRIALS)


_CASES: Sequence[tuple[str, str, Callable[[Case, Path, float], None]]] = (
    (
        "disk full",
        "exit code 4, `no space left to write to`; what was committed is intact, and the same command resumes once"
        " there is room",
        _full_disk,
    ),
    (
        "read-only file system",
        "exit code 4, `cannot be opened for writing`; nothing is changed",
        _read_only,
    ),
    (
        "store locked for a while",
        "the run waits (up to 30 s for each write) and goes on; exit code 0",
        _locked,
    ),
    (
        "store locked for longer",
        "exit code 4 after 30 s; the message names the process that holds the lock; the same command resumes",
        _locked_for_too_long,
    ),
    (
        "clock set back by a day",
        "exit code 0; the same trials in the same order as with a clock that goes on;"
        " the seconds of a budget are those of a clock that cannot be set",
        _clock,
    ),
    ("SIGTERM", "the batch is finished and stored, the best so far is the result; exit code 0", _terminated),
    (
        "SIGTERM twice",
        "the run ends at once; exit code 130; the batch in flight is lost, no other",
        _terminated_twice,
    ),
    ("stdout closed (`>&-`)", "the run ends as always, without its result on stdout; exit code 0", _closed_stdout),
    ("reader of stdout gone (`| true`)", "exit code 141 once the result is printed; all is stored", _reader_gone),
    (
        "reader of all output gone (`2>&1 | head -1`)",
        "the run ends at its next line of progress; exit code 141; what was committed is intact",
        _reader_of_all_gone,
    ),
    ("stdout on a full disk", "exit code 5, `standard output: cannot be written`; all is stored", _full_stdout),
)


def measure(folder: Path, hold_secs: float, only: Sequence[str] = ()) -> Figure:
    """Meet every kind of trouble once; the store is locked for ``hold_secs``. ``only`` names some of them."""
    cases = []
    for number, (name, behaviour, meet) in enumerate(_CASES):
        if only and name not in only:
            continue
        case = Case(name, behaviour)
        place = folder / str(number)
        place.mkdir()
        meet(case, place, hold_secs)
        cases.append(case)
    return Figure(
        "surroundings",
        sum(case.is_possible for case in cases),
        {case.name: len(case.problems) for case in cases if case.is_possible},
        details={
            "behaviour": {case.name: case.behaviour for case in cases if case.is_possible},
            "not_possible_here": [case.name for case in cases if not case.is_possible],
            "problems": {case.name: case.problems for case in cases if case.problems},
            "store_locked_secs": hold_secs,
        },
    )


def _start(words: Sequence[str]) -> subprocess.Popen[str]:
    return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def _rows(store: Path) -> list[tuple[str, str]]:
    """(task, candidate) of what is stored, in the order of writing; the untuned kernel left out."""
    if not store.exists():
        return []
    query = "SELECT task_id, candidate_id FROM measurements WHERE candidate_id <> 'default' ORDER BY seq"
    with closing(sqlite3.connect(store)) as connection:
        try:
            return list(connection.execute(query))
        except sqlite3.OperationalError:  # being made
            return []


def _wait_for_rows(store: Path, n: int) -> None:
    give_up_at = time.monotonic() + 60
    while len(_rows(store)) < n:
        assert time.monotonic() < give_up_at, f"fewer than {n} measurements after 60 s"
        time.sleep(0.02)


def _check_resumable(case: Case, store: Path) -> int:
    """Look at the store, then let the same run go on; how many measurements there were before."""
    with closing(sqlite3.connect(store)) as connection:
        case.expect("integrity", connection.execute("PRAGMA integrity_check").fetchall(), [("ok",)])
    before = _rows(store)
    config = EngineConfig.of(
        n_trials=N_TRIALS, draft_scorer=None, verifier=None, selector="select.epsilon-greedy", batch_size=8
    )
    opened = open_store(str(store))
    resumed = replay([fake_recording(N_ROWS)], config, make_profile(), opened, n_threads=_threads(store))
    opened.close()
    after = _rows(store)
    case.expect("stored before and lost", len(set(before) - set(after)), 0)
    case.expect("stored twice", len(after) - len(set(after)), 0)
    measured_again = {
        i for i in resumed.rounds.values() for batch in i for i in [m.measurement.candidate_id for m in batch]
    }
    case.expect("measured again", len(measured_again & {i for _, i in before}), 0)
    case.expect("in the end", len(after), N_TRIALS)
    return len(before)


def _threads(store: Path) -> int | None:
    with closing(sqlite3.connect(store)) as connection:
        found = connection.execute("SELECT n_threads FROM measurements LIMIT 1").fetchone()
    return int(found[0]) if found else None


def _in_small_disk(
    case: Case, folder: Path, prepare: str, words: Sequence[str]
) -> subprocess.CompletedProcess[str] | None:
    """Run a command with a tiny disk mounted on ``folder/disk``, then copy the store out to ``folder``.

    None, and noted, where no file system can be mounted. The mount goes away with the process.
    """
    namespace = ["unshare", "--map-root-user", "--mount", "sh", "-c"]
    (folder / "disk").mkdir()
    mount = f"mount -t tmpfs -o size={_SMALL_DISK} tmpfs disk"
    if (
        shutil.which("unshare") is None
        or subprocess.run([*namespace, mount], cwd=folder, capture_output=True).returncode
    ):
        case.is_possible = False
        return None
    steps = [mount, *([prepare] if prepare else [])]
    script = f"{' && '.join(steps)} && {{ {shlex.join(words)}; code=$?; cp disk/* . ; exit $code; }}"
    return subprocess.run([*namespace, script], cwd=folder, capture_output=True, text=True, timeout=240)
