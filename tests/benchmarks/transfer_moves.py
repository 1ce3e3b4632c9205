"""Runs the engine on a subject with a library and nothing else: 0, 4 or 16 measurements per kernel."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Generator, Sequence

from journal import packed
from transfer_records import SEEDS_ONLY, Moved, MovedResult, MovedTask, Policy
from transfer_subjects import Subject, target_of

from prune_engine.config import SEARCH_SHARE, EngineConfig
from prune_engine.engine import Engine
from prune_engine.hardware.registry import ProfileRegistry
from prune_engine.library import LibraryEntry
from prune_engine.lifecycle import RunResult, SilentObserver, TaskResult
from prune_engine.measurement import MeasuredCandidate
from prune_engine.metaschedule.measure import MeasureSettings
from prune_engine.metaschedule.workbench import TvmWorkbench
from prune_engine.store.base import Store
from prune_engine.store.open import open_store
from prune_engine.task import TuningTask

#: What the engine says when it begins the finals.
_FINALS = "re-timing the best schedules"


class Mover:
    """Measures what libraries are worth to one subject. A context manager; untuned kernels are measured once."""

    def __init__(self, subject: Subject, n_threads: int) -> None:
        """Import the subject and start the processes that measure."""
        self._subject = subject
        self._tasks = subject.load(n_threads).tasks
        self._profile = ProfileRegistry().choose("auto", n_threads=n_threads).profile
        settings = MeasureSettings(target=target_of(n_threads), n_threads=n_threads)
        self._workbench = _Workbench(settings, self._profile.digest())

    def __enter__(self) -> Mover:
        return self

    def __exit__(self, *_: object) -> None:
        self._workbench.close()

    def move(
        self, library: str, entries: Sequence[LibraryEntry], limits: Sequence[int], *, has_finals: bool = True
    ) -> Moved:
        """Run the engine for each number of measurements in ``limits``.

        Without finals what ships is the transferred schedule that was measured fastest: good enough to compare
        libraries.
        """
        # Without finals libraries are compared: what the search finds besides is all the same to them.
        share = SEARCH_SHARE if has_finals and library != SEEDS_ONLY else 0.0
        before = os.getloadavg()[0]
        found: dict[int, dict[str, TaskResult]] = {}
        secs: dict[int, float] = {}
        shelf = open_store("sqlite://")
        shelf.add_entries(entries)
        for limit in limits:
            stages = _Stages()
            run = self._run(shelf, limit, share, stages, (lambda: False) if has_finals else stages.is_tuned)
            secs[limit] = stages.tuning_secs()
            found[limit] = {result.summary.task_id: result for result in run.tasks}
        shelf.close()
        tasks = (
            MovedTask(task.task_id, {limit: _result(found[limit][task.task_id]) for limit in limits})
            for task in self._tasks
        )
        load = (before, os.getloadavg()[0])
        return Moved(self._subject.name, library, len(entries), tuple(tasks), secs, load)

    def _run(
        self, shelf: Store, limit: int, share: float, stages: _Stages, should_stop: Callable[[], bool]
    ) -> RunResult:
        config = EngineConfig.of(
            transfer_only=True,
            transfer_trials=limit,
            transfer_search_share=share,
            builtin_library=False,
            harvest=False,
            strict=True,
        )
        store = open_store("sqlite://")
        try:
            engine = Engine(
                config,
                self._workbench,
                store,
                self._profile,
                observer=stages,
                library=shelf,
                should_stop=should_stop,
            )
            return engine.run(self._tasks)
        finally:
            store.close()


class _Workbench(TvmWorkbench):
    """Measures untuned kernels once, for all runs."""

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

    def is_tuned(self) -> bool:
        """Whether all is measured that will be."""
        return _FINALS in self._began

    def tuning_secs(self) -> float:
        """Seconds of proposing and measuring, without the untuned kernels before and the finals after."""
        return self._began[_FINALS] - self._began["tuning"]


def _result(result: TaskResult) -> MovedResult:
    summary, report = result.summary, result.transfer
    return MovedResult(
        n_sources=dict(report.n_sources) if report else {},
        policies=tuple(
            Policy(p.policy, p.n_seeds, p.n_refused, p.n_failed, p.n_ran, dict(p.misses))
            for p in (report.policies if report else ())
        ),
        policy=report.policy if report and report.is_winner else None,
        source=report.source if report and report.is_winner else None,
        n_measured=summary.n_trials,
        failures=dict(summary.failures),
        default_secs=summary.default_secs,
        best_secs=summary.best_secs,
        trace=packed(result.trace_json) if result.trace_json else None,
        stop_reason=summary.stop_reason,
    )
