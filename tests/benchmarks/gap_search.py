"""Searches a kernel's space for longer, and that of the same operator in the packed layout."""

from __future__ import annotations

import contextlib
import json
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from gap_packing import NotPackedError, Packed, packed_kernel, relayout_kernel
from gap_profile import best_trace, measured_of
from gap_records import Search
from transfer_subjects import Subject, target_of

from prune_engine.candidates import CandidateBatch
from prune_engine.config import EngineConfig
from prune_engine.engine import Engine
from prune_engine.errors import NothingMeasuredError
from prune_engine.hardware.registry import ProfileRegistry
from prune_engine.metaschedule._compat import import_tvm, load_intrinsics
from prune_engine.metaschedule.measure import MeasureSettings
from prune_engine.metaschedule.relax_tasks import task_of
from prune_engine.metaschedule.targets import architecture_of
from prune_engine.metaschedule.workbench import TvmWorkbench
from prune_engine.space import DesignSpace
from prune_engine.store.base import Store
from prune_engine.store.open import open_store
from prune_engine.task import TuningTask

#: Fewest trials of the long search: of small kernels the first tuning made next to none.
LEAST_TRIALS = 64
#: Re-arranging a tensor is a copy: there is little to search.
_RELAYOUT_TRIALS = 16


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


@dataclass(frozen=True)
class Plan:
    """The schedules of one kernel that are to be compared, with what they cost to find.

    ``packed`` is None where there is no such layout; ``packing`` says which it is or why there is none.
    """

    task: TuningTask
    first: Schedule
    longer: Schedule
    packed: Schedule | None
    relayouts: tuple[Schedule, ...]
    packing: str
    n_first_trials: int
    n_trials: int
    n_packed_trials: int


class Stores:
    """The stores of one model. A context manager. ``first`` is only read, the others are gone on with."""

    def __init__(self, first: Path, longer: Path, packed: Path) -> None:
        self.first, self.longer, self.packed = (open_store(str(path)) for path in (first, longer, packed))

    def __enter__(self) -> Stores:
        return self

    def __exit__(self, *_: object) -> None:
        for store in (self.first, self.longer, self.packed):
            store.close()


