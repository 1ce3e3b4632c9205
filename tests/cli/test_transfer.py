"""`transfer` end to end: schedules of one kernel on another size of it, with few measurements and with none."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Inside = Callable[..., "tuple[int, str, str]"]

STORE = ("--store", "store.sqlite3", "--threads", "1")


def record(inside: Inside, *arguments: object) -> dict[str, Any]:
    code, out, err = inside(*arguments, *STORE, "--json")
    assert code == 0, err
    found: dict[str, Any] = json.loads(out)
    return found


@pytest.mark.usefixtures("tvm")
def test_a_tuned_kernel_makes_the_next_size_cheap(inside: Inside, tmp_path: Path) -> None:
    tuned = record(inside, "tune", "gemm:128x128x64", "--trials", 4, "--out", "first")
    assert tuned["transfer"]["hits"] == {"matmul": {"n_kernels": 1}}, "the library is empty"

    moved = record(inside, "transfer", "gemm:96x128x77", "--measurements", 2, "--from", "best", "--out", "second")
    (task,) = moved["tasks"]
    assert task["n_trials"] == moved["n_new_measurements"] <= 2
    assert task["stop_reason"] in ("no_seeds_left", "transferred")
    assert task["transfer"]["n_sources"]["strict"] >= 1
    assert task["transfer"]["source"].startswith("gemm:128x128x64, ")
    assert task["best_secs"] < task["default_secs"]
    assert [source["model"] for source in moved["transfer"]["sources"]] == ["gemm:128x128x64"]
    assert (tmp_path / "second" / "model.so").exists()

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
