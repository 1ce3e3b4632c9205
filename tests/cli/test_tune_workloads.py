"""`tune` on what is no ONNX model: a workload by name, and a file of kernels."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

Run = Callable[..., "subprocess.CompletedProcess[str]"]


def test_tune_and_run_a_workload(cli: Run, tmp_path: Path) -> None:
    options = ["--trials", 6, "--store", "store.sqlite3", "--no-builtin-library"]
    done = cli("tune", "GEMM:64x64x96:f32+bias", "--json", *options)
    assert done.returncode == 0, done.stderr
    record = json.loads(done.stdout)
    (task,) = record["tasks"]
    assert task["name"] == "gemm:64x64x96+bias"
    assert task["n_valid"] == 6
    assert record["artifact"] == "tuned/gemm_64x64x96_bias"
    assert set(record["comparison"]["latencies"]) == {"untuned", "tuned"}
    assert record["comparison"]["is_correct"]
    assert "no ONNX model" in record["comparison"]["reference_problem"]

    done = cli("run", "tuned/gemm_64x64x96_bias", "--json", "--repeat", 2)
    assert done.returncode == 0, done.stderr
    ran = json.loads(done.stdout)
    assert ran["model"] == "gemm:64x64x96+bias"
    assert ran["outputs"]["Y"]["shape"] == [64, 64]

    # From the database just written: the same task, whose measurements are there.
    done = cli("tune", "tuned/gemm_64x64x96_bias/database/database_workload.json", "--json", *options)
    assert done.returncode == 0, done.stderr
    repeated = json.loads(done.stdout)
    assert repeated["n_new_measurements"] == 0
    assert repeated["tasks"][0]["task_id"] == task["task_id"]


@pytest.mark.parametrize(
    ("what", "code", "message"),
    [
        ("gemm:64x64", 2, "expected gemm:MxNxK"),
        ("gem:64x64x64", 2, "Did you mean gemm:MxNxK"),
        ("conv2d:1x3x8x8,4x3x3,g2", 2, "groups must divide"),
        ("absent.py", 3, "cannot be read"),
        ("absent.json", 3, "cannot be read"),
    ],
)
def test_bad_workload_answers_at_once_and_leaves_nothing(
    cli: Run, tmp_path: Path, what: str, code: int, message: str
) -> None:
    done = cli("tune", what)
    assert done.returncode == code
    assert message in done.stderr
    assert not done.stdout
    assert not (tmp_path / "tuned").exists()


def test_shapes_are_for_onnx(cli: Run) -> None:
    done = cli("tune", "gemm:8x8x8", "--shape", "A=8x8", "--trials", 1)
    assert done.returncode == 2
    assert "a workload name has fixed shapes" in done.stderr
