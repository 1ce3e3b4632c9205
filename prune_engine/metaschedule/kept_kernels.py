"""The winners that an artefact keeps, with the modules they belong to."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from prune_engine.errors import ArtifactError, PruneEngineError
from prune_engine.metaschedule.artifact_metadata import ArtifactMetadata
from prune_engine.metaschedule.database import RECORDS_FILE, WORKLOADS_FILE
from prune_engine.metaschedule.kernel_records import KernelRecord, read_kernel_records
from prune_engine.metaschedule.record_rows import RecordRow, numbered_lines, read_rows, structure_of
from prune_engine.metaschedule.recorded import database_folder, workload_module
from prune_engine.metaschedule.relax_tasks import task_of
from prune_engine.result_folder import DATABASE_FOLDER
from prune_engine.task import TuningTask


@dataclass(frozen=True, slots=True)
class KeptKernel:
    """A winner; ``task`` is None, and ``problem`` says why, where its module cannot be had."""

    record: KernelRecord
    task: TuningTask | None
    problem: str = ""


def kept_kernels(folder: Path, metadata: ArtifactMetadata) -> tuple[list[KeptKernel], list[str]]:
    """The winners of an artefact in the order of their tasks, and remarks.

    An artefact that does not name its winners is taken to have the best record of each workload of its database.

    Raises:
        ArtifactError: there is no database, or no module in it, or the metadata's kernels are damaged.
        ConfigError: the database cannot be read.
    """
    records = read_kernel_records(metadata.manifest, str(folder))
    if records == []:
        return [], []
    if not (folder / DATABASE_FOLDER).is_dir():
        raise ArtifactError(
            "the artefact has no database, which holds the modules of its kernels",
            who=str(folder / DATABASE_FOLDER),
            remedy="Copy the whole folder that `prune-engine tune --out` wrote.",
        )
    database = database_folder(folder / DATABASE_FOLDER)
    workloads = numbered_lines(database / WORKLOADS_FILE)
    if not workloads:  # an update hashes modules in another way, but leaves them there
        raise ArtifactError(
            "the artefact's database holds no module, so that nothing can be verified",
            who=str(database / WORKLOADS_FILE),
            remedy="Copy the whole folder that `prune-engine tune --out` wrote.",
        )
    remarks: list[str] = []
    tasks: dict[str, TuningTask] = {}
    by_number: dict[int, TuningTask] = {}
    for number, (line, content) in enumerate(workloads):
        try:
            task = task_of(
                f"workload {number + 1}", 1, workload_module(database.name, line, content), metadata.target
            )
        except PruneEngineError as error:
            remarks.append(str(error))
            continue
        if task is not None:
            tasks[task.task_id] = by_number[number] = task
    if records is None:
        remarks.append("the artefact does not name its winners: the best record of each workload stands for them")
        return list(_best_records(database, by_number)), remarks
    return [_with_task(record, tasks) for record in records], remarks


def _with_task(record: KernelRecord, tasks: Mapping[str, TuningTask]) -> KeptKernel:
    task = tasks.get(record.task_id)
    if task is None:
        return KeptKernel(record, None, "its module is not in the database, or is hashed in another way now")
    return KeptKernel(record, replace(task, name=record.name, weight=record.weight))


def _best_records(database: Path, tasks: Mapping[int, TuningTask]) -> Iterator[KeptKernel]:
    untuned: dict[int, list[float]] = {}
    best: dict[int, RecordRow] = {}
    for row in read_rows(database / RECORDS_FILE):
        if isinstance(row, str) or row.run_secs is None or row.workload not in tasks:
            continue
        try:
            is_untuned = structure_of(row.instructions).is_empty
        except (ValueError, TypeError, LookupError):
            continue
        if is_untuned:
            untuned.setdefault(row.workload, []).append(row.run_secs)
        elif row.workload not in best or row.run_secs < (best[row.workload].run_secs or 0):
            best[row.workload] = row
    for number, row in sorted(best.items()):
        task = tasks[number]
        default_secs = statistics.median(untuned[number]) if number in untuned else None
        if default_secs is not None and row.run_secs is not None and row.run_secs >= default_secs:
            continue  # the untuned kernel won
        trace: list[Any] = [row.instructions, row.decisions]
        record = KernelRecord(task.task_id, task.name, 1, None, json.dumps(trace), default_secs, row.run_secs)
        yield KeptKernel(record, task)
