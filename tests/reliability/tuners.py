"""Two tuners on one SQLite store: what each was told is stored is there, once, and counts add up."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from collections import Counter
from contextlib import closing
from pathlib import Path

from reliability.figure import Figure

from prune_engine.store.sql import SqlStore

#: Longest time that a write may wait for the other tuner's; the store gives up after 30 s.
_MAX_WRITE_SECS = 10.0

#: Tunes one task after the other until its time is up, the same tasks as the other tuner, and says what it wrote.
_JOB = """
import json, sys, time
from collections import Counter
from prune_engine.config import EngineConfig
from prune_engine.engine import Engine
from prune_engine.store.sql import SqlStore
from prune_engine.testing import FakeWorkbench, make_profile, make_task

class Told(SqlStore):
    stored, verdict_counts, longest_secs, n_writes = [], Counter(), 0.0, 0

    def add_measured(self, run_id, task_id, sketch_ids, measured):
        self.timed(super().add_measured, run_id, task_id, sketch_ids, measured)
        self.stored += [(task_id, one.measurement.candidate_id) for one in measured]

    def add_verdicts(self, run_id, task_id, verdicts):
        self.timed(super().add_verdicts, run_id, task_id, verdicts)
        for v in verdicts:
            self.verdict_counts[task_id, v.stage.value, v.strategy, v.outcome.value] += v.count

    def timed(self, write, *arguments):
        begun = time.monotonic()
        write(*arguments)
        self.longest_secs = max(self.longest_secs, time.monotonic() - begun)
        self.n_writes += 1

url, seed, secs = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
store = Told(url)
print("ready", flush=True)
sys.stdin.readline()
end, n_runs = time.monotonic() + secs, 0
while time.monotonic() < end:
    task = make_task(f"t{n_runs}")
    config = EngineConfig.of(n_trials=64, batch_size=4, first_batch_size=4, draft_scorer=None, verifier=None,
                             explorer="explore.uniform", selector="select.epsilon-greedy", seed=seed,
                             explore_size=64, plateau_trials=10**6, transfer=False)
    bench = FakeWorkbench(delay_secs=0.002)
    Engine(config, bench, store, make_profile(), should_stop=lambda: time.monotonic() > end).run([task])
    n_runs += 1
store.close()
print(json.dumps({"stored": store.stored, "verdicts": [[*k, n] for k, n in store.verdict_counts.items()],
                  "longest_secs": store.longest_secs, "n_writes": store.n_writes, "n_runs": n_runs}))
"""


def measure(folder: Path, secs: float) -> Figure:
    """Let two tuners write to one new store for so long."""
    file = folder / "store.sqlite3"
    url = f"sqlite:///{file}"
    tuners = [
        subprocess.Popen(
            [sys.executable, "-c", _JOB, url, str(seed), str(secs)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for seed in (1, 2)
    ]
    for tuner in tuners:
        assert tuner.stdout is not None
        tuner.stdout.readline()
    outputs = []
    for tuner in tuners:
        assert tuner.stdin is not None
        tuner.stdin.write("go\n")
        tuner.stdin.flush()
    n_hung = 0
    for tuner in tuners:
        try:
            outputs.append(tuner.communicate(timeout=secs + 120))
        except subprocess.TimeoutExpired:
            n_hung += 1
            tuner.kill()
            outputs.append(tuner.communicate())
    n_failed = sum(tuner.returncode != 0 for tuner in tuners)
    told = [json.loads(out) for (out, _), tuner in zip(outputs, tuners, strict=True) if tuner.returncode == 0]
    reported = {tuple(pair) for one in told for pair in one["stored"]}
    counted: Counter[tuple[str, ...]] = Counter()
    for one in told:
        for *key, n in one["verdicts"]:
            counted[tuple(key)] += n
    with closing(sqlite3.connect(file)) as connection:
        rows = connection.execute("SELECT task_id, candidate_id FROM measurements").fetchall()
        is_sound = connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    store = SqlStore(url)
    kept: Counter[tuple[str, ...]] = Counter()
    for task_id in {key[0] for key in counted}:
        for v in store.verdicts(task_id):
            kept[task_id, v.stage.value, v.strategy, v.outcome.value] += v.count
    n_unfinished = sum(run.finished_at is None for run in store.runs())
    store.close()
    return Figure(
        "tuners",
        round(secs),
        {
            "tuners that hung": n_hung,
            "tuners that failed": n_failed - n_hung,
            "measurements lost": len(reported - set(rows)),
            "measurements stored twice": len(rows) - len(set(rows)),
            "counts of verdicts that do not add up": sum(counted[key] != kept[key] for key in counted | kept),
            "runs without an end": n_unfinished,
            "corrupt stores": int(not is_sound),
        },
        {"longest write, s": (max((one["longest_secs"] for one in told), default=0.0), _MAX_WRITE_SECS)},
        {
            "writes": sum(one["n_writes"] for one in told),
            "runs": sum(one["n_runs"] for one in told),
            "measurements": len(rows),
            "measured_by_both": sum(len(one["stored"]) for one in told) - len(reported),
            "last_words": [err[-500:] for (_, err), tuner in zip(outputs, tuners, strict=True) if tuner.returncode],
        },
    )
