"""Recorded spaces of a store: what `tune` measured on one device, maybe another than this, as batches."""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from prune_engine.candidates import CandidateBatch, rows_of
from prune_engine.errors import PruneEngineError
from prune_engine.measurement import DEFAULT_CANDIDATE, REPLAY_DEVICE
from prune_engine.metaschedule.materialise import Materialiser
from prune_engine.metaschedule.workloads.loading import SourceKind, load_tasks, source_kind
from prune_engine.recorded.spaces import RecordedSpace, Recording
from prune_engine.space import DesignSpace
from prune_engine.store.base import RunRecord, Store, StoredCandidate
from prune_engine.symbols.builtin import BUILTIN_SYMBOLS
from prune_engine.symbols.table import symbol_table
from prune_engine.task import TuningTask

_NO_SKETCH = "its structure is no sketch of the generated space, as of schedules that were transferred"
_NO_CHOICE = "a decision is in no choice table"


@dataclass(frozen=True, slots=True)
class StoredDevice:
    """What runs of a store measured on, the newest run first."""

    device_name: str
    n_threads: int
    runs: tuple[RunRecord, ...]

    def __str__(self) -> str:
        return f"{self.device_name} with {self.n_threads} thread{'' if self.n_threads == 1 else 's'}"


@dataclass(frozen=True, slots=True)
class Programs:
    """Where the kernels of a store are to be read, which keeps no programs.

    ``what`` are models or workloads; without any what the runs themselves say that they tuned. Shapes and sizes of
    dimensions are those of ONNX models among them.
    """

    what: tuple[str, ...] = ()
    shapes: Mapping[str, tuple[int, ...]] | None = None
    dims: Mapping[str, int] | None = None


def devices_of(store: Store) -> list[StoredDevice]:
    """On what a store's runs measured, the one of the newest run first. Replays of recordings measured nothing."""
    found: dict[tuple[str, int], list[RunRecord]] = defaultdict(list)
    for run in store.runs():
        device, n_threads = run.manifest.get("device"), run.manifest.get("n_threads")
        if isinstance(device, str) and isinstance(n_threads, int) and device != REPLAY_DEVICE:
            found[device, n_threads].append(run)
    return [StoredDevice(*key, tuple(runs)) for key, runs in found.items()]


def read_stored(store: Store, device: StoredDevice, programs: Programs) -> Recording:
    """What was measured on a device of a store, a space for each kernel, generated for the target it was tuned for.

    What cannot be used is told in ``remarks``: kernels whose program is in none of ``programs``, those without a
    design space here.
    """
    measured: dict[str, tuple[TuningTask, Sequence[StoredCandidate]]] = {}
    for run in device.runs:
        for task in store.tasks(run.run_id):
            if task.task_id in measured:
                continue
            rows = store.candidates(task.task_id, device.device_name, device.n_threads)
            if any(row.candidate_id != DEFAULT_CANDIDATE for row in rows):
                measured[task.task_id] = task, rows
    remarks: list[str] = []
    targets = sorted({task.target for task, _ in measured.values()})
    known = _kernels(programs, device, targets, remarks)
    spaces = []
    for task_id, (task, rows) in measured.items():
        if task_id not in known:
            remarks.append(
                f"{len(rows)} measurements of {task.name} are left out: its program is in none of the models read"
            )
            continue
        try:
            spaces.append(_space(known[task_id], rows))
        except PruneEngineError as error:
            remarks.append(f"{len(rows)} measurements of {task.name} are left out: {error}")
    return Recording(tuple(spaces), tuple(remarks))


def _kernels(
    programs: Programs, device: StoredDevice, targets: Sequence[str], remarks: list[str]
) -> dict[str, TuningTask]:
    """The kernels of the models by task id, for each target."""
    found: dict[str, TuningTask] = {}
    for what in programs.what or _tuned_models(device, remarks):
        is_onnx = source_kind(what) is SourceKind.ONNX
        shapes, dims = (programs.shapes, programs.dims) if is_onnx else (None, None)
        try:
            for target in targets:
                found |= {task.task_id: task for task in load_tasks(what, target, shapes=shapes, dims=dims)}
        except PruneEngineError as error:
            if programs.what:
                raise
            remarks.append(f"the model {what}, which runs tuned, cannot be read: {error}")
    return found


def _tuned_models(device: StoredDevice, remarks: list[str]) -> Iterator[str]:
    """What the runs say that they tuned, as far as it is here; the rest is told of."""
    for what in dict.fromkeys(run.manifest.get("model") for run in device.runs):
        if not isinstance(what, str):
            continue
        if source_kind(what) is SourceKind.NAME or os.path.lexists(Path(what)):
            yield what
        else:
            remarks.append(f"the model {what}, which runs tuned, is not there: name it, where it is, by --workload")


def _space(task: TuningTask, rows: Sequence[StoredCandidate]) -> RecordedSpace:
    """A kernel's space and what was measured of it. Raises SpaceError."""
    made = Materialiser(task, 0).design_space()
    space = DesignSpace(made.task, made.sketches, symbol_table(BUILTIN_SYMBOLS))
    by_id = {sketch.sketch_id: sketch for sketch in space.sketches}
    unmatched: Counter[str] = Counter()
    found: dict[int, list[tuple[np.ndarray, StoredCandidate]]] = defaultdict(list)
    default_secs = None
    for row in rows:
        if row.candidate_id == DEFAULT_CANDIDATE:
            default_secs = row.measurement.latency_secs
            continue
        sketch = by_id.get(row.sketch_id or "")
        indices = rows_of(sketch, row.decisions) if sketch else None
        if sketch is None or indices is None:
            unmatched[_NO_SKETCH if sketch is None else _NO_CHOICE] += 1
            continue
        found[sketch.index].append((indices, row))
    batches, run_secs, is_censored = [], [], []
    for sketch in space.sketches:
        here = found[sketch.index]
        table = np.array([indices for indices, _ in here], dtype=np.int32).reshape(len(here), len(sketch.variables))
        secs = [row.measurement.latency_secs for _, row in here]
        batches.append(CandidateBatch(space, sketch, table))
        run_secs.append(np.array([np.nan if one is None else one for one in secs], dtype=np.float64))
        is_censored.append(np.array([row.measurement.is_censored for _, row in here], dtype=np.bool_))
    return RecordedSpace(
        task.name,
        task,
        space,
        tuple(batches),
        tuple(run_secs),
        dict(unmatched),
        default_secs,
        tuple(is_censored),
    )
