"""Measurements as a MetaSchedule JSON database, which TVM applies without prune_engine."""

from __future__ import annotations

import errno
import json
import math
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from prune_engine.errors import OutputError
from prune_engine.metaschedule._compat import import_tvm
from prune_engine.metaschedule.materialise import SCHEDULE_ERRORS, last_line
from prune_engine.metaschedule.targets import make_target
from prune_engine.store.base import StoredCandidate
from prune_engine.task import TuningTask

#: The names that ``JSONDatabase(work_dir=...)`` looks for.
WORKLOADS_FILE, RECORDS_FILE = "database_workload.json", "database_tuning_record.json"

#: A schedule that changes nothing: what the untuned kernel is where the compiler needs no schedule. It looks
#: at a block, because TVM passes over records without any instruction when it looks for the best.
_UNSCHEDULED = '[[["GetSBlock",[],["root","main"],["b0"]]],[]]'


@dataclass(frozen=True, slots=True)
class TaskRecords:
    """A task, with its module, and what was measured of it."""

    task: TuningTask
    candidates: Sequence[StoredCandidate]


@dataclass(frozen=True, slots=True)
class WrittenDatabase:
    """What was written, and one sentence for each candidate that should have been and could not."""

    n_workloads: int
    n_records: int
    left_out: tuple[str, ...]


def write_tuning_records(
    out_dir: Path, entries: Iterable[TaskRecords], *, include_censored: bool = False
) -> WrittenDatabase:
    """Write ``database_workload.json`` and ``database_tuning_record.json`` into ``out_dir``, replacing them.

    Every successful measurement that has a trace becomes a record; censored ones only if asked for, since
    their latencies do not compare. On processor targets the default schedule is written too, as a trace that
    changes nothing, so that TVM does not replace it by something slower. A reader never meets the records of one
    write with the workloads of another.

    Raises:
        OutputError: ``out_dir`` cannot be made or written to, or is full; an earlier database is then intact.
        TargetError: TVM does not know a task's target.
    """
    try:
        out_dir.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(prefix=".database-", dir=out_dir) as scratch:
            writer = _Writer(Path(scratch), include_censored)
            for entry in entries:
                writer.add(entry)
            written = writer.finish()
            _replace(Path(scratch), out_dir)
    except OSError as error:
        raise OutputError(
            "the MetaSchedule database cannot be written",
            who=str(out_dir),
            got=error.strerror or str(error),
            remedy="Name a folder that you can write to, on a disk with room.",
        ) from error
    return written


class _Writer:
    """Fills a new database in an empty folder, by TVM's own classes."""

    def __init__(self, folder: Path, include_censored: bool) -> None:
        self._tvm = import_tvm()
        from tvm.s_tir import meta_schedule as ms

        self._ms = ms
        self._folder = folder
        self._include_censored = include_censored
        # A missing file would be an error to some readers, an empty one is a database without records.
        for name in (WORKLOADS_FILE, RECORDS_FILE):
            (folder / name).touch()
        self._database = ms.database.JSONDatabase(work_dir=str(folder))
        self._owners: list[tuple[Any, str]] = []
        self._n_records = 0
        self._left_out: list[str] = []

    def add(self, entry: TaskRecords) -> None:
        """Write a task's records; without any, its workload is not written either."""
        wanted = [candidate for candidate in entry.candidates if self._is_wanted(candidate)]
        if not wanted:
            return
        target = make_target(entry.task.target)
        workload = self._database.commit_workload(entry.task.mod)
        # Kernels that differ in block names alone are one workload to TVM: the first of them.
        owner = next((name for known, name in self._owners if known.same_as(workload)), None)
        if owner is None:
            self._owners.append((workload, entry.task.name))
        args_info = self._ms.arg_info.ArgInfo.from_entry_func(workload.mod, remove_preproc=True)
        for candidate in wanted:
            try:
                trace = self._replayed(_trace_json(candidate, str(target.kind.name)), workload)
            except SCHEDULE_ERRORS as error:
                place = f"{entry.task.name}, candidate {candidate.candidate_id}"
                shared = f" (as a schedule of {owner}, an equal kernel)" if owner else ""
                self._left_out.append(f"{place}: {last_line(str(error))}{shared}")
                continue
            run_secs = list(candidate.measurement.run_secs)
            record = self._ms.database.TuningRecord(trace, workload, run_secs, target, args_info)
            self._database.commit_tuning_record(record)
            self._n_records += 1

    def finish(self) -> WrittenDatabase:
        """Make sure that all of it is on disk. Raises OSError if not."""
        # TVM does not notice that a line was not written.
        for name, n_lines in ((WORKLOADS_FILE, len(self._owners)), (RECORDS_FILE, self._n_records)):
            with (self._folder / name).open("rb") as file:
                os.fsync(file.fileno())
                if sum(line.endswith(b"\n") for line in file) != n_lines:
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return WrittenDatabase(len(self._owners), self._n_records, tuple(self._left_out))

    def _is_wanted(self, candidate: StoredCandidate) -> bool:
        measurement = candidate.measurement
        if measurement.is_censored and not self._include_censored:
            return False
        return bool(measurement.run_secs) and all(math.isfinite(secs) for secs in measurement.run_secs)

    def _replayed(self, trace_json: str, workload: Any) -> Any:
        """The trace as TVM reads it. It replays every record on loading, and one that fails spoils them all."""
        schedule = self._tvm.s_tir.Schedule(workload.mod, debug_mask="none")
        self._tvm.s_tir.schedule.Trace.apply_json_to_schedule(json.loads(trace_json), schedule)
        return schedule.trace


def _trace_json(candidate: StoredCandidate, target_kind: str) -> str:
    if candidate.trace_json is not None:
        return candidate.trace_json
    if candidate.sketch_id is None and target_kind == "llvm":
        return _UNSCHEDULED
    raise ValueError("it was stored without a trace")


def _replace(scratch: Path, out_dir: Path) -> None:
    """Put the new files in place. Between the steps there are no records, never records of other workloads."""
    (out_dir / RECORDS_FILE).unlink(missing_ok=True)
    for name in (WORKLOADS_FILE, RECORDS_FILE):
        (scratch / name).replace(out_dir / name)
