"""Tasks, measurements and library entries to put into a store."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from prune_engine.candidates import Candidate, Decision
from prune_engine.library.entries import Choice, KernelClass, LibraryEntry, Origin
from prune_engine.measurement import MeasuredCandidate, MeasureError, Measurement
from prune_engine.space import Subject, VariableKind
from prune_engine.task import TuningTask

DEVICE, THREADS = "contract-cpu", 2
SKETCHES = ("sketch-a", "sketch-b")


def store_task(task_id: str = "task-1", *, weight: int = 1) -> TuningTask:
    """A task to store."""
    return TuningTask(
        task_id, f"fused_matmul_{task_id}", "llvm", weight, 2**40 + 1, ((4, 8), (8, 16)), ("float32", "int8")
    )


def store_measured(
    candidate_id: str,
    *,
    run_secs: Sequence[float] = (1e-3, 2e-3),
    error: MeasureError | None = None,
    sketch_index: int = 1,
    decisions: tuple[Decision, ...] = ((1, 2, 4), (16,)),
    device_name: str = DEVICE,
    n_threads: int = THREADS,
    trace_json: str | None = '[["GetSBlock"]]',
) -> MeasuredCandidate:
    """A measured candidate to store; with an ``error`` it has no latencies."""
    measurement = Measurement(
        candidate_id,
        () if error else tuple(run_secs),
        error,
        build_secs=0.25,
        device_name=device_name,
        n_threads=n_threads,
        profile_digest="digest",
        measured_at=1_700_000_000.125,
        stage=1,
        is_censored=error is None,
        is_noisy=True,
        load_average=0.5,
    )
    return MeasuredCandidate(Candidate(candidate_id, sketch_index, decisions), measurement, trace_json)


def store_entry(run_secs: Sequence[float] = (1e-3, 2e-3), **changed: Any) -> LibraryEntry:
    """An entry of the library to store; ``changed`` replaces fields of it."""
    entry = LibraryEntry(
        kernel_class=KernelClass("strict-1", "anchor-1", "conv2d + é", (("c.i", 64), ("c.k", 3))),
        target='{"kind":"llvm"}',
        device_name=DEVICE,
        n_threads=THREADS,
        sketch_id=SKETCHES[0],
        choices=(
            Choice("0.c.i", VariableKind.TILE, (8, 8), Subject("c", "i", False, True, ("S0", "S1"))),
            Choice("1.unroll", VariableKind.CATEGORICAL, (64,)),
        ),
        trace_json="[[],[]]",
        run_secs=tuple(run_secs),
        default_secs=None,
        flop_count=2**40 + 1,
        peak_flop_per_sec=0.1 + 0.2,
        n_trials=64,
        model="model-1",
        task_name="fused_conv2d",
        origin=Origin.TUNED,
        tvm_version="0.27.0",
        symbols_version=1,
        measured_at=1_700_000_000.125,
    )
    return replace(entry, entry_id="", **changed)
