"""`prune-engine tune --replay DB`: the search against a recorded space, without hardware."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from prune_engine.display.streams import say, writing_to_stdout
from prune_engine.result_folder import DATABASE_FOLDER, RESULTS, write_result

if TYPE_CHECKING:
    from prune_engine.config import EngineConfig
    from prune_engine.lifecycle import Observer
    from prune_engine.recorded.replay import Replay
    from prune_engine.store.base import Store

#: Trials after which what was found is told, as far as there were as many.
_MARKS = (4, 8, 16, 32, 64, 128, 256, 512)


def replay_database(
    db: Path,
    config: EngineConfig,
    *,
    profile: str,
    n_threads: int | None,
    store_url: str | None,
    observer: Observer,
    should_stop: Callable[[], bool],
    out_dir: Path | None,
    decision_bytes: int = 0,
    report: str | None = None,
) -> dict[str, Any]:
    """Tune the recorded tasks of a MetaSchedule database; the result as a record.

    The profile is cut to ``n_threads`` cores. Without a ``store_url`` measurements are not kept. Decisions, at most
    ``decision_bytes`` of them, the result and a ``report`` (see `report_option`) go to ``out_dir``, by default in
    ./tuned; without either of the two and an ``out_dir`` nothing is written.

    Raises what ``read_recorded`` and ``replay`` raise, and OutputError.
    """
    from prune_engine.cli.report_option import report_file
    from prune_engine.decisions.files import DECISIONS_FOLDER, DecisionWriter
    from prune_engine.errors import ConfigError
    from prune_engine.hardware.fit import check_fits
    from prune_engine.hardware.registry import ProfileRegistry
    from prune_engine.hardware.slice import with_threads
    from prune_engine.metaschedule.recorded import read_recorded
    from prune_engine.output_file import make_folder
    from prune_engine.recorded.replay import replay
    from prune_engine.store.open import open_store

    is_written = out_dir is not None or decision_bytes > 0 or report is not None
    folder = out_dir or RESULTS / f"{_name_of(db)}-replay"
    page = report_file(report, folder)
    observer.on_status(f"reading {db.name}")
    chosen = ProfileRegistry().resolve(profile, n_threads=n_threads)
    chosen = with_threads(chosen, n_threads) if n_threads else chosen
    recording = read_recorded(db)
    for remark in recording.remarks:
        observer.on_status(f"warning: {remark}")
    for space in recording.spaces:
        check_fits(chosen, space.task.target, remedy="Name the device of the recording by --profile.")
    spaces = [space for space in recording.spaces if space.best_secs is not None]
    for space in recording.spaces:
        if space.remark:
            observer.on_status(f"warning: {space.name}: {space.remark}")
        if space.best_secs is None:
            observer.on_status(f"warning: {space.name}: no candidate of it ran, {space.n_candidates} recorded")
    if not spaces:
        raise ConfigError("no candidate of any workload ran", who=str(db), expected="a recording to search in")
    store = open_store(store_url or "sqlite://")
    try:
        if is_written:
            make_folder(folder)
        done = replay(
            spaces,
            config,
            chosen,
            store,
            observer=observer,
            should_stop=should_stop,
            n_threads=n_threads,
            decisions=DecisionWriter(folder / DECISIONS_FOLDER, decision_bytes) if decision_bytes else None,
        )
        sizes = {space.task.task_id: space.n_candidates for space in spaces}
        record = {
            "db": str(db),
            "folder": str(folder) if is_written else None,
            "report": str(page) if page else None,
            "profile": chosen.name,
            "seed": config.seed,
            **_record(done, sizes),
        }
        # What is printed is the same whenever it is run.
        result = {**record, "run_id": done.run.run_id, "store": store.url if store_url else None}
        if is_written:
            write_result(folder, json.dumps(result, indent=2) + "\n")
        if page is not None:
            _write_report(page, store, result, folder)
        return record
    finally:
        store.close()


def report_replay(record: Mapping[str, Any], as_json: bool) -> None:
    """Print the result of a replay."""
    with writing_to_stdout("Redirect it to a place with room."):
        if as_json:
            typer.echo(json.dumps(record))
        else:
            _print(record)
    if record["stop_reason"] == "interrupted":
        say("stopped before the budget was used up")


def _write_report(page: Path, store: Store, record: Mapping[str, Any], folder: Path) -> None:
    from prune_engine.output_file import write_whole
    from prune_engine.report.sources import Source
    from prune_engine.report.writing import report_of

    run = next(run for run in store.runs() if run.run_id == record["run_id"])
    write_whole(page, report_of(Source(store, run, record, folder)).html)


def _name_of(db: Path) -> str:
    """What a database is of: `tune` calls the folder of every one alike."""
    folder = (db.parent if db.is_file() else db).resolve()
    return folder.parent.name if folder.name == DATABASE_FOLDER else folder.name


def _record(done: Replay, sizes: Mapping[str, int]) -> dict[str, Any]:
    summaries = {task.summary.task_id: task.summary for task in done.run.tasks}
    return {
        "stop_reason": done.run.stop_reason,
        "failed_plugins": {plugin.name: plugin.summary for plugin in done.failed_plugins},
        "tasks": [
            {
                "name": curve.name,
                "task_id": curve.task_id,
                "n_candidates": sizes[curve.task_id],
                "n_trials": len(curve.run_secs),
                "n_trials_before": summaries[curve.task_id].n_trials - len(curve.run_secs),
                "stop_reason": summaries[curve.task_id].stop_reason,
                "best_secs": curve.best_secs,
                "found": curve.found_at(len(curve.run_secs)),
                "curve": curve.found.tolist(),
                "run_secs": [None if math.isnan(secs) else secs for secs in curve.run_secs.tolist()],
                "batch_sizes": list(curve.batch_sizes),
            }
            for curve in done.curves
        ],
    }


def _print(record: Mapping[str, Any]) -> None:
    from prune_engine.cli.console import result_console
    from prune_engine.display.tables import Columns, counted, print_line, print_named

    console = result_console()
    tasks = record["tasks"]
    marks = [n for n in _MARKS if any(task["n_trials"] > n for task in tasks)]
    heading = f"best of the recording over best found after so many trials; profile {record['profile']}"
    if n_before := sum(task["n_trials_before"] for task in tasks):
        heading += f"; not counting {counted(n_before, 'trial')} of earlier runs on the store"
    print_line(console, heading)
    spaces = [
        [f"{task['n_candidates']:,}", f"{task['best_secs'] * 1e3:.4g}", str(task["n_trials"]), task["stop_reason"]]
        for task in tasks
    ]
    found = [
        [*(f"{task['curve'][n - 1]:.2f}" if len(task["curve"]) >= n else "" for n in marks), f"{task['found']:.2f}"]
        for task in tasks
    ]
    print_named(
        console,
        "task",
        [task["name"] for task in tasks],
        Columns(("candidates", "best ms", "trials", "stopped by"), spaces, frozenset({"stopped by"})),
        Columns([*map(str, marks), "all"], found),
    )
    for name, why in record["failed_plugins"].items():
        print_line(console, f"warning: plugin {name} {why}")
    if record["folder"] is not None:
        print_line(
            console, f"written to {record['folder']}; try: prune-engine explain 1 best --out {record['folder']}"
        )
    if record["report"] is not None:
        print_line(console, f"the whole run as a page to read: {record['report']}")
