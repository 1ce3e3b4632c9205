"""Runs one system on one task with one seed, in processes of its own, and reads back what happened."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import machine
from comparison_state import Run, Trial, improvements

from prune_engine.metaschedule._compat import import_tvm
from prune_engine.metaschedule.materialise import module_to_json
from prune_engine.metaschedule.targets import resolve_target
from prune_engine.metaschedule.workloads.loading import load_tasks
from prune_engine.store.open import open_store
from prune_engine.task import TuningTask

_WORKER = Path(__file__).with_name("comparison_worker.py")

#: Options of `prune-engine tune`: the product as it is but for what it knows of other kernels, and with everything
#: taken out that chooses.
_OWN_SYSTEMS: dict[str, tuple[str, ...]] = {
    "ours": ("--no-transfer",),
    "random": (
        "--no-transfer",
        "--explorer",
        "explore.uniform",
        "--draft",
        "none",
        "--verifier",
        "none",
        "--block",
        "rules",
    ),
}
_TVM_SYSTEMS = ("metaschedule", "metaschedule-pool", "post-optimization")
SYSTEMS = (*_OWN_SYSTEMS, *_TVM_SYSTEMS)

#: No task of the comparison is given up for want of gain: each system gets the trials it was promised.
_NO_PLATEAU = "1000000"


@dataclass(frozen=True)
class Subject:
    """A task as all systems get it."""

    name: str
    n_threads: int

    @cached_property
    def target(self) -> str:
        """The processor of this machine, with as many cores as there are threads."""
        return resolve_target("native", self.n_threads)

    @cached_property
    def task(self) -> TuningTask:
        """The kernel."""
        (task,) = load_tasks(self.name, self.target)
        return task


def execute(system: str, subject: Subject, seed: int, n_trials: int) -> Run:
    """Run it. Raises subprocess.CalledProcessError if its process fails."""
    before = os.getloadavg()[0]
    with TemporaryDirectory() as folder:
        tune = _tune if system in _OWN_SYSTEMS else _tune_with_tvm
        measured = tune(system, subject, seed, n_trials, Path(folder))
    return Run(
        system=system,
        task=subject.name,
        seed=seed,
        n_trials=n_trials,
        n_threads=subject.n_threads,
        target=subject.target,
        load=(before, os.getloadavg()[0]),
        machine=machine.describe(),
        **measured,
    )


def _tune(system: str, subject: Subject, seed: int, n_trials: int, folder: Path) -> dict[str, Any]:
    """`prune-engine tune` as a user runs it, with a fresh store, which is read afterwards."""
    store = folder / "store.sqlite3"
    command = [
        *(sys.executable, "-m", "prune_engine.cli", "tune", subject.name, "--json", *_OWN_SYSTEMS[system]),
        *("--trials", str(n_trials), "--plateau", _NO_PLATEAU, "--seed", str(seed)),
        *("--threads", str(subject.n_threads), "--store", str(store), "--out", str(folder / "out")),
    ]
    started_at = time.time()
    with (folder / "events").open("w") as events:
        process = subprocess.Popen(
            command,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            env=_environment(subject.n_threads),
        )
        assert process.stderr is not None
        for line in process.stderr:
            events.write(f"{time.time() - started_at} {line}")
    if process.wait():
        raise subprocess.CalledProcessError(
            process.returncode, command, stderr=(folder / "events").read_text()[-2000:]
        )
    wall_secs = time.time() - started_at
    marks = _statuses((folder / "events").read_text())
    opened = open_store(str(store))
    try:
        from prune_engine.hardware.host import cpu_model

        stored = [
            row
            for row in opened.candidates(subject.task.task_id, cpu_model(), subject.n_threads)
            if row.sketch_index is not None  # not the untuned kernel
        ]
    finally:
        opened.close()
    trials = [
        Trial(row.measurement.measured_at - started_at, row.measurement.latency_secs, row.measurement.is_censored)
        for row in stored
    ]
    return {
        "ready_secs": marks["tuning"],
        "wall_secs": wall_secs,
        "trials": tuple(trials),
        "improvements": improvements(trials, lambda i: _replayed(subject, stored[i].trace_json or "")),
        "marks": marks,
    }


def _statuses(events: str) -> dict[str, float]:
    """When each phase began."""
    marks: dict[str, float] = {}
    for line in events.splitlines():
        secs, _, text = line.partition(" ")
        with contextlib.suppress(ValueError):
            event = json.loads(text)
            if event.get("event") == "status":
                marks.setdefault(event["message"], float(secs))
    return marks


def _replayed(subject: Subject, trace_json: str) -> str:
    """The post-processed module of a schedule from the store."""
    tvm = import_tvm()
    schedule = tvm.s_tir.Schedule(subject.task.mod, debug_mask="none")
    tvm.s_tir.schedule.Trace.apply_json_to_schedule(json.loads(trace_json), schedule)
    return module_to_json(schedule.mod)


def _tune_with_tvm(system: str, subject: Subject, seed: int, n_trials: int, folder: Path) -> dict[str, Any]:
    request, answer = folder / "request.json", folder / "answer.json"
    request.write_text(
        json.dumps(
            {
                "system": system,
                "module_json": module_to_json(subject.task.mod),
                "target": subject.target,
                "arg_shapes": subject.task.arg_shapes,
                "arg_dtypes": subject.task.arg_dtypes,
                "n_threads": subject.n_threads,
                "n_trials": n_trials,
                "seed": seed,
            }
        )
    )
    command = [sys.executable, str(_WORKER), str(request), str(answer)]
    started_at = time.time()
    with (folder / "output").open("w") as output:
        done = subprocess.run(
            command, stdout=output, stderr=output, env=_environment(subject.n_threads), check=False
        )
    if done.returncode:
        raise subprocess.CalledProcessError(
            done.returncode, command, stderr=(folder / "output").read_text()[-2000:]
        )
    content = json.loads(answer.read_text())
    trials = [Trial(t["at"] - started_at, t["latency_secs"], t["is_censored"]) for t in content["trials"]]
    return {
        "ready_secs": content["ready_at"] - started_at,
        "wall_secs": content["ended_at"] - started_at,
        "trials": tuple(trials),
        "improvements": improvements(trials, lambda i: content["trials"][i]["module_json"]),
    }


def _environment(n_threads: int) -> dict[str, str]:
    """In which every system's kernels run on as many threads."""
    return {**os.environ, "TVM_NUM_THREADS": str(n_threads)}
