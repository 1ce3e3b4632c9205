"""Finds out why a kernel loses: a far longer search, and the layout that onnxruntime's kernel has."""

from __future__ import annotations

import json
import os
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gap_assembly import hot_block
from gap_packing import NotPackedError, Packed, packed_kernel, relayout_kernel
from gap_profile import best_trace, measured_of
from gap_records import Experiment, HotBlock
from transfer_subjects import Subject, target_of

from prune_engine.config import EngineConfig
from prune_engine.engine import Engine
from prune_engine.errors import NothingMeasuredError
from prune_engine.hardware.registry import ProfileRegistry
from prune_engine.metaschedule._compat import import_tvm, load_intrinsics
from prune_engine.metaschedule.materialise import module_to_json
from prune_engine.metaschedule.measure import BuildJob, MeasurePool, MeasureSettings, TimingPlan
from prune_engine.metaschedule.measure.builder import compile_module
from prune_engine.metaschedule.relax_tasks import task_of
from prune_engine.metaschedule.targets import architecture_of, make_target
from prune_engine.metaschedule.workbench import TvmWorkbench
from prune_engine.store.base import Store
from prune_engine.store.open import open_store
from prune_engine.task import TuningTask

FIRST, LONG, PACKED = "first", "long", "packed"
#: Fewest trials of the long search: of small kernels the first tuning made next to none.
_LEAST_TRIALS = 64
#: Re-arranging a tensor is a copy: there is little to search.
_RELAYOUT_TRIALS = 16
#: Medians are over so many rounds of so many repeats. A repeat lasts a millisecond, so that other programs on the
#: same processor leave most of them alone.
_N_ROUNDS, _N_REPEATS = 3, 20
_BRIEF = TimingPlan(min_repeat_secs=0.0005)


@dataclass(frozen=True)
class Schedule:
    """A task with a schedule for it, None for the untuned kernel."""

    task: TuningTask
    trace: str | None

    def module(self) -> Any:
        """The scheduled kernel."""
        tvm = import_tvm()
        schedule = tvm.s_tir.Schedule(self.task.mod, debug_mask="none")
        if self.trace is not None:
            tvm.s_tir.schedule.Trace.apply_json_to_schedule(json.loads(self.trace), schedule)
        return schedule.mod


