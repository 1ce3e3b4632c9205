"""Compares the search with MetaSchedule's: trials and seconds to the same quality, kernel by kernel.

    python tests/benchmarks/compare_metaschedule.py --parts runs finals report [--budget-seconds 3600]

``runs`` tunes every task with every system, each in fresh processes on the same number of threads:

- ours: `prune-engine tune TASK --trials N --no-transfer`, with a fresh store; its seconds count from the start of
  the process.
- metaschedule-pool: TVM's evolutionary search and XGBoost model with our builder and runner. The best it finds in
  its trials is the quality that all are held against.
- metaschedule: TVM's `tune_tir` as it ships. Few trials: its seconds per trial are scaled to those of the
  quality's run, and labelled as such.
- random: our plumbing without anything that chooses.
- post-optimization: `tune_tir(post_optimization=True)`, which ends with TVM's Droplet search.

``finals`` times the successive bests of all runs of a task in turns, in one process, so that qualities compare:
a trial counts as having reached a quality by that, not by what its own run happened to measure. ``models`` tunes
whole models for equal seconds, against onnxruntime. ``report`` writes docs/benchmarks/metaschedule.md, with plots.

What is done is in the state file and is not done again, so long comparisons can be spread over many sittings.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path

import comparison_finals
import comparison_models
import comparison_report
from comparison_runs import SYSTEMS, Subject, execute
from comparison_state import State

ROOT = Path(__file__).parents[2]

#: Tasks by short name; those marked run with every seed, the others with the first.
TASKS = {
    "gemm": "gemm:512x512x512",
    "gemm-gelu": "gemm:128x3072x768+bias+gelu",
    "bmm": "bmm:12x128x128x64",
    "conv3x3": "conv2d:1x64x56x56,64x3x3,p1",
    "conv1x1": "conv2d:1x256x56x56,64x1x1",
    "conv-strided": "conv2d:1x64x56x56,128x3x3,s2,p1",
    "depthwise": "conv2d:1x96x56x56,96x3x3,p1,g96",
    "conv7x7": "conv2d:1x512x7x7,512x3x3,p1",
    "softmax": "softmax:12x128x128",
    "layer-norm": "layer_norm:128x768",
}
ALL_SEEDS = ("gemm", "gemm-gelu", "bmm", "conv1x1", "layer-norm")
#: Trials of each system unless --trials says otherwise.
TRIALS = {"ours": 192, "metaschedule-pool": 1000, "metaschedule": 128, "random": 192, "post-optimization": 128}
#: Systems that are measured with the first seed only: they are for seconds per trial, or slow.
ONE_SEED = ("metaschedule", "post-optimization")
PARTS = ("runs", "finals", "models", "report")


def main() -> int:
    """Do the parts asked for, as far as the seconds go."""
    options = _options()
    deadline = time.monotonic() + options.budget_seconds if options.budget_seconds else None
    state = State(options.state)
    if options.forget:
        state.forget(options.forget)
    if "runs" in options.parts:
        _runs(options, state, deadline)
    if "finals" in options.parts:
        for name in options.tasks:
            if _is_over(deadline):
                break
            comparison_finals.retime(state, Subject(TASKS[name], options.threads), n_repeats=options.repeats)
    if "models" in options.parts:
        comparison_models.compare(state, options.models, options.model_seconds, options.threads, deadline)
    if "report" in options.parts:
        page = comparison_report.write(state, list(TASKS.values()), options.out)
        print(page.read_text(encoding="utf-8"))
    return 0


def _runs(options: argparse.Namespace, state: State, deadline: float | None) -> None:
    """Seed by seed, so that a first answer for all tasks is there early; systems of a task follow each other."""
    for seed in range(options.seeds):
        for name in options.tasks:
            for system in options.systems:
                if seed and (name not in ALL_SEEDS or system in ONE_SEED):
                    continue
                n_trials = options.trials or TRIALS[system]
                known = state.runs.get((system, TASKS[name], seed))
                if known is not None and known.n_trials >= n_trials:
                    continue
                if _is_over(deadline, _expected_secs(state, system, n_trials)):
                    print(f"no time left for {system} on {name}", file=sys.stderr)
                    continue
                print(f"{time.strftime('%H:%M:%S')} {system} on {name}, seed {seed}, {n_trials} trials", flush=True)
                try:
                    run = execute(system, Subject(TASKS[name], options.threads), seed, n_trials)
                except subprocess.CalledProcessError as error:
                    print(f"  failed: {(error.stderr or '').strip()[-500:]}", file=sys.stderr)
                    continue
                state.add_run(run)
                best = run.improvements[-1].latency_secs * 1e3 if run.improvements else float("nan")
                print(f"  {len(run.trials)} trials, {run.wall_secs:.1f} s, best {best:.4g} ms", flush=True)


def _is_over(deadline: float | None, needed_secs: float = 0.0) -> bool:
    return deadline is not None and time.monotonic() + needed_secs > deadline


def _expected_secs(state: State, system: str, n_trials: int) -> float:
    """What the run will take if it goes as the slowest of this system so far, per trial."""
    per_trial = [run.wall_secs / max(1, len(run.trials)) for run in state.runs.values() if run.system == system]
    return n_trials * max(per_trial, default=0.0)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--tasks", nargs="+", choices=TASKS, default=list(TASKS))
    parser.add_argument(
        "--systems", nargs="+", choices=SYSTEMS, default=["ours", "metaschedule-pool", "random", "metaschedule"]
    )
    parser.add_argument(
        "--forget",
        nargs="+",
        choices=SYSTEMS,
        default=[],
        help="drop the runs of these first: they are out of date",
    )
    parser.add_argument("--seeds", type=int, default=3, help="of the tasks with all seeds; the others have one")
    parser.add_argument("--trials", type=int, help="of every system, instead of each its own number")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--repeats", type=int, default=8, help="of the finals")
    parser.add_argument("--budget-seconds", type=float, help="start nothing that would not end by then")
    parser.add_argument(
        "--models", nargs="*", choices=comparison_models.NAMES, default=list(comparison_models.NAMES)
    )
    parser.add_argument("--model-seconds", type=float, default=180.0)
    parser.add_argument("--state", type=Path, default=ROOT / "build" / "compare_metaschedule.jsonl")
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "benchmarks")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
