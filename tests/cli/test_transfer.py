"""`transfer` end to end: schedules of one kernel on another size of it, with few measurements and with none."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from prune_engine.hardware.host import cpu_model
from prune_engine.loop.harvest import without_postprocessing
from prune_engine.metaschedule.materialise import Materialised, Materialiser
from prune_engine.metaschedule.targets import resolve_target
from prune_engine.metaschedule.workloads.loading import load_model
from prune_engine.store import open_store
from prune_engine.testing import make_batch, make_entries

Inside = Callable[..., "tuple[int, str, str]"]

STORE = ("--store", "store.sqlite3", "--threads", "1", "--no-builtin-library")


def record(inside: Inside, *arguments: object) -> dict[str, Any]:
    code, out, err = inside(*arguments, *STORE, "--json")
    assert code == 0, err
    found: dict[str, Any] = json.loads(out)
    return found


def fill_library(store: Path, workload: str, n: int) -> None:
    """Add ``n`` schedules of a workload, as if they had been measured."""
    target = resolve_target("native", 1)
    (task,) = load_model(workload, target, shapes={}, dims={}).tasks
    materialiser = Materialiser(task, 0)
    space = materialiser.design_space()
    batch = make_batch(n, space=space, sketch=len(space.sketches) - 1)
    opened = open_store(str(store))
    for i in range(n):
        made = materialiser.materialise(space, batch.candidate(i))
        assert isinstance(made, Materialised)
        device = {"device_name": cpu_model(), "n_threads": 1, "model": workload}
        trace = without_postprocessing(made.trace_json)
        opened.add_entries(make_entries(batch.take(np.array([i])), [1e-3 * (i + 1)], trace_json=trace, **device))
    opened.close()


@pytest.mark.usefixtures("tvm")
def test_a_tuned_kernel_makes_the_next_size_cheap(inside: Inside, tmp_path: Path) -> None:
    fill_library(tmp_path / "store.sqlite3", "gemm:128x128x64", 3)
    moved = record(inside, "transfer", "gemm:96x128x77", "--measurements", 2, "--from", "best", "--out", "second")
    (task,) = moved["tasks"]
    assert task["n_trials"] == moved["n_new_measurements"] <= 2
    assert task["stop_reason"] in ("measurements", "transferred")
    assert task["transfer"]["n_sources"]["strict"] >= 1
    assert task["transfer"]["source"].startswith("gemm:128x128x64")
    assert task["best_secs"] < task["default_secs"]
    assert [source["model"] for source in moved["transfer"]["sources"]] == ["gemm:128x128x64"]
    assert (tmp_path / "second" / "model.so").exists()

    assert inside("policy", "pin", "transfer.lock", "--from", "second")[0] == 0
    pinned = ("--policy", "transfer.lock", "--report", "moved.html")
    again = record(inside, "transfer", "gemm:96x128x77", "--measurements", 2, "--from", "best", *pinned)
    assert again["n_new_measurements"] == 0
    assert (tmp_path / str(again["report"])).read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    code, _, err = inside("transfer", "gemm:96x128x77", *STORE, "--measurements", 3, "--from", "best", *pinned)
    assert code == 2
    assert "thresholds/transfer_trials" in err

    code, _, err = inside("library", "export", "library.jsonl.gz", "--store", "store.sqlite3")
    assert code == 0, err
    ranked = record(inside, "transfer", "gemm:112x96x64", "--measurements", 0, "--from", "library.jsonl.gz")
    (task,) = ranked["tasks"]
    assert (task["n_trials"], task["best_secs"], task["stop_reason"]) == (0, None, "ranked")
    assert ranked["comparison"]["is_correct"]
    assert ranked["is_tuned"]


@pytest.mark.usefixtures("tvm")
@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--from", "nobody"], "the library has no kernel of such a model; got 'nobody'"),
        (["--from", "no/such/file"], "no such file or folder; got no/such/file"),
        (["--from", "here.txt"], "here.txt"),
        (["--choose-by", "cubed"], "--choose-by"),
    ],
)
def test_a_source_that_is_none(inside: Inside, tmp_path: Path, options: list[str], said: str) -> None:
    (tmp_path / "here.txt").write_text("not a library\n")
    code, out, err = inside("transfer", "gemm:64x64x64", *STORE, *options)
    assert code == 2
    assert not out
    assert said in err.splitlines()[-1]
    assert "Traceback" not in err
