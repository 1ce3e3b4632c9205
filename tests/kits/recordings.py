"""Recorded databases that the tests make themselves: tiny kernels, run times that are a formula."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from prune_engine.candidates import Candidate, CandidateBatch
from prune_engine.recorded.spaces import RecordedSpace
from prune_engine.space import DesignSpace
from prune_engine.task import TuningTask
from prune_engine.testing import FakeWorkbench, make_space, make_task

WORKLOADS_FILE, RECORDS_FILE = "database_workload.json", "database_tuning_record.json"
TARGET = '{"kind":"llvm","num-cores":2}'


@dataclass(frozen=True)
class Schedules:
    """Some candidates of a kernel, replayed and post-processed: their traces, and what each takes in seconds."""

    task: TuningTask
    space: DesignSpace
    candidate_ids: tuple[str, ...]
    traces: tuple[str, ...]
    secs: tuple[float, ...]
    candidates: tuple[Candidate, ...] = ()


@cache
def schedules(workload: str = "gemm:32x16x16", n_per_sketch: int = 8) -> Schedules:
    """Distinct random candidates of each sketch that TVM accepts."""
    from prune_engine.metaschedule.materialise import Materialised, Materialiser
    from prune_engine.metaschedule.targets import resolve_target
    from prune_engine.metaschedule.workloads.loading import load_tasks

    (task,) = load_tasks(workload, resolve_target(TARGET, 2))
    materialiser = Materialiser(task, 0)
    space = materialiser.design_space()
    rng = np.random.default_rng(0)
    made: dict[str, Materialised] = {}
    for sketch in space.sketches:
        wanted = len(made) + n_per_sketch
        while len(made) < wanted:
            rows = np.array([[rng.choice(v.rows) for v in sketch.variables]], dtype=np.int32)
            one = materialiser.materialise(space, CandidateBatch(space, sketch, rows).candidate(0))
            if isinstance(one, Materialised):
                made.setdefault(one.candidate.candidate_id, one)
    secs = [1e-3 * (1 + 0.37 * i % 1) + 1e-6 * i for i in range(len(made))]
    traces, candidates = zip(*((one.trace_json, one.candidate) for one in made.values()), strict=True)
    return Schedules(task, space, tuple(made), traces, tuple(secs), candidates)


def write_database(
    folder: Path, *entries: tuple[Schedules, Sequence[Sequence[float]]], simplified: bool = False
) -> Path:
    """Write a database by TVM's own classes: of each kernel the first candidates, with these run times."""
    from prune_engine.metaschedule._compat import import_tvm

    tvm: Any = import_tvm()
    from tvm.s_tir import meta_schedule as ms

    folder.mkdir(parents=True, exist_ok=True)
    database = ms.database.JSONDatabase(work_dir=str(folder))
    for entry, all_secs in entries:
        workload = database.commit_workload(entry.task.mod)
        for trace_json, secs in zip(entry.traces, all_secs, strict=False):
            schedule = tvm.s_tir.Schedule(workload.mod, debug_mask="none")
            tvm.s_tir.schedule.Trace.apply_json_to_schedule(json.loads(trace_json), schedule)
            trace = schedule.trace.simplified(remove_postproc=True) if simplified else schedule.trace
            record = ms.database.TuningRecord(
                trace, workload, list(secs), tvm.target.Target(json.loads(entry.task.target)), None
            )
            database.commit_tuning_record(record)
    return folder


def gemm_database(folder: Path) -> Path:
    """The tiny matrix product, every candidate once."""
    some = schedules()
    return write_database(folder, (some, [[secs] for secs in some.secs]))


def lines(folder: Path) -> list[str]:
    return (folder / RECORDS_FILE).read_text().splitlines()


def fake_recording(
    n: int = 60, *, name: str = "matmul", failed: Sequence[int] = (), seed: int = 0
) -> RecordedSpace:
    """A recording of `make_space` without a compiler: random rows of both sketches, run times by a formula.

    ``failed`` are rows of the first sketch that failed.
    """
    task = make_task(name)
    space = make_space(task)
    rng = np.random.default_rng(seed)
    truth = FakeWorkbench()
    batches, run_secs = [], []
    for sketch in space.sketches:
        drawn = np.stack([rng.choice(v.rows, 4 * n) for v in sketch.variables], axis=1).astype(np.int32)
        batch = CandidateBatch(space, sketch, np.unique(drawn, axis=0)[:n])
        secs = truth.true_latency_secs(batch)
        if not sketch.index:
            secs[list(failed)] = np.nan
        batches.append(batch)
        run_secs.append(secs)
    return RecordedSpace(name, task, space, tuple(batches), tuple(run_secs))
