"""How fast symbols are: candidates per second on one core, memory, and TVM's own cost in the same run.

    python tests/benchmarks/symbols_speed.py [--rows 1000000] [--tvm 50] [--hand-made] [--json FILE]

Sketches are TVM's own (the first one that could be read, `--hand-made` takes those of the tests instead).
Rates are of the wall clock, best of three; on a machine that does other things too, look at the rates by processor
time. With pytest-benchmark installed the same cases run as tests: ``pytest tests/benchmarks/symbols_speed.py``.
"""

from __future__ import annotations

import argparse
import itertools
import json
import resource
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import machine
import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))

from kits import nests

from prune_engine.candidates import CandidateBatch
from prune_engine.space import Sketch
from prune_engine.symbols.builtin import BUILTIN_SYMBOLS
from prune_engine.symbols.structure import nest_columns

#: What the rules that keep illegal candidates away ask for.
LEGALITY = (
    "is_refused",
    "is_canonical",
    "threads_per_block",
    "vthreads",
    "shared_bytes_per_block",
    "local_bytes_per_thread",
    "max_vector_bytes",
)
FOOTPRINTS = ("is_refused", "is_canonical", *(f"working_set_l{n}_bytes" for n in (1, 2, 3)), "traffic_dram_bytes")
#: Rows per batch when a whole space is gone through.
BATCH_ROWS = 1 << 16


@dataclass(frozen=True)
class Case:
    """One rate to measure, and what it should at least be."""

    name: str
    workload: str
    kind: str
    hand_made: Callable[[], Sketch]
    symbols: tuple[str, ...]
    wanted_per_sec: float


ALL = tuple(symbol.name for symbol in BUILTIN_SYMBOLS)
CASES = (
    Case("legality, CUDA GEMM 512^3", "gemm_square", "cuda", lambda: nests.gemm_cuda(512, 512, 512), LEGALITY, 5e6),
    Case("legality, CUDA conv 3x3", "conv3x3", "cuda", lambda: nests.conv_cuda(56, 64, 64), LEGALITY, 2e6),
    Case("all symbols, CPU GEMM 512^3", "gemm_square", "llvm", lambda: nests.gemm_cpu(512, 512, 512), ALL, 1e6),
    Case("all symbols, CUDA conv 3x3", "conv3x3", "cuda", lambda: nests.conv_cuda(56, 64, 64), ALL, 3e5),
)


def columns_of(batch: CandidateBatch, names: Sequence[str]) -> dict[str, Any]:
    """The columns of symbols, asked for together."""
    formulas = {name: formula for name in names if (formula := batch.space.symbols[name].formula) is not None}
    return {name: batch.symbol(name) for name in names if name not in formulas} | nest_columns(batch, formulas)


def real_sketch(workload: str, kind: str) -> Sketch:
    """The first sketch of TVM's design space."""
    return real_sketches(workload, kind)[0]


def real_sketches(workload: str, kind: str) -> list[Sketch]:
    """The sketches of TVM's design space, those that could be read."""
    from kits.workloads import workload_task

    from prune_engine.metaschedule.materialise import Materialiser

    sketches = Materialiser(workload_task(workload, kind), 0).design_space().sketches
    found = [s for s in sketches if s.nests is not None]
    if not found:
        raise SystemExit(f"no sketch of {workload} on {kind} could be read: {sketches[0].opaque_reason}")
    return found


def rates(case: Case, sketch: Sketch, n_rows: int) -> dict[str, object]:
    """Candidates per second, by wall clock and by processor time, in batches; formulas are made before."""
    rows = nests.random_rows(sketch, n_rows)
    columns_of(nests.batch_of(sketch, rows[:BATCH_ROWS]), case.symbols)
    wall, processor = [], []
    for _ in range(3):
        started, used = time.perf_counter(), time.thread_time()
        for start in range(0, n_rows, BATCH_ROWS):
            columns_of(nests.batch_of(sketch, rows[start : start + BATCH_ROWS]), case.symbols)
        wall.append(time.perf_counter() - started)
        processor.append(time.thread_time() - used)
    return {
        "case": case.name,
        "per_sec": n_rows / min(wall),
        "per_processor_sec": n_rows / min(processor),
        "wanted_per_sec": case.wanted_per_sec,
        "rows": n_rows,
        "symbols": len(case.symbols),
        "columns": "hand-made" if sketch.sketch_id == "hand-made" else "TVM's sketch",
    }


def whole_space(sketches: Sequence[Sketch]) -> dict[str, object]:
    """Go through every candidate of a space: legality and footprints, batch by batch."""
    started, used = time.perf_counter(), time.thread_time()
    found = [_whole_sketch(sketch) for sketch in sketches]
    return {
        "case": "whole space, legality and footprints",
        "candidates": sum(sketch.size for sketch in sketches),
        "legal": sum(n_legal for n_legal, _ in found),
        "largest_working_set_l3_bytes": max(largest for _, largest in found),
        "secs": time.perf_counter() - started,
        "processor_secs": time.thread_time() - used,
        "wanted_secs": 15,
    }


