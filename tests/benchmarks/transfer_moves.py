"""Runs the engine on a subject with a library and nothing else: 0, 4 or 16 measurements per kernel."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Generator, Sequence

from transfer_records import Moved, MovedResult, MovedTask, Policy, packed
from transfer_subjects import Subject, target_of

from prune_engine.config import EngineConfig
from prune_engine.engine import Engine
from prune_engine.hardware.registry import ProfileRegistry
from prune_engine.library import LibraryEntry
from prune_engine.lifecycle import SilentObserver, TaskResult
from prune_engine.measurement import MeasuredCandidate
from prune_engine.metaschedule.measure import MeasureSettings
from prune_engine.metaschedule.workbench import TvmWorkbench
from prune_engine.store.open import open_store
from prune_engine.task import TuningTask


def move(
    subject: Subject, library: str, entries: Sequence[LibraryEntry], limits: Sequence[int], n_threads: int
) -> Moved:
    """Measure what ``entries`` are worth to a subject, with each number of measurements in ``limits``."""
    before = os.getloadavg()[0]
    tasks = subject.load(n_threads).tasks
    profile = ProfileRegistry().choose("auto", n_threads=n_threads).profile
    settings = MeasureSettings(target=target_of(n_threads), n_threads=n_threads)
    found: dict[int, dict[str, TaskResult]] = {}
    secs: dict[int, float] = {}
    shelf = open_store("sqlite://")
    with _Workbench(settings, profile.digest()) as workbench:
        shelf.add_entries(entries)
        for limit in limits:
            store, stages = open_store("sqlite://"), _Stages()
            config = EngineConfig.of(
                transfer_only=True, transfer_trials=limit, builtin_library=False, harvest=False, strict=True
            )
            run = Engine(config, workbench, store, profile, observer=stages, library=shelf).run(tasks)
            store.close()
            secs[limit] = stages.tuning_secs()
            found[limit] = {result.summary.task_id: result for result in run.tasks}
    shelf.close()
    return Moved(
        subject=subject.name,
        library=library,
        n_entries=len(entries),
        tasks=tuple(
            MovedTask(task.task_id, {limit: _result(found[limit][task.task_id]) for limit in limits})
            for task in tasks
        ),
        secs=secs,
        load=(before, os.getloadavg()[0]),
    )


class _Workbench(TvmWorkbench):
    """Measures untuned kernels once, for all numbers of measurements."""

    _defaults: dict[str, MeasuredCandidate]

    def measure_defaults(self, tasks: Sequence[TuningTask]) -> Generator[tuple[TuningTask, MeasuredCandidate]]:
        """Measure those that were not."""
        known = self.__dict__.setdefault("_defaults", {})
        for task, measured in super().measure_defaults([task for task in tasks if task.task_id not in known]):
            known[task.task_id] = measured
        yield from ((task, known[task.task_id]) for task in tasks)


class _Stages(SilentObserver):
    """When the engine began what."""

    def __init__(self) -> None:
        self._began: dict[str, float] = {}

    def on_status(self, message: str) -> None:
        """Note the time; a warning is for people."""
        self._began.setdefault(message, time.perf_counter())
        if message.startswith("warning"):
            print(f"  {message}", file=sys.stderr)

    def tuning_secs(self) -> float:
        """Seconds of proposing and measuring, without the untuned kernels before and the finals after."""
        return self._began["re-timing the best schedules"] - self._began["tuning"]


def _result(result: TaskResult) -> MovedResult:
    summary, report = result.summary, result.transfer
    return MovedResult(
        n_sources=dict(report.n_sources) if report else {},
        policies=tuple(
            Policy(p.policy, p.n_seeds, p.n_refused, p.n_failed, p.n_ran, dict(p.misses))
            for p in (report.policies if report else ())
        ),
        policy=report.policy if report and result.trace_json else None,
        source=report.source if report and result.trace_json else None,
        n_measured=summary.n_trials,
        failures=dict(summary.failures),
        default_secs=summary.default_secs,
        best_secs=summary.best_secs,
        trace=packed(result.trace_json) if result.trace_json else None,
        stop_reason=summary.stop_reason,
    )
