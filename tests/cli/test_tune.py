"""`tune` end to end on a tiny model, with the real compiler and real measurements."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from prune_engine_lightgbm.files import read_model

Run = Callable[..., "subprocess.CompletedProcess[str]"]

N_TRIALS = 12
#: What is shipped may be as good as anything for such kernels, and end their search at once.
COMMON = ("--dim", "batch=64", "--store", "store.sqlite3", "--no-builtin-library")


def tune(cli: Run, model: Path, out: str, *options: object) -> dict[str, Any]:
    done = cli("tune", model, *COMMON, "--out", out, "--json", *options)
    assert done.returncode == 0, done.stderr
    record: dict[str, Any] = json.loads(done.stdout)
    return record


def measured(store: Path) -> list[tuple[str, str]]:
    """(task, candidate) of every stored measurement, repeats included."""
    with sqlite3.connect(store) as connection:
        return list(connection.execute("SELECT task_id, candidate_id FROM measurements"))


def test_tune_run_and_resume(cli: Run, tiny_model: Path, tmp_path: Path) -> None:
    first = tune(cli, tiny_model, "out", "--trials", N_TRIALS)
    assert first["stop_reason"] == "trials"
    assert first["n_new_measurements"] == N_TRIALS
    for task in first["tasks"]:
        assert task["best_secs"] <= task["default_secs"]
    assert first["comparison"]["is_correct"]
    assert {"untuned", "tuned"} <= set(first["comparison"]["latencies"])
    assert first["verifier_model"] == str(Path("out") / "verifier.model")
    learnt = read_model(tmp_path / first["verifier_model"])
    assert {t["task_id"] for t in first["tasks"] if t["n_trials"]} == set(learnt.tasks)
    assert 0 < sum(len(rows) for rows in learnt.tasks.values()) <= N_TRIALS

    x = np.random.default_rng(1).standard_normal((64, 96), dtype=np.float32)
    np.save(tmp_path / "x.npy", x)
    done = cli("run", "out", "--input", "x=x.npy", "--output", "y.npz", "--json", "--repeat", 3)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["outputs"]["y"]["shape"] == [64, 64]
    import onnxruntime

    reference = onnxruntime.InferenceSession(str(tiny_model)).run(None, {"x": x})[0]
    np.testing.assert_allclose(np.load(tmp_path / "y.npz")["y"], reference, rtol=1e-3, atol=1e-3)

    again = tune(cli, tiny_model, "again", "--trials", N_TRIALS)
    assert again["n_new_measurements"] == 0
    assert [t["best_candidate_id"] for t in again["tasks"]] == [t["best_candidate_id"] for t in first["tasks"]]

    more = tune(cli, tiny_model, "more", "--trials", N_TRIALS + 6)
    assert more["n_new_measurements"] == 6
    rows = measured(tmp_path / "store.sqlite3")
    assert len(rows) == len(set(rows))

    text = cli("tune", tiny_model, *COMMON, "--trials", N_TRIALS)
    assert text.returncode == 0, text.stderr
    assert "untuned" in text.stdout
    assert "prune-engine run" in text.stdout
    assert f"--prior {Path('tuned') / 'tiny' / 'verifier.model'}\n" in text.stdout


def test_two_tuners_share_a_store(tiny_model: Path, tmp_path: Path, environment: dict[str, str]) -> None:
    """Started at once on one fresh store: both end in order, and no candidate is stored twice."""
    command = [sys.executable, "-m", "prune_engine.cli", "tune", str(tiny_model), *COMMON]
    command += ["--trials", "10", "--json"]
    tuners = [
        subprocess.Popen(
            [*command, "--out", f"out{number}", "--seed", str(number)],
            cwd=tmp_path,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for number in range(2)
    ]
    outputs = [tuner.communicate(timeout=240) for tuner in tuners]
    assert [tuner.returncode for tuner in tuners] == [0, 0], outputs
    rows = measured(tmp_path / "store.sqlite3")
    assert len(rows) == len(set(rows))
    n_stored = sum(candidate != "default" for _, candidate in rows)
    n_new = [json.loads(out)["n_new_measurements"] for out, _ in outputs]
    assert n_stored >= max(n_new) > 0


def start(model: Path, tmp_path: Path, environment: dict[str, str]) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [
            *(sys.executable, "-m", "prune_engine.cli", "tune", model, *COMMON, "--out", "out"),
            *("--seconds", "600", "--json", "--batch", "4"),
        ],
        cwd=tmp_path,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def wait_for_measurements(process: subprocess.Popen[str], store: Path, n: int) -> None:
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        assert process.poll() is None, process.communicate()[1]
        try:
            if store.exists() and len(measured(store)) >= n:
                return
        except sqlite3.OperationalError:  # being created
            pass
        time.sleep(0.1)
    pytest.fail(f"fewer than {n} measurements after 120 s")


def descendants(pid: int) -> list[int]:
    import psutil

    return [child.pid for child in psutil.Process(pid).children(recursive=True)]


def alive(pids: list[int]) -> list[int]:
    import psutil

    return [p for p in pids if psutil.pid_exists(p) and psutil.Process(p).status() != psutil.STATUS_ZOMBIE]


def wait_until_gone(pids: list[int]) -> None:
    deadline = time.monotonic() + 20
    while alive(pids):
        assert time.monotonic() < deadline, f"processes outlived the run: {alive(pids)}"
        time.sleep(0.1)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signal_ends_in_order(
    tiny_model: Path, tmp_path: Path, environment: dict[str, str], number: signal.Signals
) -> None:
    process = start(tiny_model, tmp_path, environment)
    wait_for_measurements(process, tmp_path / "store.sqlite3", 8)
    children = descendants(process.pid)
    process.send_signal(number)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    assert json.loads(out)["stop_reason"] == "interrupted"
    assert (tmp_path / "out" / "model.so").exists()
    wait_until_gone(children)


def test_kill_loses_nothing_committed(
    cli: Run, tiny_model: Path, tmp_path: Path, environment: dict[str, str]
) -> None:
    process = start(tiny_model, tmp_path, environment)
    store = tmp_path / "store.sqlite3"
    wait_for_measurements(process, store, 8)
    children = descendants(process.pid)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    wait_until_gone(children)
    before = measured(store)
    n_before = sum(candidate != "default" for _, candidate in before)
    record = tune(cli, tiny_model, "out", "--trials", n_before + 5)
    assert record["n_new_measurements"] == 5
    after = measured(store)
    assert set(before) <= set(after)
    assert len(after) == len(set(after))
