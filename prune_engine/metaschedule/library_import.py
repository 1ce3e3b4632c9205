"""Entries of the library from a MetaSchedule database, ours or anyone's."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from prune_engine.hardware.host import cpu_model
from prune_engine.hardware.schema import HardwareProfile
from prune_engine.library.entries import Choice, LibraryEntry, Origin
from prune_engine.loop.harvest import compiler_version, peak_flop_per_sec
from prune_engine.metaschedule.database import RECORDS_FILE
from prune_engine.metaschedule.recorded import read_recorded
from prune_engine.metaschedule.targets import resolve_target, threads_of
from prune_engine.metaschedule.trace_json import TraceWriter
from prune_engine.recorded.spaces import RecordedSpace
from prune_engine.symbols.table import SYMBOLS_VERSION

#: The profile of a device that kernels ran on, with so many threads; None where there is none.
ProfileOf = Callable[[str, int], "HardwareProfile | None"]


@dataclass(frozen=True, slots=True)
class ImportedLibrary:
    """What a database gave. ``remarks`` tell, in sentences, what of it could not be used."""

    entries: tuple[LibraryEntry, ...]
    remarks: tuple[str, ...]
    n_kernels: int
    n_records: int


def import_database(
    path: Path,
    *,
    keep: int = 3,
    device_name: str | None = None,
    n_threads: int | None = None,
    model: str | None = None,
    profile_of: ProfileOf = lambda _device, _n_threads: None,
) -> ImportedLibrary:
    """The ``keep`` fastest schedules of each workload in a database that TVM 0.27 wrote.

    A database does not say what its kernels ran on: without ``device_name`` it is this processor if they were
    compiled for it, else what the target says (see ``device_of``); ``n_threads`` is by default the cores that the
    target states, ``model`` the folder's name.

    Raises what ``read_recorded`` raises: ConfigError where there is no database or no record in it can be read,
    SpaceError where no workload of it can.
    """
    recording = read_recorded(path)
    remarks = list(recording.remarks)
    folder = path if path.is_dir() else path.parent
    measured_at = (folder / RECORDS_FILE).stat().st_mtime
    entries: list[LibraryEntry] = []
    n_kernels = n_records = 0
    for space in recording.spaces:
        if space.remark:
            remarks.append(f"{space.name}: {space.remark}")
        n_records += space.n_candidates + space.n_unmatched
        if space.best_secs is None:
            remarks.append(f"{space.name}: no candidate of it ran, {space.n_candidates} recorded")
            continue
        if space.task.kernel_class is None:
            remarks.append(f"{space.name}: its class cannot be read")
            continue
        n_kernels += 1
        device = device_name or device_of(space.task.target)
        threads = n_threads or threads_of(space.task.target) or 1
        peak = None
        if (profile := profile_of(device, threads)) is not None:
            peak = peak_flop_per_sec(profile, space.task.arg_dtypes[:1])
        name = model or space.name.partition("/")[0]
        entries += _entries(space, keep, device, threads, peak, name, measured_at)
    return ImportedLibrary(tuple(entries), tuple(remarks), n_kernels, n_records)


def device_of(target: str) -> str:
    """What kernels for a canonical target ran on, as far as that can be told.

    This machine's processor if they were compiled for its kind and instructions, else the name of the processor or
    architecture in the target.
    """
    config = json.loads(target)
    here = json.loads(resolve_target("native", 1))
    if config["kind"] == here["kind"] and config.get("mcpu") == here.get("mcpu"):
        return cpu_model()
    return str(config.get("mcpu") or config.get("arch") or config["kind"])


def _entries(
    space: RecordedSpace,
    keep: int,
    device: str,
    n_threads: int,
    peak: float | None,
    model: str,
    measured_at: float,
) -> Iterator[LibraryEntry]:
    task = space.task
    assert task.kernel_class is not None, "asked before"
    for rank, (secs, number, row) in enumerate(_fastest(space, keep)):
        batch = space.batches[number]
        decisions = batch.candidate(row).decisions
        yield LibraryEntry(
            kernel_class=task.kernel_class,
            target=task.target,
            device_name=device,
            n_threads=n_threads,
            sketch_id=batch.sketch.sketch_id,
            choices=tuple(
                Choice(variable.name, variable.kind, decision, variable.subject)
                for variable, decision in zip(batch.sketch.variables, decisions, strict=True)
            ),
            trace_json=TraceWriter(batch.sketch).text(batch.indices[row].tolist()),
            run_secs=(secs,),
            default_secs=space.default_secs,
            flop_count=task.flop_count,
            peak_flop_per_sec=peak,
            n_trials=space.n_candidates,
            model=model,
            task_name=space.name,
            origin=Origin.IMPORTED,
            tvm_version=compiler_version(),
            symbols_version=SYMBOLS_VERSION,
            measured_at=measured_at,
            rank=rank,
        )


def _fastest(space: RecordedSpace, keep: int) -> list[tuple[float, int, int]]:
    """Seconds, number of the batch and row in it of the fastest candidates, best first."""
    found = [
        (float(secs[row]), number, int(row))
        for number, secs in enumerate(space.run_secs)
        for row in np.argsort(secs)[:keep]
        if not np.isnan(secs[row])
    ]
    return sorted(found)[:keep]
