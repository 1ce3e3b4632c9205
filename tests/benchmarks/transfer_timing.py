"""Times what full tuning and transfer found in turns: kernel by kernel in one process, and the whole models."""

from __future__ import annotations

import json
import os
import statistics
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from journal import unpacked
from transfer_records import FULL, SEEDED, UNTUNED, Moved, Timed, Tuned, Whole, at
from transfer_subjects import Subject, target_of

from prune_engine.metaschedule._compat import import_tvm, load_intrinsics
from prune_engine.metaschedule.apply import Winner, compile_model
from prune_engine.metaschedule.artifact_writer import save_artifact
from prune_engine.metaschedule.materialise import module_to_json
from prune_engine.metaschedule.measure import BuildJob, MeasurePool, MeasureSettings
from prune_engine.metaschedule.model_timing import time_models
from prune_engine.metaschedule.targets import architecture_of
from prune_engine.task import TuningTask

Traces = dict[str, str]


def contenders(tuned: Tuned, moved: Moved, seeded: Tuned | None, halves: Sequence[Moved] = ()) -> dict[str, Traces]:
    """Schedules (compiler's text) by contender, by task; where one has none its kernels stay untuned."""
    found: dict[str, Traces] = {FULL: _winners(tuned)}
    if seeded is not None:
        found[SEEDED] = _winners(seeded)
    for one in (moved, *halves):
        for limit in one.limits:
            found[at(limit, one.library)] = {
                task.task_id: unpacked(trace)
                for task in one.tasks
                if (trace := task.results[limit].trace) is not None
            }
    return found


def time_kernels(
    subject: Subject, library: str, traces: Mapping[str, Traces], n_threads: int, n_repeats: int
) -> Timed:
    """Time each kernel's schedules and the untuned one in turns; those that are equal once."""
    import_tvm()
    load_intrinsics(architecture_of(target_of(n_threads)))
    before = os.getloadavg()[0]
    secs: dict[str, dict[str, float]] = {}
    failures: dict[str, dict[str, str]] = {}
    with MeasurePool(MeasureSettings(target_of(n_threads), n_threads)) as pool:
        for task in subject.load(n_threads).tasks:
            names = {who: of[task.task_id] for who, of in traces.items() if task.task_id in of}
            if names:
                secs[task.task_id], failures[task.task_id] = _timed(task, names, pool, n_repeats)
    failures = {task_id: why for task_id, why in failures.items() if why}
    return Timed(subject.name, library, secs, failures, (before, os.getloadavg()[0]))


def _timed(
    task: TuningTask, traces: Traces, pool: MeasurePool, n_repeats: int
) -> tuple[dict[str, float], dict[str, str]]:
    default = BuildJob(UNTUNED, module_to_json(task.mod))
    opened = pool.open_task(task.task_id, default, task.arg_shapes, task.arg_dtypes)
    if opened.error is not None:
        return {}, {UNTUNED: opened.error.message}
    first_with: dict[str, str] = {}  # trace -> the contender that stands for it
    for who, trace in traces.items():
        first_with.setdefault(trace, who)
    jobs = [default, *(BuildJob(who, _module(task, trace)) for trace, who in first_with.items())]
    results = {result.job_id: result for result in pool.compare(task.task_id, jobs, n_repeats=n_repeats)}
    stands_for = {UNTUNED: UNTUNED, **{who: first_with[trace] for who, trace in traces.items()}}
    secs, failures = {}, {}
    for who, job_id in stands_for.items():
        error = results[job_id].error
        if error is None:
            secs[who] = statistics.median(results[job_id].run_secs)
        else:
            failures[who] = f"{error.kind.value}: {error.message}"
    return secs, failures


def _module(task: TuningTask, trace_json: str) -> str:
    tvm = import_tvm()
    schedule = tvm.s_tir.Schedule(task.mod, debug_mask="none")
    tvm.s_tir.schedule.Trace.apply_json_to_schedule(json.loads(trace_json), schedule)
    return module_to_json(schedule.mod)


def time_whole(subject: Subject, traces: Mapping[str, Traces], n_threads: int, budget_secs: float) -> Whole:
    """Compile the model with each contender's schedules and time all of them and onnxruntime in turns."""
    before = os.getloadavg()[0]
    target = target_of(n_threads)
    model = subject.load(n_threads)
    with TemporaryDirectory() as scratch:
        dirs: dict[str, Path] = {}
        for name, winners in _named(traces):
            compiled = compile_model(model, [Winner(*pair) for pair in winners.items()], target)
            dirs[name] = Path(scratch) / name
            manifest = {"run_id": "transfer", "created_at": 0.0, "n_tuned_tasks": len(winners)}
            save_artifact(compiled, model, dirs[name], n_threads=n_threads, target=target, manifest=manifest)
        comparison = time_models(dirs, model, n_threads=n_threads, seed=0, budget_secs=budget_secs)
    # The timing knows two of the contestants by names of its own.
    names = {"tuned": FULL}
    latency_secs = {names.get(name, name): latency.run_secs for name, latency in comparison.latencies.items()}
    return Whole(subject.name, latency_secs, comparison.is_correct, (before, os.getloadavg()[0]))


def _named(traces: Mapping[str, Traces]) -> Iterator[tuple[str, Traces]]:
    yield "untuned", {}
    for who, winners in traces.items():
        yield ("tuned" if who == FULL else who), winners


def _winners(tuned: Tuned) -> Traces:
    return {task.task_id: unpacked(task.trace) for task in tuned.tasks if task.trace is not None}
