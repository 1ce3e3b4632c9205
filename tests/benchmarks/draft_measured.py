"""How the untrained CPU draft orders candidates where it matters: those that it thinks best, measured here.

    python tests/benchmarks/draft_measured.py [--candidates 40] [--record FILE] [WORKLOAD ...]

The recorded spaces that `draft_calibrate.py` reads are random samples, of which few are anywhere near the best.
This draws many candidates of each workload's design space and measures some of the 300 that the draft thinks
best, and as many of the next 5 %. Printed per workload: the best and the median milliseconds of those of the
300, the rank correlation of drafted and measured latencies over all, the standard deviation of the logarithm of
their ratio, and the best of all over the best of the draft's first 1, 4 and 16. With ``--record FILE`` what was
measured is kept, and what is there already is not measured again; another draft, which would have measured
others, can so be held against the same candidates.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from prune_engine_draft.cpu import cpu_terms
from scipy.stats import spearmanr

from prune_engine.candidates import CandidateBatch
from prune_engine.hardware.registry import ProfileRegistry
from prune_engine.hardware.schema import HardwareProfile
from prune_engine.metaschedule.materialise import Materialised, Materialiser, module_to_json
from prune_engine.metaschedule.measure import BuildJob, MeasurePool, MeasureSettings
from prune_engine.metaschedule.quiet import captured_stderr
from prune_engine.metaschedule.targets import resolve_target
from prune_engine.metaschedule.workloads.loading import load_tasks
from prune_engine.space import DesignSpace
from prune_engine.task import TuningTask

_WORKLOADS = (
    "conv2d:1x64x56x56,64x1x1+bias+relu",
    "conv2d:1x64x56x56,128x3x3,s2,p1",
    "conv2d:1x96x56x56,96x3x3,p1,g96",
    "gemm:128x3072x768+bias+gelu",
    "conv2d:1x64x55x55,64x3x3+bias+relu",
)
_N_DRAWN, _N_BEST, _NEXT_SHARE = 60_000, 300, 0.05
_FIRST = (1, 4, 16)


@dataclass(frozen=True)
class Sample:
    """Candidates of one workload: sketch and row of each, and what they took (NaN: failed)."""

    sketches: tuple[int, ...]
    rows: tuple[tuple[int, ...], ...]
    secs: tuple[float, ...]


def main() -> None:
    """Measure, or read, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--candidates", type=int, default=40, help="of the best, and as many of the next")
    parser.add_argument("--record", type=Path, help="keep what was measured in this file")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("workloads", nargs="*", default=_WORKLOADS)
    options = parser.parse_args()
    target = resolve_target("native", options.threads)
    profile = ProfileRegistry().choose("auto", n_threads=options.threads).profile
    known = json.loads(options.record.read_text()) if options.record and options.record.exists() else {}
    header = ["kernel", "ran", "best ms", "median ms", "rank correlation", "log error"]
    header += [f"first {n}" for n in _FIRST]
    print(f"| {' | '.join(header)} |")
    print("|---" * len(header) + "|")
    with MeasurePool(MeasureSettings(target=target, n_threads=options.threads, hold_against_pace=False)) as pool:
        for text in options.workloads:
            with captured_stderr():  # TVM warns of each schedule that it cannot build
                (task,) = load_tasks(text, target)
                materialiser = Materialiser(task, 0)
                space = materialiser.design_space()
                if text not in known:
                    sample = _measured(task, space, materialiser, profile, pool, options.candidates)
                    known[text] = [sample.sketches, sample.rows, sample.secs]
            print(_row(text, space, profile, Sample(*known[text])), flush=True)
            if options.record:
                options.record.write_text(json.dumps(known))


def _measured(
    task: TuningTask,
    space: DesignSpace,
    materialiser: Materialiser,
    profile: HardwareProfile,
    pool: MeasurePool,
    n: int,
) -> Sample:
    rng = np.random.default_rng(0)
    drawn = [batch for batch in _drawn(space, rng) if len(batch)]
    order = np.argsort(np.concatenate([cpu_terms(batch, profile).latency_secs for batch in drawn]))
    n_next = int(len(order) * _NEXT_SHARE)
    wanted = [*rng.permutation(order[:_N_BEST])[:n], *rng.permutation(order[_N_BEST : _N_BEST + n_next])[:n]]
    starts = np.cumsum([0, *(len(batch) for batch in drawn)])
    picked = []
    for position in wanted:
        number = int(np.searchsorted(starts, position, "right")) - 1
        picked.append((drawn[number], int(position - starts[number])))
    default = BuildJob("untuned", module_to_json(task.mod))
    opened = pool.open_task(task.task_id, default, task.arg_shapes, task.arg_dtypes)
    jobs = []
    for number, (batch, row) in enumerate(picked):
        made = materialiser.materialise(space, batch.candidate(row))
        if isinstance(made, Materialised):
            jobs.append(BuildJob(str(number), made.module_json))
    secs = [float("nan")] * len(picked)
    if opened.error is None:
        for job in jobs:  # each by itself: of several, those that are clearly slower are not timed to the end
            (result,) = pool.measure(task.task_id, [job], None)
            if result.error is None:
                secs[int(result.job_id)] = statistics.median(result.run_secs)
    return Sample(
        tuple(batch.sketch.index for batch, _ in picked),
        tuple(tuple(int(i) for i in batch.indices[row]) for batch, row in picked),
        tuple(secs),
    )


def _drawn(space: DesignSpace, rng: np.random.Generator) -> Iterator[CandidateBatch]:
    for sketch in space.sketches:
        columns = [rng.choice(variable.rows, _N_DRAWN) for variable in sketch.variables]
        rows = np.unique(np.stack(columns, axis=1).astype(np.int32), axis=0)
        yield CandidateBatch(space, sketch, rows)


def _row(text: str, space: DesignSpace, profile: HardwareProfile, sample: Sample) -> str:
    drafted = np.full(len(sample.secs), np.nan)
    sketches = np.array(sample.sketches)
    for index in sorted(set(sample.sketches)):
        at = np.flatnonzero(sketches == index)
        rows = np.array([sample.rows[position] for position in at], dtype=np.int32)
        drafted[at] = cpu_terms(CandidateBatch(space, space.sketches[index], rows), profile).latency_secs
    secs = np.array(sample.secs)
    ran = np.isfinite(secs)
    first_half = secs[: len(secs) // 2] * 1e3
    cells = [f"{np.nanmin(first_half):.4g}", f"{np.nanmedian(first_half):.4g}"]
    cells += [f"{spearmanr(drafted[ran], secs[ran]).statistic:.2f}", f"{np.std(np.log(drafted / secs)[ran]):.2f}"]
    cells += [f"{found:.2f}" for found in _found(drafted[ran], secs[ran], _FIRST)]
    return " | ".join(["| `" + text + "`", f"{int(ran.sum())}", *cells]) + " |"


def _found(drafted: NDArray[np.float64], secs: NDArray[np.float64], first: Sequence[int]) -> list[float]:
    in_order = secs[np.argsort(drafted, kind="stable")]
    return [float(secs.min() / in_order[:n].min()) for n in first]


if __name__ == "__main__":
    main()