def _whole_sketch(sketch: Sketch) -> tuple[int, int]:
    """How many candidates are legal, and the largest working set there is."""
    tables = [np.arange(len(v.table), dtype=np.int32) for v in sketch.variables]
    # The last variables make the batch, the first ones the turns.
    split = len(tables)
    inner = 1
    while split and inner * len(tables[split - 1]) <= 16 * BATCH_ROWS:
        split -= 1
        inner *= len(tables[split])
    grid = np.stack([g.ravel() for g in np.meshgrid(*tables[split:], indexing="ij")], axis=1).astype(np.int32)
    rows = np.empty((len(grid), len(tables)), dtype=np.int32)
    rows[:, split:] = grid
    n_legal, largest = 0, 0
    for outer in itertools.product(*tables[:split]):
        rows[:, :split] = outer
        for start in range(0, len(rows), BATCH_ROWS):
            found = columns_of(nests.batch_of(sketch, rows[start : start + BATCH_ROWS].copy()), FOOTPRINTS)
            n_legal += int(np.count_nonzero(found["is_refused"] == 0))
            largest = max(largest, int(found["working_set_l3_bytes"].max()))
    return n_legal, largest


def cost_in_tvm(workload: str, kind: str, n: int) -> dict[str, object]:
    """Milliseconds per candidate of replay, post-processing and features in TVM; refused ones are left out."""
    from kits.workloads import workload_task

    from prune_engine.metaschedule import traces
    from prune_engine.metaschedule._compat import import_tvm
    from prune_engine.metaschedule.materialise import SCHEDULE_ERRORS, Materialiser

    tvm = import_tvm()
    meta_schedule = tvm.s_tir.meta_schedule
    task = workload_task(workload, kind)
    materialiser = Materialiser(task, 0)
    space = materialiser.design_space()
    sketch = space.sketches[0]
    context = meta_schedule.TuneContext(
        mod=task.mod, target=tvm.target.Target(task.target), space_generator="post-order-apply", num_threads=1
    )
    postprocs = list(context.space_generator.postprocs)
    extractor = meta_schedule.feature_extractor.PerStoreFeature()
    spent: dict[str, list[float]] = {"replay_ms": [], "post_processing_ms": [], "features_ms": []}
    refused = 0
    for row in range(n):
        batch = CandidateBatch(space, sketch, nests.random_rows(sketch, 1, row))
        try:
            started = time.perf_counter()
            schedule = tvm.s_tir.Schedule(task.mod, debug_mask="none")
            traces.trace_with(sketch, batch.candidate(0).decisions).apply_to_schedule(
                schedule, remove_postproc=True
            )
            replayed = time.perf_counter()
            schedule.enter_postproc()
            is_valid = all(p.apply(schedule) for p in postprocs)
            processed = time.perf_counter()
        except SCHEDULE_ERRORS:
            is_valid = False
        if not is_valid:
            refused += 1
            continue
        extractor.extract_from(context, [meta_schedule.MeasureCandidate(schedule, [])])
        spent["replay_ms"].append(1e3 * (replayed - started))
        spent["post_processing_ms"].append(1e3 * (processed - replayed))
        spent["features_ms"].append(1e3 * (time.perf_counter() - processed))
    return {
        "case": f"TVM, {workload} on {kind}",
        "refused": refused,
        "tried": n,
        **{name: round(statistics.median(values), 3) if values else None for name, values in spent.items()},
    }


def main() -> None:
    """Measure and print one JSON line per case, then the machine."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--tvm", type=int, default=50, help="candidates to take through TVM; 0: none")
    parser.add_argument("--hand-made", action="store_true", help="the tests' loop nests; needs no TVM")
    parser.add_argument("--json", type=Path, help="write the figures there too")
    options = parser.parse_args()
    results = []

    def report(result: dict[str, object]) -> None:
        results.append(result)
        print(json.dumps(result), flush=True)

    def sketch_of(case: Case) -> Sketch:
        return case.hand_made() if options.hand_made else real_sketch(case.workload, case.kind)

    for case in CASES:
        report(rates(case, sketch_of(case), options.rows))
    whole = CASES[2]
    report(whole_space([whole.hand_made()] if options.hand_made else real_sketches(whole.workload, whole.kind)))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    report({"case": "memory of all the above", "peak_bytes": peak, "wanted_bytes": 500_000_000})
    if options.tvm and not options.hand_made:
        for workload, kind in (("gemm_square", "llvm"), ("gemm_square", "cuda"), ("conv3x3", "cuda")):
            report(cost_in_tvm(workload, kind, options.tvm))
    report({"case": "machine", **machine.describe()})
    if options.json:
        options.json.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_speed(case: Case, request: pytest.FixtureRequest) -> None:
    """The same, under pytest-benchmark, on hand-made nests. No figure is asserted."""
    benchmark = request.getfixturevalue("benchmark")
    sketch = case.hand_made()
    rows = nests.random_rows(sketch, 4 * BATCH_ROWS)
    columns_of(nests.batch_of(sketch, rows), case.symbols)
    benchmark(lambda: columns_of(nests.batch_of(sketch, rows), case.symbols))
    benchmark.extra_info["rows"] = len(rows)


if __name__ == "__main__":
    main()
