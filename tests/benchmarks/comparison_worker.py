"""One run of MetaSchedule, in a process of its own: ``python comparison_worker.py REQUEST.json ANSWER.json``.

``metaschedule`` is what TVM ships, with nothing of this project in its process while it tunes;
``metaschedule-pool`` is TVM's search and cost model with this project's builder and runner, and its quick import
of TVM. Trials are dated by the clock of the wall, since the process that asks started its own before this one.
"""

from __future__ import annotations

import json
import logging
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

#: As in the measurements of other comparisons: with TVM's own 30 s its builder, which starts new workers for
#: every batch, builds nothing on a machine that does anything else besides.
_TIMEOUT_SECS = 300.0

#: Of each trial: seconds since the epoch, latency or None, whether that is only a rough figure, and of a trial
#: that was the best so far its post-processed module.
Log = list[tuple[float, "float | None", bool, Any]]


def main(request_file: Path, answer_file: Path) -> None:
    """Tune as asked and write what happened."""
    request = json.loads(request_file.read_text(encoding="utf-8"))
    logging.disable(logging.WARNING)  # MetaSchedule reports each round in long tables
    log: Log = []
    if request["system"] == "models":
        _tune_until_ended(request)
        return
    tune = _tune_with_pool if request["system"] == "metaschedule-pool" else _tune_as_shipped
    ready_at = tune(request, log)
    ended_at = time.time()
    trials = [
        {"at": at, "latency_secs": latency, "is_censored": is_censored, "module_json": _text(module)}
        for at, latency, is_censored, module in log
    ]
    answer_file.write_text(json.dumps({"ready_at": ready_at, "ended_at": ended_at, "trials": trials}))


def _tune_as_shipped(request: dict[str, Any], log: Log) -> float:
    """``tune_tir`` with TVM's defaults but for the time limit of builds and the cores it may use."""
    import tvm
    from tvm.s_tir import meta_schedule as ms

    module = tvm.ir.load_json(request["module_json"])
    target = tvm.target.Target(json.loads(request["target"]))
    clock = _clock(log)
    with tempfile.TemporaryDirectory() as folder:
        ready_at = time.time()
        ms.tune_tir(
            module,
            target,
            folder,
            max_trials_global=request["n_trials"],
            builder=ms.builder.LocalBuilder(max_workers=request["n_threads"], timeout_sec=_TIMEOUT_SECS),
            runner=ms.runner.LocalRunner(timeout_sec=_TIMEOUT_SECS),
            # The first of them: what follows it removes the files and trains the cost model.
            measure_callbacks=[clock, *ms.MeasureCallback.create("default")],
            num_tuning_cores=request["n_threads"],
            seed=request["seed"] + 1,
            post_optimization=request["system"] == "post-optimization",
        )
        if request["system"] == "post-optimization":
            _add_last_record(Path(folder), module, log)
    return ready_at


def _tune_until_ended(request: dict[str, Any]) -> None:
    """``tune_tasks`` as ``tune_relax`` calls it, without an end: whoever started this process ends it."""
    import tvm
    from tvm.s_tir import meta_schedule as ms

    target = tvm.target.Target(json.loads(request["target"]))
    contexts = [
        ms.TuneContext(
            mod=tvm.ir.load_json(task["module_json"]),
            target=target,
            space_generator="post-order-apply",
            search_strategy="evolutionary",
            task_name=task["name"],
            num_threads=request["n_threads"],
            rand_state=request["seed"] + 1 + number,
        ).clone()
        for number, task in enumerate(request["tasks"])
    ]
    ms.tune.tune_tasks(
        tasks=contexts,
        task_weights=[float(task["weight"]) for task in request["tasks"]],
        work_dir=request["folder"],
        max_trials_global=1_000_000,
        builder=ms.builder.LocalBuilder(max_workers=request["n_threads"], timeout_sec=_TIMEOUT_SECS),
        runner=ms.runner.LocalRunner(timeout_sec=_TIMEOUT_SECS),
    )


def _add_last_record(folder: Path, module: Any, log: Log) -> None:
    """TVM's Droplet search appends its best to the database, and nothing else of what it measured."""
    from tvm import s_tir

    now = time.time()
    trace, run_secs, *_ = json.loads((folder / "database_tuning_record.json").read_text().splitlines()[-1])[1]
    schedule = s_tir.Schedule(module, debug_mask="none")
    s_tir.schedule.Trace.apply_json_to_schedule(trace, schedule)
    log.append((now, sum(run_secs) / len(run_secs), False, schedule.mod))


