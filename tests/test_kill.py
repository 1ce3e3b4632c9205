"""``kill -9`` at any moment: what was reported as stored is there, nothing is measured again, the job ends."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from pathlib import Path

from prune_engine.store.sql import SqlStore
from prune_engine.testing import make_task

N_TRIALS, N_KILLS, BATCH = 160, 9, 8

#: One run of the job. It says "ask ID" before each measurement and "stored ID" once it is in the store.
JOB = f"""
import os
import sys
from prune_engine.config import EngineConfig
from prune_engine.engine import Engine
from prune_engine.store.sql import SqlStore
from prune_engine.testing import FakeWorkbench, make_profile, make_task

def tell(*words):
    # One write, so that a kill cannot cut a line in two.
    os.write(1, (" ".join(words) + "\\n").encode())

class Told(SqlStore):
    def add_measured(self, run_id, task_id, sketch_ids, measured):
        super().add_measured(run_id, task_id, sketch_ids, measured)
        for one in measured:
            tell("stored", task_id, one.measurement.candidate_id)

class Asking(FakeWorkbench):
    def _before(self, task, candidate):
        tell("ask", task.task_id, candidate.candidate_id if candidate else "default")
        super()._before(task, candidate)

tasks = [make_task("a"), make_task("b", shape=(32, 32, 32))]
config = EngineConfig.of(n_trials={N_TRIALS}, batch_size={BATCH}, verifier=None, seed=int(sys.argv[2]))
store = Told(sys.argv[1])
Engine(config, Asking(delay_secs=0.002), store, make_profile()).run(tasks)
tell("done", "-", "-")
"""


def stored(url: str) -> set[tuple[str, str]]:
    store = SqlStore(url)
    try:
        tasks = [make_task("a"), make_task("b", shape=(32, 32, 32))]
        return {(t.task_id, i) for t in tasks for i in store.measured_ids(t.task_id, "fake-cpu", 2)}
    finally:
        store.close()


def test_kill_at_random_moments(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'store.sqlite3'}"
    moments = random.Random(4)
    known: set[tuple[str, str]] = set()
    n_asked = 0
    for life in range(N_KILLS + 1):
        is_last = life == N_KILLS
        job = subprocess.Popen([sys.executable, "-c", JOB, url, str(life)], stdout=subprocess.PIPE, text=True)
        lines: list[list[str]] = []
        # Lives end within the first lines, in the middle of a batch, or between two of them.
        last_line, delay_secs = moments.randint(1, 45), moments.choice([0.0, 0.001, 0.003, 0.01])
        assert job.stdout is not None
        for line in job.stdout:
            lines.append(line.split())
            if not is_last and len(lines) == last_line:
                time.sleep(delay_secs)
                job.send_signal(signal.SIGKILL)
        job.stdout.close()
        job.wait(60)
        asked = [(task, i) for word, task, i in lines if word == "ask"]
        reported = {(task, i) for word, task, i in lines if word == "stored"}
        assert len(asked) == len(set(asked)), "measured twice in one life"
        assert not known & set(asked), "what was stored was measured again"
        now = stored(url)
        assert reported <= now, "reported as stored, but lost"
        assert known <= now
        assert now - known <= set(asked)
        assert len(set(asked) - now) <= BATCH, "more was lost than the batch in flight"
        known, n_asked = now, n_asked + len(asked)
        if is_last:
            assert job.returncode == 0
            assert lines[-1][0] == "done"
        else:
            assert job.returncode == -signal.SIGKILL, "it ended before it was killed: give it more trials"
    assert len(known) == N_TRIALS + 2
    assert n_asked <= N_TRIALS + 2 + N_KILLS, "each kill costs at most what was being measured"
