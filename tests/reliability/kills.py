"""``kill -9`` at random moments over a replayed run, which goes on each time where it was."""

from __future__ import annotations

import random
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from reliability.figure import Figure

from prune_engine.measurement import REPLAY_DEVICE
from prune_engine.store.sql import SqlStore
from prune_engine.testing import make_task

TASKS = ("a", "b")
BATCH = 8
#: A life ends after so many lines at most, of which there are two for each trial.
_MAX_LINES = 60

#: One life of the run. It says "ask TASK ID" before each measurement and "stored TASK ID" once it is in the store.
_JOB = f"""
import os, sys, time
sys.path.append(sys.argv[1])
from kits.recordings import fake_recording
from prune_engine.recorded import replay as replaying
from prune_engine.config import EngineConfig
from prune_engine.store.sql import SqlStore
from prune_engine.testing import make_profile

def tell(*words):
    # One write, so that a kill cannot cut a line in two.
    os.write(1, (" ".join(words) + "\\n").encode())

class Told(SqlStore):
    def add_measured(self, run_id, task_id, sketch_ids, measured):
        super().add_measured(run_id, task_id, sketch_ids, measured)
        for one in measured:
            tell("stored", task_id, one.measurement.candidate_id)

class Asking(replaying.ReplayWorkbench):
    def measure_defaults(self, tasks):
        for task in tasks:
            tell("ask", task.task_id, "default")
            yield from super().measure_defaults([task])

    def measure(self, space, *others):
        self.task_id = space.task.task_id
        yield from super().measure(space, *others)

    def _measurement(self, candidate_id, *others):
        if candidate_id != "default":
            tell("ask", self.task_id, candidate_id)
            time.sleep(0.001)  # so that kills fall into batches too
        return super()._measurement(candidate_id, *others)

replaying.ReplayWorkbench = Asking
store = Told(sys.argv[2])
spaces = [fake_recording(int(sys.argv[4]), name=name) for name in {TASKS!r}]
config = EngineConfig.of(n_trials=int(sys.argv[3]), batch_size={BATCH}, first_batch_size={BATCH}, draft_scorer=None,
                         verifier=None, selector="select.epsilon-greedy", plateau_trials=10**6)
replaying.replay(spaces, config, make_profile(), store)
tell("done", "-", "-")
"""


def measure(folder: Path, n_kills: int, *, seed: int = 4) -> Figure:
    """Kill a replayed run so many times, then let it end."""
    # Twice the trials that lives will get on average: it must not end before its last life.
    n_trials = n_kills * _MAX_LINES // 2 + 40
    url, moments = f"sqlite:///{folder / 'store.sqlite3'}", random.Random(seed)
    known: set[tuple[str, str]] = set()
    wrong: Counter[str] = Counter()
    moments_met: Counter[str] = Counter()
    n_asked = 0
    for life in range(n_kills + 1):
        is_last = life == n_kills
        lines = list(_lines_of_a_life(url, n_trials, None if is_last else moments))
        asked = [(task, i) for word, task, i in lines if word == "ask"]
        reported = {(task, i) for word, task, i in lines if word == "stored"}
        now = _stored(folder / "store.sqlite3", wrong)
        wrong["committed measurements lost"] += len(known - now) + len(reported - now)
        wrong["measured again"] += len(known & set(asked)) + len(asked) - len(set(asked))
        wrong["stored without being measured"] += len(now - known - set(asked))
        wrong["more lost than the batch in flight"] += len(set(asked) - now) > BATCH
        ended = bool(lines) and lines[-1][0] == "done"
        wrong["runs that ended though killed, or did not end though not"] += ended != is_last
        if not is_last:
            moments_met["between batches" if set(asked) <= now else "in a batch"] += bool(asked)
            moments_met["before anything was measured"] += not asked
        known, n_asked = now, n_asked + len(asked)
    wrong["measurements missing at the end"] += n_trials + len(TASKS) - len(known)
    return Figure(
        "kills",
        n_kills,
        dict(wrong),
        details={
            "measurements_stored": len(known),
            "measured_but_killed_before_they_were_stored": n_asked - len(known),
            "kills_by_moment": dict(moments_met),
        },
    )


def _lines_of_a_life(url: str, n_trials: int, moments: random.Random | None) -> Iterator[list[str]]:
    """Run the job, or kill it at a random moment; yield what it said."""
    command = [sys.executable, "-c", _JOB, str(Path(__file__).parent.parent), url, str(n_trials), str(n_trials)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as job:
        assert job.stdout is not None
        last_line = moments.randint(-8, _MAX_LINES) if moments else None
        if moments and last_line is not None and last_line <= 0:
            time.sleep(moments.uniform(0, 1.2))  # while it starts, opens the store and reads it
            job.send_signal(signal.SIGKILL)
        for number, line in enumerate(job.stdout, 1):
            yield line.split()
            if moments and number == last_line:
                time.sleep(moments.uniform(0, 0.02))
                job.send_signal(signal.SIGKILL)


def _stored(file: Path, wrong: Counter[str]) -> set[tuple[str, str]]:
    """(task, candidate) of all that is stored, read twice: by SQLite alone and by our own store."""
    connection = sqlite3.connect(file)
    try:
        is_sound = connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        is_sound &= connection.execute("PRAGMA foreign_key_check").fetchall() == []
    except sqlite3.DatabaseError:
        is_sound = False
    finally:
        connection.close()
    wrong["corrupt stores"] += not is_sound
    if not is_sound:
        return set()
    store = SqlStore(f"sqlite:///{file}")
    try:
        ids = [make_task(name).task_id for name in TASKS]
        return {(task_id, i) for task_id in ids for i in store.measured_ids(task_id, REPLAY_DEVICE, 1)}
    finally:
        store.close()
