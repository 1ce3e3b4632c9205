"""Tunes a subject by the command line, with or without a library, and reads back what happened when."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import machine
from journal import packed
from transfer_records import Command, NeverBeganError, Trial, Tuned, TunedTask
from transfer_subjects import Subject

from prune_engine.hardware.host import cpu_model
from prune_engine.library import LibraryEntry, LibraryQuery
from prune_engine.measurement import DEFAULT_CANDIDATE
from prune_engine.store.base import Store, StoredCandidate
from prune_engine.store.open import open_store
from prune_engine.task import TuningTask

_COLD = ("--no-transfer", "--no-builtin-library")
_WARM = ("--transfer", "--no-builtin-library")


def tune(subject: Subject, seconds: float, n_threads: int, seed: int, store: Path) -> Tuned:
    """Tune from nothing; ``store`` is made anew and holds the library afterwards.

    Raises subprocess.CalledProcessError if the command fails, and NeverBeganError.
    """
    subject.prepare()
    store.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory() as folder:
        fresh = Path(folder) / "store.sqlite3"
        tuned = _tuned(subject, seconds, n_threads, seed, fresh, _COLD)
        shutil.copyfile(fresh, store)
    return tuned


def tune_seeded(
    subject: Subject, seconds: float, n_threads: int, seed: int, entries: Sequence[LibraryEntry]
) -> Tuned:
    """Tune with a library, otherwise the same."""
    with TemporaryDirectory() as folder:
        fresh = Path(folder) / "store.sqlite3"
        _fill(fresh, entries)
        return _tuned(subject, seconds, n_threads, seed, fresh, _WARM)


def transfer(
    subject: Subject, library: str, entries: Sequence[LibraryEntry], measurements: int, n_threads: int
) -> Command:
    """What a user gets by the command. Raises subprocess.CalledProcessError if it fails."""
    before = os.getloadavg()[0]
    with TemporaryDirectory() as folder:
        store = Path(folder) / "store.sqlite3"
        _fill(store, entries)
        command = [
            *(sys.executable, "-m", "prune_engine.cli", "transfer", subject.source, *subject.options, "--json"),
            *("--measurements", str(measurements), "--threads", str(n_threads), "--no-builtin-library"),
            *("--store", str(store), "--out", str(Path(folder) / "out")),
        ]
        env = {**os.environ, "TVM_NUM_THREADS": str(n_threads)}
        started = time.perf_counter()
        done = subprocess.run(command, capture_output=True, text=True, env=env, check=True)
        wall_secs = time.perf_counter() - started
    record = json.loads(done.stdout)
    comparison = record["comparison"]
    return Command(
        subject=subject.name,
        library=library,
        measurements=measurements,
        wall_secs=wall_secs,
        n_measured=record["n_new_measurements"],
        is_tuned=record["is_tuned"],
        is_correct=comparison["is_correct"],
        latency_secs={who: latency["median_secs"] for who, latency in comparison["latencies"].items()},
        network_changes=tuple(record["transfer"]["network_changes"]),
        load=(before, os.getloadavg()[0]),
    )


def entries_of(store: Path) -> list[LibraryEntry]:
    """What a tuning added to the library."""
    opened = open_store(str(store))
    try:
        return list(opened.find(LibraryQuery()))
    finally:
        opened.close()


def _fill(store: Path, entries: Sequence[LibraryEntry]) -> None:
    library = open_store(str(store))
    try:
        library.add_entries(entries)
    finally:
        library.close()


def _tuned(
    subject: Subject, seconds: float, n_threads: int, seed: int, store: Path, options: Sequence[str]
) -> Tuned:
    before = os.getloadavg()[0]
    command = [
        *(sys.executable, "-m", "prune_engine.cli", "tune", subject.source, *subject.options, "--json", *options),
        *("--seconds", str(seconds), "--seed", str(seed), "--threads", str(n_threads)),
        *("--store", str(store), "--out", str(store.with_name("out"))),
    ]
    started_at = time.time()
    events = []
    with (store.with_name("answer")).open("w") as answer:
        process = subprocess.Popen(
            command,
            stdout=answer,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "TVM_NUM_THREADS": str(n_threads)},
        )
        assert process.stderr is not None
        for line in process.stderr:
            events.append((time.time() - started_at, line))
    wall_secs = time.time() - started_at
    if process.wait():
        said = "".join(line for _, line in events)[-2000:]
        raise subprocess.CalledProcessError(process.returncode, command, stderr=said)
    ready_secs = _began(events)
    sizes = {
        task["task_id"]: task["space_size"] for task in json.loads(store.with_name("answer").read_text())["tasks"]
    }
    opened = open_store(str(store))
    try:
        tasks = tuple(
            _task(task, opened, n_threads, started_at + ready_secs, is_tunable=sizes[task.task_id] > 1)
            for task in subject.load(n_threads).tasks
        )
    finally:
        opened.close()
    return Tuned(
        subject=subject.name,
        seconds=seconds,
        n_threads=n_threads,
        ready_secs=ready_secs,
        wall_secs=wall_secs,
        tasks=tasks,
        load=(before, os.getloadavg()[0]),
        machine=machine.describe(),
    )


def _began(events: Sequence[tuple[float, str]]) -> float:
    """Seconds until the first candidate was proposed: before that both sides do the same."""
    for secs, line in events:
        with contextlib.suppress(ValueError):
            event = json.loads(line)
            if event.get("event") == "status" and event.get("message") == "tuning":
                return secs
    raise NeverBeganError("the seconds were over when the untuned kernels were measured")


def _task(task: TuningTask, store: Store, n_threads: int, began_at: float, *, is_tunable: bool) -> TunedTask:
    device = cpu_model()
    rows = store.candidates(task.task_id, device, n_threads)
    default = next((row.measurement for row in rows if row.candidate_id == DEFAULT_CANDIDATE), None)
    measured = [row for row in rows if row.candidate_id != DEFAULT_CANDIDATE]
    default_secs = default.latency_secs if default else None
    best = winner(task, store, device, n_threads, measured, default_secs)
    known = task.kernel_class
    return TunedTask(
        task_id=task.task_id,
        name=task.name,
        weight=task.weight,
        flop_count=task.flop_count,
        strict=known.strict if known else None,
        anchor=known.anchor if known else None,
        label=known.label if known else task.name,
        default_secs=default_secs,
        trials=tuple(
            Trial(m.measured_at - began_at, m.latency_secs, m.is_censored)
            for m in (row.measurement for row in measured)
        ),
        trace=packed(best.trace_json) if best and best.trace_json else None,
        is_tunable=is_tunable,
    )


def winner(
    task: TuningTask,
    store: Store,
    device: str,
    n_threads: int,
    measured: Sequence[StoredCandidate],
    default_secs: float | None,
) -> StoredCandidate | None:
    """The best by the finals, which timed the best in turns; without finals by what was measured."""
    secs = {
        row.candidate_id: row.measurement.latency_secs
        for row in measured
        if row.measurement.latency_secs is not None and not row.measurement.is_censored
    }
    if default_secs is not None:
        secs[DEFAULT_CANDIDATE] = default_secs
    finals = store.last_comparison(task.task_id, device, n_threads)
    if finals is not None:
        timed = zip(finals.candidate_ids, finals.run_secs, strict=True)
        secs = {identity: statistics.median(runs) for identity, runs in timed if runs} or secs
    best = min(secs, key=lambda identity: secs[identity], default=None)
    return next((row for row in measured if row.candidate_id == best), None)