class Laboratory:
    """Searches and times kernels of one model. A context manager, which holds the processes that measure.

    ``headroom_trials`` are those of the long search, the first tuning's included, None for ``factor`` times as many
    as that made. The packed layout gets as many.
    """

    def __init__(
        self,
        subject: Subject,
        first: Store,
        longer: Store,
        n_threads: int,
        headroom_trials: int | None,
        factor: int,
    ) -> None:
        """``first`` has the first tuning and is only read; in ``longer``, a copy of it, the search goes on."""
        self._subject, self._first, self._longer, self._n_threads = subject, first, longer, n_threads
        self._headroom_trials, self._factor = headroom_trials, factor
        self._target = target_of(n_threads)
        self._profile = ProfileRegistry().choose("auto", n_threads=n_threads).profile
        import_tvm()
        load_intrinsics(architecture_of(self._target))
        self._tasks = {task.task_id: task for task in subject.load(n_threads).tasks}
        settings = MeasureSettings(target=self._target, n_threads=n_threads)
        self._workbench = TvmWorkbench(settings, self._profile.digest())

    def __enter__(self) -> Laboratory:
        return self

    def __exit__(self, *_: object) -> None:
        self._workbench.close()

    def examine(self, task_id: str) -> Experiment:
        """All experiments on one kernel. Raises PruneEngineError if nothing of it can be measured."""
        before = os.getloadavg()[0]
        task = self._tasks[task_id]
        n_first = len(measured_of(task, self._first, self._n_threads))
        first = Schedule(task, best_trace(task, self._first, self._n_threads))
        n_trials = self._headroom_trials or max(_LEAST_TRIALS, self._factor * n_first)
        schedules = {FIRST: first, LONG: self._searched(task, self._longer, max(n_trials, n_first))}
        relayouts: list[Schedule] = []
        n_packed = 0
        packing = self._packing_of(task)
        if isinstance(packing, Packed):
            shelf = open_store("sqlite://")
            packed_task = self._task(f"{task.name}_packed", packing.mod)
            schedules[PACKED] = self._searched(packed_task, shelf, n_trials)
            n_packed = len(measured_of(packed_task, shelf, self._n_threads))
            relayouts = [self._relayout(shape, is_read=is_read) for shape, is_read in packing.activations]
            shelf.close()
        named = {**schedules, **{f"relayout {number}": one for number, one in enumerate(relayouts)}}
        secs = self._timed(named)
        blocks = {name: self._hot_block(schedules[name]) for name in (LONG, PACKED) if name in schedules}
        best = FIRST if secs[FIRST] < secs[LONG] else LONG
        return Experiment(
            model=self._subject.name,
            n_threads=self._n_threads,
            task_id=task_id,
            first_secs=secs[FIRST],
            long_secs=secs[LONG],
            packed_secs=secs.get(PACKED),
            relayout_secs=sum(secs[name] for name in named if name.startswith("relayout")) if relayouts else None,
            packing=packing.what if isinstance(packing, Packed) else packing,
            n_first_trials=n_first,
            n_trials=len(measured_of(task, self._longer, self._n_threads)),
            n_packed_trials=n_packed,
            block=blocks[LONG] if best == LONG else self._hot_block(first),
            packed_block=blocks.get(PACKED),
            load=(before, os.getloadavg()[0]),
        )

    def _packing_of(self, task: TuningTask) -> Packed | str:
        vector_bytes = self._profile.value("limits.vector_bytes")
        if vector_bytes is None or set(task.arg_dtypes) != {"float32"}:
            return "the profile has no vectors" if vector_bytes is None else "not all of it is float32"
        try:
            return packed_kernel(task.mod, int(vector_bytes) // 4)
        except NotPackedError as error:
            return str(error)

    def _relayout(self, shape: Sequence[int], *, is_read: bool) -> Schedule:
        lanes = int(self._profile.value("limits.vector_bytes") or 0) // 4
        task = self._task("relayout", relayout_kernel(shape, lanes, is_read=is_read))
        shelf = open_store("sqlite://")
        try:
            return self._searched(task, shelf, _RELAYOUT_TRIALS)
        finally:
            shelf.close()

    def _task(self, name: str, mod: Any) -> TuningTask:
        task = task_of(name, 1, mod, self._target)
        assert task is not None, "shapes of a model are numbers"
        return task

    def _searched(self, task: TuningTask, store: Store, n_trials: int) -> Schedule:
        """The best of so many trials, those that the store has included."""
        config = EngineConfig.of(
            n_trials=n_trials,
            plateau_trials=2 * n_trials,  # the verifier ends a task after half of it
            transfer=False,
            builtin_library=False,
            harvest=False,
            strict=True,
        )
        engine = Engine(config, self._workbench, store, self._profile)
        try:
            engine.run([task])
        except NothingMeasuredError:
            # Of a kernel without any choice there is nothing to measure.
            return Schedule(task, None)
        return Schedule(task, best_trace(task, store, self._n_threads))

    def _timed(self, schedules: Mapping[str, Schedule]) -> dict[str, float]:
        """Medians of kernels of several tasks, in turns."""
        by_task: dict[str, list[str]] = {}
        for name, schedule in schedules.items():
            by_task.setdefault(schedule.task.task_id, []).append(name)
        samples: dict[str, list[float]] = {name: [] for name in schedules}
        settings = MeasureSettings(target=self._target, n_threads=self._n_threads, timing=_BRIEF)
        with MeasurePool(settings) as pool:
            for names in by_task.values():
                task = schedules[names[0]].task
                default = BuildJob("default", module_to_json(task.mod))
                pool.open_task(task.task_id, default, task.arg_shapes, task.arg_dtypes)
            for _ in range(_N_ROUNDS):
                for task_id, names in by_task.items():
                    jobs = [BuildJob(name, module_to_json(schedules[name].module())) for name in names]
                    for result in pool.compare(task_id, jobs, n_repeats=_N_REPEATS):
                        samples[result.job_id] += result.run_secs
        return {name: statistics.median(secs) for name, secs in samples.items() if secs}

    def _hot_block(self, schedule: Schedule) -> HotBlock | None:
        target = make_target(self._target)
        module = compile_module(module_to_json(schedule.module()), target, checks_arguments=False)
        return hot_block(module.inspect_source("asm"))
