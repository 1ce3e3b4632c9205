"""Schedules that may be whitelisted: from a store, or from the folder of an artefact."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from prune_engine.errors import ConfigError
from prune_engine.measurement import DEFAULT_CANDIDATE
from prune_engine.metaschedule.recorded import read_recorded
from prune_engine.metaschedule.relax_tasks import task_of
from prune_engine.metaschedule.trace_json import TraceWriter
from prune_engine.metaschedule.workloads.loading import load_tasks
from prune_engine.result_folder import DATABASE_FOLDER, tasks_told
from prune_engine.store.base import Store
from prune_engine.task import TuningTask

BEST = "best"
_MIN_PREFIX = 6
#: Names that an error lists.
_N_NAMED = 8


@dataclass(frozen=True, slots=True)
class Offer:
    """A measured schedule of a task for this machine's target. ``run_secs`` is what it took where it was measured.

    ``decisions`` belong to the sketch of that id; ``trace_json`` is the whole schedule.
    """

    task: TuningTask
    candidate_id: str
    sketch_id: str
    decisions: tuple[tuple[int, ...], ...]
    trace_json: str
    run_secs: float
    source: str


def offer_in_store(
    store: Store, what: str, wanted_task: str | None, wanted: str, *, target: str, device: str, n_threads: int
) -> Offer:
    """A schedule that a store has of a kernel, by workload name or model file, for a canonical target.

    Raises what ``load_tasks`` raises, and ConfigError naming what there is where nothing fits.
    """
    task = _one_task(load_tasks(what, target), wanted_task, what)
    rows = [
        row
        for row in store.candidates(task.task_id, device, n_threads)
        if row.measurement.run_secs and not row.measurement.is_censored and row.trace_json and row.sketch_id
    ]
    timed = store.last_comparison(task.task_id, device, n_threads)
    finals = dict(zip(timed.candidate_ids, timed.run_secs, strict=True)) if timed else {}
    offers = [
        Offer(
            task,
            row.candidate_id,
            str(row.sketch_id),
            row.decisions,
            str(row.trace_json),
            statistics.median(finals.get(row.candidate_id) or row.measurement.run_secs),
            f"candidate {row.candidate_id} of {store.url}",
        )
        for row in rows
    ]
    # Finals time the best few in turns, so whoever was in them comes before those who were not.
    in_finals = [offer for offer in offers if finals.get(offer.candidate_id)]
    best_of = in_finals if wanted == BEST and in_finals else offers
    where = f"{store.url} (on {device}, {n_threads} threads)"
    return _chosen(best_of, wanted, task.name, where, finals.get(DEFAULT_CANDIDATE))


def offer_in_folder(folder: Path, wanted_task: str, wanted: str, *, target: str) -> Offer:
    """A schedule in a folder that `tune` wrote, or in a MetaSchedule database, for a canonical target.

    Raises what ``read_recorded`` raises, and ConfigError naming what there is where nothing fits.
    """
    database = folder / DATABASE_FOLDER if (folder / DATABASE_FOLDER).is_dir() else folder
    # What the run that wrote the folder calls its kernels, as far as it says.
    names = {str(told.get("task_id")): str(told.get("name")) for told in tasks_told(folder) if "name" in told}
    recording = read_recorded(database)
    by_task = {space.task.task_id: space for space in recording.spaces}
    named = [_renamed(space.task, names) for space in recording.spaces]
    task = _one_task(named, wanted_task, str(folder))
    space = by_task[task.task_id]
    offers: list[Offer] = []
    here = task_of(task.name, 1, task.mod, target)
    assert here is not None, "its shapes were read before"
    for batch, secs in zip(space.batches, space.run_secs, strict=True):
        writer = TraceWriter(batch.sketch) if len(batch) else None
        for row in np.flatnonzero(~np.isnan(secs)).tolist():
            assert writer is not None, "there is a row"
            one = batch.candidate(row)
            trace = writer.text(batch.indices[row].tolist())
            source = f"candidate {one.candidate_id} of {folder}"
            known_by = one.candidate_id, batch.sketch.sketch_id, one.decisions
            offers.append(Offer(here, *known_by, trace, float(secs[row]), source))
    return _chosen(offers, wanted, task.name, str(folder), None)


def _chosen(
    offers: Sequence[Offer], wanted: str, task: str, where: str, default_secs: Sequence[float] | None
) -> Offer:
    """The best offer, or that of an id or the first letters of one."""
    if not offers:
        raise ConfigError(
            "no schedule of it was measured completely",
            who=f"kernel {task}",
            got=where,
            remedy="Tune it first, or name another store by --store or folder by --from.",
        )
    if wanted == BEST:
        best = min(offers, key=lambda offer: (offer.run_secs, offer.candidate_id))
        if default_secs and statistics.median(default_secs) <= best.run_secs:
            raise ConfigError(
                "its untuned kernel was not beaten", who=f"kernel {task}", got=where, remedy="Tune it for longer."
            )
        return best
    exact = [offer for offer in offers if offer.candidate_id == wanted]
    found = exact or [o for o in offers if len(wanted) >= _MIN_PREFIX and o.candidate_id.startswith(wanted)]
    if len(found) != 1:
        known = sorted(offers, key=lambda offer: offer.run_secs)[:_N_NAMED]
        raise ConfigError(
            "several candidates begin so" if found else "no such candidate",
            who=f"kernel {task}",
            got=repr(wanted),
            expected=f"best, or the id of one, such as {', '.join(offer.candidate_id for offer in known)}",
        )
    return found[0]


def _one_task(tasks: Sequence[TuningTask], wanted: str | None, where: str) -> TuningTask:
    """The task of a name, a number from 1 or the first letters of an id; without any the only one."""
    found = [
        task
        for number, task in enumerate(tasks, 1)
        if wanted in (None, task.name, str(number))
        or (wanted is not None and len(wanted) >= _MIN_PREFIX and task.task_id.startswith(wanted))
    ]
    if len(found) != 1:
        names = ", ".join(f"{number} ({task.name})" for number, task in enumerate(tasks[:_N_NAMED], 1))
        more = f" and {len(tasks) - _N_NAMED} more" if len(tasks) > _N_NAMED else ""
        raise ConfigError(
            "which kernel?" if len(found) > 1 else "no such kernel",
            who=where,
            got=None if wanted is None else repr(wanted),
            expected=f"one of: {names}{more}",
        )
    return found[0]


def _renamed(task: TuningTask, names: dict[str, str]) -> TuningTask:
    return replace(task, name=names.get(task.task_id, task.name))
