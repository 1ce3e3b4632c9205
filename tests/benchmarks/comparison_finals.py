"""Times the successive bests of all runs of one task in turns, so that runs of different hours compare."""

from __future__ import annotations

import os
import statistics
from collections.abc import Iterator, Sequence

from comparison_runs import Subject
from comparison_state import Improvement, Retiming, Run, State

from prune_engine.metaschedule.materialise import module_to_json
from prune_engine.metaschedule.measure import BuildJob, MeasurePool, MeasureSettings

#: Kernels that take turns, one of which is the same in all groups: a group stays in memory while it is timed.
_GROUP = 8
#: Earlier bests that were slower than this times a run's last one reach nobody's quality.
_NEAR = 2.0
_ANCHOR = "anchor"

Key = tuple[str, int, int]


def retime(state: State, subject: Subject, *, n_repeats: int) -> None:
    """Re-time one task's improvements and remember that; nothing if no new run came since."""
    entries = dict(_entries(state, subject.name))
    known = state.retimings.get(subject.name)
    if not entries or (known is not None and entries.keys() <= known.latency_secs.keys() | known.failures.keys()):
        return
    before = os.getloadavg()[0]
    # Groups are compared through a kernel that is in all of them.
    anchor = min(entries.values(), key=lambda improvement: improvement.latency_secs)
    ratios: dict[Key, float] = {}
    failures: dict[Key, str] = {}
    anchor_secs: list[float] = []
    with MeasurePool(MeasureSettings(subject.target, subject.n_threads)) as pool:
        task = subject.task
        default = pool.open_task(
            task.task_id, BuildJob("default", module_to_json(task.mod)), task.arg_shapes, task.arg_dtypes
        )
        if default.error is not None:
            raise SystemExit(f"the default schedule of {subject.name} fails: {default.error.message}")
        for group in _groups(list(entries)):
            jobs = [BuildJob(_ANCHOR, anchor.module_json)]
            jobs += [BuildJob(str(number), entries[key].module_json) for number, key in enumerate(group)]
            first, *others = pool.compare(task.task_id, jobs, n_repeats=n_repeats)
            if first.error is not None:
                raise SystemExit(f"the best schedule of {subject.name} fails: {first.error.message}")
            anchor_secs += first.run_secs
            for key, result in zip(group, others, strict=True):
                if result.error is not None:
                    failures[key] = f"{result.error.kind.value}: {result.error.message}"
                    continue
                # In pairs: a disturbance that lasts hits both.
                ratios[key] = statistics.median(
                    mine / theirs for mine, theirs in zip(result.run_secs, first.run_secs, strict=False)
                )
    unit = statistics.median(anchor_secs)
    latency_secs = {key: ratio * unit for key, ratio in ratios.items()}
    state.add_retiming(Retiming(subject.name, latency_secs, failures, (before, os.getloadavg()[0])))


def _entries(state: State, task: str) -> Iterator[tuple[Key, Improvement]]:
    for run in state.runs.values():
        if run.task == task:
            for improvement in contenders(run):
                yield (run.system, run.seed, improvement.trial), improvement


def contenders(run: Run) -> Sequence[Improvement]:
    """The improvements of a run that are worth a re-timing."""
    if not run.improvements:
        return ()
    limit = _NEAR * run.improvements[-1].latency_secs
    return [one for one in run.improvements if one.latency_secs <= limit]


def _groups(keys: list[Key]) -> Iterator[list[Key]]:
    for start in range(0, len(keys), _GROUP - 1):
        yield keys[start : start + _GROUP - 1]
