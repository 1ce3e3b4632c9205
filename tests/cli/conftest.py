"""A tiny model and a way to run the command line as a user does, in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from kits.schemas import check_printed

Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two dense layers with a symbolic batch: two tunable kernels of different shapes."""
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    rng = np.random.default_rng(0)
    weights = {
        "w1": rng.standard_normal((96, 128), dtype=np.float32) / 10,
        "w2": rng.standard_normal((128, 64), dtype=np.float32) / 10,
    }
    graph = helper.make_graph(
        [
            helper.make_node("MatMul", ["x", "w1"], ["h"], "dense1"),
            helper.make_node("Relu", ["h"], ["r"], "relu1"),
            helper.make_node("MatMul", ["r", "w2"], ["y"], "dense2"),
        ],
        "tiny",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 96])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 64])],
        [numpy_helper.from_array(value, name) for name, value in weights.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    path = tmp_path_factory.mktemp("models") / "tiny.onnx"
    onnx.save(model, path)
    return path


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """The environment of a user whose home is empty."""
    return {
        **os.environ,
        "XDG_DATA_HOME": str(tmp_path / "data"),
        "XDG_CONFIG_HOME": str(tmp_path / "config"),
        "COLUMNS": "120",
    }


@pytest.fixture
def cli(tmp_path: Path, environment: dict[str, str]) -> Run:
    """Run `prune-engine` with the given arguments in an empty folder."""

    def run(*arguments: object, timeout: float = 240) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [sys.executable, "-m", "prune_engine.cli", *map(str, arguments)],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
        check_printed(arguments, done.returncode, done.stdout, done.stderr)
        return done

    return run


Inside = Callable[..., "tuple[int, str, str]"]


@pytest.fixture
def inside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Inside:
    """Run `prune-engine` in this process, which has TVM already: (exit code, stdout, stderr)."""
    from prune_engine.cli import main

    monkeypatch.chdir(tmp_path)
    for name in ("DATA", "CONFIG", "CACHE"):
        monkeypatch.setenv(f"XDG_{name}_HOME", str(tmp_path / name.lower()))

    def run(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["prune-engine", *map(str, arguments)])
        with pytest.raises(SystemExit) as done:
            main()
        out, err = capsys.readouterr()
        check_printed(arguments, int(done.value.code or 0), out, err)
        return int(done.value.code or 0), out, err

    return run
