"""How often right schedules are called unsafe, how near they come to their bounds, and what a check costs.

    python tests/benchmarks/numeric_false_alarms.py [--schedules 20] [WORKLOAD ...]

Prints one row of Markdown per kernel: random schedules that the compiler builds, those called unsafe, the largest
error over its bound, and seconds of the whole check divided by the number of schedules (on an idle machine).
"""

from __future__ import annotations

import argparse
import time

import numpy as np

from prune_engine.candidates import CandidateBatch
from prune_engine.metaschedule.materialise import Materialised, Materialiser
from prune_engine.metaschedule.measure import MeasurePool, MeasureSettings
from prune_engine.metaschedule.numeric_check import check_in_pool
from prune_engine.metaschedule.quiet import captured_stderr
from prune_engine.metaschedule.targets import resolve_target
from prune_engine.metaschedule.workloads.loading import load_tasks
from prune_engine.numeric_safety import FpPolicy, SafetyReport
from prune_engine.task import TuningTask

_WORKLOADS = (
    "gemm:128x128x128",
    "conv2d:1x32x14x14,32x3x3,p1+bias+relu",
    "conv2d:1x32x28x28,32x3x3,p1,g32",
    "softmax:4x64x64",
    "layer_norm:32x256",
    "gemm:64x64x64:f16",
    "gemm:64x64x64:u8",
    "gemm:64x64x64+bias+gelu",
    "reduce_sum:64x1024",
)
#: Reasons that are no judgement on numbers: the compiler does not build the schedule.
_NOT_BUILT = ("build_error", "build_timeout", "replay")


def main() -> None:
    """Check random schedules of each workload."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--schedules", type=int, default=20)
    parser.add_argument("--target", default="native")
    parser.add_argument("workloads", nargs="*", default=_WORKLOADS)
    options = parser.parse_args()
    target = resolve_target(options.target, 1)
    print("| kernel | schedules | not built | unsafe | largest error / bound | seconds each |")
    print("|---|---|---|---|---|---|")
    with MeasurePool(MeasureSettings(target=target, n_threads=1)) as pool:
        for text in options.workloads:
            with captured_stderr():  # TVM warns of each schedule that it cannot build, in thousands of lines
                (task,) = load_tasks(text, target)
                traces = _traces(task, options.schedules)
                begun = time.perf_counter()
                reports = check_in_pool(pool, task, traces, FpPolicy())
            print(_row(text, reports, time.perf_counter() - begun), flush=True)


def _traces(task: TuningTask, n: int) -> list[str]:
    materialiser = Materialiser(task, 0)
    space, rng = materialiser.design_space(), np.random.default_rng(0)
    traces: list[str] = []
    for attempt in range(8 * n):
        sketch = space.sketches[attempt % len(space.sketches)]
        row = np.array([rng.choice(variable.rows) for variable in sketch.variables], dtype=np.int32)
        made = materialiser.materialise(space, CandidateBatch(space, sketch, row[None, :]).candidate(0))
        if isinstance(made, Materialised):
            traces.append(made.trace_json)
        if len(traces) == n:
            break
    return traces


def _row(text: str, reports: list[SafetyReport], secs: float) -> str:
    built = [report for report in reports if not report.problem.startswith(_NOT_BUILT)]
    unsafe = [report.problem for report in built if not report.is_safe]
    cases = [case for report in built for case in report.cases]
    ratio = max((case.max_error / case.bound for case in cases if case.bound and case.max_error), default=0.0)
    row = f"| `{text}` | {len(built)} | {len(reports) - len(built)} | {len(unsafe)} | {ratio:.2g} |"
    row += f" {secs / max(1, len(reports)):.2f} |"
    return "\n".join([row, *(f"<!-- {problem[:200]} -->" for problem in unsafe)])


if __name__ == "__main__":
    main()