class Kernels:
    """The kernels of one model and their packed forms, with what the stores have of them."""

    def __init__(self, subject: Subject, stores: Stores, n_threads: int) -> None:
        self.subject, self.stores, self.n_threads = subject, stores, n_threads
        self.target = target_of(n_threads)
        self.profile = ProfileRegistry().choose("auto", n_threads=n_threads).profile
        import_tvm()
        load_intrinsics(architecture_of(self.target))
        self.tasks = {task.task_id: task for task in subject.load(n_threads).tasks}

    def plan(self, task_id: str) -> Plan:
        """What there is of a kernel now."""
        task = self.tasks[task_id]
        packing = self.packing_of(task)
        packed = self.packed_task(task, packing) if isinstance(packing, Packed) else None
        relayouts = self.relayout_tasks(packing) if isinstance(packing, Packed) else ()
        return Plan(
            task,
            self._best(task, self.stores.first),
            self._best(task, self.stores.longer),
            self._best(packed, self.stores.packed) if packed else None,
            tuple(self._best(one, self.stores.packed) for one in relayouts),
            packing.what if isinstance(packing, Packed) else packing,
            self.n_trials(task, self.stores.first),
            self.n_trials(task, self.stores.longer),
            self.n_trials(packed, self.stores.packed) if packed else 0,
        )

    def n_trials(self, task: TuningTask, store: Store) -> int:
        """How many candidates of a task a store has."""
        return len(measured_of(task, store, self.n_threads))

    def packing_of(self, task: TuningTask) -> Packed | str:
        """A kernel in the packed layout, or why there is none."""
        vector_bytes = self.profile.value("limits.vector_bytes")
        if vector_bytes is None or set(task.arg_dtypes) != {"float32"}:
            return "the profile has no vectors" if vector_bytes is None else "not all of it is float32"
        try:
            return packed_kernel(task.mod, int(vector_bytes) // 4)
        except NotPackedError as error:
            return str(error)

    def packed_task(self, task: TuningTask, packing: Packed) -> TuningTask:
        """The packed kernel as a task."""
        return self._task(f"{task.name}_packed", packing.mod)

    def relayout_tasks(self, packing: Packed) -> tuple[TuningTask, ...]:
        """What a plain neighbour would have to do for it."""
        lanes = int(self.profile.value("limits.vector_bytes") or 0) // 4
        return tuple(
            self._task("relayout", relayout_kernel(shape, lanes, is_read=is_read))
            for shape, is_read in packing.activations
        )

    def _best(self, task: TuningTask, store: Store) -> Schedule:
        return Schedule(task, best_trace(task, store, self.n_threads))

    def _task(self, name: str, mod: Any) -> TuningTask:
        task = task_of(name, 1, mod, self.target)
        assert task is not None, "shapes of a model are numbers"
        return task


class Searcher:
    """Searches kernels of one model. A context manager, which holds the processes that measure."""

    def __init__(self, kernels: Kernels) -> None:
        self._kernels = kernels
        settings = MeasureSettings(target=kernels.target, n_threads=kernels.n_threads)
        self._workbench = TvmWorkbench(settings, kernels.profile.digest())

    def __enter__(self) -> Searcher:
        return self

    def __exit__(self, *_: object) -> None:
        self._workbench.close()

    def search(self, task_id: str, headroom_trials: int | None, factor: int) -> Search:
        """Measure so many trials of a kernel, those of the first tuning among them, and as many of its packed form.

        ``headroom_trials`` is the number, None for ``factor`` times as many as the first tuning made. Raises
        PruneEngineError if nothing can be measured.
        """
        began, before = time.monotonic(), os.getloadavg()[0]
        kernels, stores = self._kernels, self._kernels.stores
        task = kernels.tasks[task_id]
        n_first = kernels.n_trials(task, stores.first)
        n_trials = headroom_trials or max(LEAST_TRIALS, factor * n_first)
        self._search(task, stores.longer, max(n_trials, n_first))
        packing = kernels.packing_of(task)
        n_packed = 0
        if isinstance(packing, Packed):
            packed = kernels.packed_task(task, packing)
            self._search(packed, stores.packed, n_trials)
            n_packed = kernels.n_trials(packed, stores.packed)
            for one in kernels.relayout_tasks(packing):
                self._search(one, stores.packed, _RELAYOUT_TRIALS)
        return Search(
            kernels.subject.name,
            kernels.n_threads,
            task_id,
            kernels.n_trials(task, stores.longer),
            n_packed,
            time.monotonic() - began,
            (before, os.getloadavg()[0]),
        )

    def _search(self, task: TuningTask, store: Store, n_trials: int) -> None:
        """So many trials, those that the store has included; of a space of one schedule that one."""
        space = self._workbench.design_space(task)
        if not space.has_choices:
            self._try_only(space, store)
            return
        config = EngineConfig.of(
            n_trials=n_trials,
            plateau_trials=2 * n_trials,  # the verifier ends a task after half of it
            transfer=False,
            builtin_library=False,
            harvest=False,
            strict=True,
        )
        engine = Engine(config, self._workbench, store, self._kernels.profile)
        with contextlib.suppress(NothingMeasuredError):  # a kernel without any choice stays as it is
            engine.run([task])

    def _try_only(self, space: DesignSpace, store: Store) -> None:
        """Measure the untuned kernel and the only schedule, which the engine does not: it has nothing to choose."""
        run_id = store.start_run({})
        store.add_tasks(run_id, [space.task])
        measured = [default for _, default in self._workbench.measure_defaults([space.task])]
        for sketch in space.sketches:
            if sketch.size:
                only = CandidateBatch(space, sketch, np.zeros((1, len(sketch.variables)), dtype=np.int32))
                measured += self._workbench.measure(space, [only.candidate(0)], None)
        sketch_ids = [sketch.sketch_id for sketch in space.sketches]
        store.add_measured(run_id, space.task.task_id, sketch_ids, measured)
        store.finish_run(run_id)
