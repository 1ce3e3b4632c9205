"""Schedules tried on inputs that are hard on numbers, each in a process of its own."""

from __future__ import annotations

import json
from collections.abc import Sequence

from prune_engine.metaschedule._compat import import_tvm, load_intrinsics
from prune_engine.metaschedule.materialise import SCHEDULE_ERRORS, last_line, module_to_json
from prune_engine.metaschedule.measure import BuildJob, DefaultJob, JobResult, MeasurePool, MeasureSettings
from prune_engine.metaschedule.overflow_guard import OverflowGuard
from prune_engine.metaschedule.quiet import captured_stderr
from prune_engine.metaschedule.targets import architecture_of
from prune_engine.numeric_safety import FpPolicy, SafetyReport
from prune_engine.task import TuningTask


def check_schedules(
    task: TuningTask,
    traces: Sequence[str],
    *,
    target: str,
    n_threads: int,
    policy: FpPolicy | None = None,
    timeout_secs: float = 30.0,
) -> list[SafetyReport]:
    """Hold schedules of a task against its untuned kernel; a report each, in order.

    ``traces`` are TVM's JSON text with post-processing, ``target`` is resolved (`targets.resolve_target`).
    ``timeout_secs`` bounds one build and one run each. A schedule that crashes, hangs or does not compile gives a
    report that is not safe. Raises MeasureServerError if no processes can be started at all.
    """
    policy = policy or FpPolicy()
    settings = MeasureSettings(
        target=target, n_threads=n_threads, build_timeout_secs=timeout_secs, run_timeout_secs=timeout_secs
    )
    with MeasurePool(settings) as pool:
        return check_in_pool(pool, task, traces, policy)


def check_in_pool(
    pool: MeasurePool, task: TuningTask, traces: Sequence[str], policy: FpPolicy
) -> list[SafetyReport]:
    """`check_schedules` in processes that run already. Raises MeasureServerError."""
    reports: dict[int, SafetyReport] = {}
    jobs: list[BuildJob] = []
    guard = OverflowGuard(task.mod, task.arg_dtypes)
    for number, trace in enumerate(traces):
        try:
            mod = scheduled(task, trace)
            if problem := guard.problem(mod):
                reports[number] = SafetyReport.failure("overflow", problem)
            else:
                jobs.append(BuildJob(str(number), module_to_json(mod)))
        except SCHEDULE_ERRORS as error:
            reports[number] = SafetyReport.failure("replay", f"does not replay: {last_line(str(error))}")
    if not jobs:
        return [reports[number] for number in range(len(traces))]
    default = DefaultJob(task.task_id, module_to_json(task.mod), task.arg_shapes, task.arg_dtypes)
    results = pool.stress(default, jobs, policy)
    first = next(results)
    if first.error is not None:
        said = f"cannot be tried: {first.error.kind.value}: {first.error.message}"
        return [SafetyReport.failure("untuned kernel", said) for _ in traces]
    for result in results:
        reports[int(result.job_id)] = _report(result)
    return [reports[number] for number in range(len(traces))]


def _report(result: JobResult) -> SafetyReport:
    if result.error is not None:
        return SafetyReport.failure(result.error.kind.value, result.error.message)
    return SafetyReport.of(result.cases)


def scheduled(task: TuningTask, trace: str) -> object:
    """The module of a schedule. Raises one of SCHEDULE_ERRORS where it does not replay."""
    tvm = import_tvm()
    load_intrinsics(architecture_of(task.target))
    schedule = tvm.s_tir.Schedule(task.mod, debug_mask="none")
    with captured_stderr():
        tvm.s_tir.schedule.Trace.apply_json_to_schedule(json.loads(trace), schedule)
    mod: object = schedule.mod
    return mod


def scheduled_json(task: TuningTask, trace: str) -> str:
    """The module of a schedule, as text. Raises one of SCHEDULE_ERRORS where it does not replay."""
    return module_to_json(scheduled(task, trace))
