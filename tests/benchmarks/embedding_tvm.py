"""The drop-ins for MetaSchedule beside what they replace: one kernel, the same trials, builder and runner.

    python tests/benchmarks/embedding_tvm.py gemm:128x128x128 --trials 32

Each search has a process of its own. Prints JSON: of our strategy, of TVM's evolutionary search ranked by our cost
model, and of that search with its own model (random, where xgboost is not installed), the best latency and the
seconds, of the wall and of the process; and before that what our cost model and post-processor take per candidate.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from typing import Any

SEARCHES = ("evolutionary", "evolutionary+cost-model", "prune-engine")


def search(name: str, workload: str, n_trials: int, per_iter: int, seed: int) -> dict[str, Any]:
    """Tune once. TVM is prepared in the same way for all."""
    from prune_engine.metaschedule import PruneEngineCostModel, PruneEngineSearch
    from prune_engine.metaschedule.drop_in import _builder, ms

    task = _task(workload)
    import tvm

    target = tvm.target.Target(task.target)
    strategy = PruneEngineSearch() if name == "prune-engine" else "evolutionary"
    models = {"evolutionary": _own_model, "evolutionary+cost-model": PruneEngineCostModel}
    model = models.get(name, lambda: "none")()
    builder = _builder("local", 1)
    builder.timeout_sec = 600.0  # the machine may be busy
    runner = ms.runner.LocalRunner(timeout_sec=600.0)
    started, cpu = time.perf_counter(), time.process_time()
    with tempfile.TemporaryDirectory() as folder:
        database = ms.tune_tir(
            task.mod,
            target,
            folder,
            n_trials,
            num_trials_per_iter=per_iter,
            builder=builder,
            runner=runner,
            strategy=strategy,
            cost_model=model,
            num_tuning_cores=1,
            seed=seed,
        )
        took = time.perf_counter() - started
        secs = sorted(sum(map(float, r.run_secs)) / len(r.run_secs) for r in database.get_all_tuning_records())
    return {
        "search": name,
        "model": model if isinstance(model, str) else type(model).__name__,
        "n_records": len(secs),
        "best_secs": secs[0],
        "median_secs": secs[len(secs) // 2],
        "wall_secs": took,
        "process_secs": time.process_time() - cpu,
    }


def per_candidate(workload: str, n: int = 512) -> dict[str, float]:
    """Processor milliseconds per candidate, of candidates that TVM drew at random."""
    from prune_engine.metaschedule import PruneEngineCostModel, PruneEnginePostproc
    from prune_engine.metaschedule.drop_in import ms

    task = _task(workload)
    import tvm

    strategy = ms.search_strategy.ReplayTrace()
    context = ms.TuneContext(
        mod=task.mod,
        target=tvm.target.Target(task.target),
        space_generator="post-order-apply",
        search_strategy=strategy,
        num_threads=1,
        rand_state=1,
    )
    spaces = context.generate_design_space()
    context.pre_tuning(n, n, spaces, ms.database.MemoryDatabase(), None)
    begun = time.process_time()
    candidates = list(context.generate_measure_candidates())
    found = {"tvm_replay_ms": _ms_since(begun, n)}
    model, postproc = PruneEngineCostModel(), PruneEnginePostproc()
    postproc._initialize_with_tune_context(context)
    model.predict(context, candidates)  # reads the sketches
    begun = time.process_time()
    model.predict(context, candidates)
    found["predict_ms"] = _ms_since(begun, n)
    half = n // 2
    for one in candidates[:8]:
        postproc.apply(one.sch)
    begun = time.process_time()
    for one in candidates[half:]:
        postproc.apply(one.sch)
    found["postproc_ms"] = _ms_since(begun, n - half)
    begun = time.process_time()
    for one in candidates[half:]:
        postproc.apply(one.sch)
    found["postproc_again_ms"] = _ms_since(begun, n - half)
    results = [ms.runner.RunnerResult(run_secs=[1e-3 * (1 + i)], error_msg=None) for i in range(32)]
    model.update(context, candidates[:32], results)
    model.predict(context, candidates)  # fits
    begun = time.process_time()
    model.predict(context, candidates)
    return {**found, "predict_trained_ms": _ms_since(begun, n)}


def _ms_since(begun: float, n: int) -> float:
    return round((time.process_time() - begun) / n * 1e3, 4)


def _own_model() -> str:
    try:
        import xgboost  # noqa: F401
    except ImportError:
        return "random"
    return "xgb"


def _task(workload: str) -> Any:
    from prune_engine.metaschedule.targets import resolve_target
    from prune_engine.metaschedule.workloads.loading import load_tasks

    return load_tasks(workload, resolve_target("native", len(os.sched_getaffinity(0))), shapes={}, dims={})[0]


def main() -> None:
    """Run each part in a process of its own and print what they say."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("workload", nargs="?", default="gemm:128x128x128")
    parser.add_argument("--trials", type=int, default=32)
    parser.add_argument("--per-iter", type=int, default=16)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", choices=(*SEARCHES, "per-candidate"))
    args = parser.parse_args()
    if args.only == "per-candidate":
        print(json.dumps(per_candidate(args.workload)))
    elif args.only:
        print(json.dumps(search(args.only, args.workload, args.trials, args.per_iter, args.seed)))
    else:
        for part in ("per-candidate", *reversed(SEARCHES)):
            done = subprocess.run(
                [sys.executable, __file__, *sys.argv[1:], "--only", part],
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
                check=True,
            )
            print(done.stdout.strip().splitlines()[-1], flush=True)


if __name__ == "__main__":
    main()