def _clock(log: Log) -> Any:
    from tvm.ir.utils import derived_object
    from tvm.s_tir import meta_schedule as ms

    @derived_object
    class Clock(ms.measure_callback.PyMeasureCallback):
        def apply(
            self,
            task_scheduler: Any,
            task_id: int,
            measure_candidates: Any,
            builder_results: Any,
            runner_results: Any,
        ) -> None:
            now = time.time()  # all of a batch are through at once
            for candidate, result in zip(measure_candidates, runner_results, strict=True):
                latency = _mean(result.run_secs)
                known = [secs for _, secs, _, _ in log if secs is not None]
                is_best = latency is not None and (not known or latency < min(known))
                log.append((now, latency, False, candidate.sch.mod if is_best else None))

    return Clock()


def _tune_with_pool(request: dict[str, Any], log: Log) -> float:
    """TVM's evolutionary search and XGBoost model; builds and runs are this project's."""
    from prune_engine.metaschedule._compat import import_tvm, load_intrinsics
    from prune_engine.metaschedule.measure import BuildJob, MeasurePool, MeasureSettings
    from prune_engine.metaschedule.targets import architecture_of

    settings = MeasureSettings(request["target"], request["n_threads"])
    with MeasurePool(settings) as pool:
        pool.start()  # gets ready while TVM is imported here
        tvm = import_tvm()
        load_intrinsics(architecture_of(request["target"]))
        from tvm.s_tir import meta_schedule as ms

        module = tvm.ir.load_json(request["module_json"])
        default = pool.open_task(
            "task", BuildJob("default", request["module_json"]), request["arg_shapes"], request["arg_dtypes"]
        )
        if default.error is not None:
            raise SystemExit(f"the default schedule fails: {default.error.message}")
        builder, runner = _pool_builder_and_runner(pool, default.latency_secs, log)
        with tempfile.TemporaryDirectory() as folder:
            ready_at = time.time()
            ms.tune_tir(
                module,
                tvm.target.Target(json.loads(request["target"])),
                folder,
                max_trials_global=request["n_trials"],
                builder=builder,
                runner=runner,
                database="memory",
                # Without the one that removes the files of a build: here are none.
                measure_callbacks=[ms.measure_callback.AddToDatabase(), ms.measure_callback.UpdateCostModel()],
                cost_model=ms.cost_model.XGBModel(num_tuning_cores=request["n_threads"]),
                num_tuning_cores=request["n_threads"],
                seed=request["seed"] + 1,
            )
    return ready_at


def _pool_builder_and_runner(pool: Any, default_secs: float | None, log: Log) -> tuple[Any, Any]:
    """A builder that only takes modules down, and a runner that builds and runs them, so that both overlap."""
    from tvm.ir import save_json
    from tvm.ir.utils import derived_object
    from tvm.s_tir import meta_schedule as ms

    from prune_engine.metaschedule.measure import BuildJob

    modules: dict[str, str] = {}
    best = [default_secs]
    # The default is no trial: the first trials are improvements also where they are slower than it.
    best_trial: list[float | None] = [None]

    @derived_object
    class PoolBuilder(ms.builder.PyBuilder):
        def build(self, build_inputs: Any) -> Any:
            names = [f"{len(log)}-{number}" for number, _ in enumerate(build_inputs)]
            modules.update((name, str(save_json(one.mod))) for name, one in zip(names, build_inputs, strict=True))
            return [ms.builder.BuilderResult(name, None) for name in names]

    @derived_object
    class Known(ms.runner.PyRunnerFuture):
        def __init__(self, result: Any) -> None:
            super().__init__()
            self._result = result

        def done(self) -> bool:
            return True

        def result(self) -> Any:
            return self._result

    @derived_object
    class PoolRunner(ms.runner.PyRunner):
        def run(self, runner_inputs: Any) -> Any:
            names = [str(one.artifact_path) for one in runner_inputs]
            jobs = [BuildJob(name, modules[name]) for name in names]
            found: dict[str, Any] = {}
            for result in pool.measure("task", jobs, best[0]):
                latency = result.latency_secs
                is_best = (
                    latency is not None
                    and not result.is_censored
                    and (best_trial[0] is None or latency < best_trial[0])
                )
                if is_best:
                    best_trial[0] = latency
                log.append((time.time(), latency, result.is_censored, modules[result.job_id] if is_best else None))
                if latency is not None and (best[0] is None or latency < best[0]):
                    best[0] = latency
                error = None if result.error is None else result.error.message
                found[result.job_id] = ms.runner.RunnerResult(list(result.run_secs) or None, error)
            modules.clear()
            return [Known(found[name]) for name in names]

    return PoolBuilder(), PoolRunner()


def _mean(run_secs: Any) -> float | None:
    if run_secs is None:
        return None
    secs = [float(s) for s in run_secs]
    # TVM's word for a failure is a run of 1e10 seconds.
    return sum(secs) / len(secs) if max(secs) < 1e9 else None


def _text(module: Any) -> str | None:
    if module is None or isinstance(module, str):
        return module
    from tvm.ir import save_json

    return str(save_json(module))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
