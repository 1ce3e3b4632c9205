"""`run` on a compiled model with names and values that are not the usual ones."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

Run = Callable[..., "subprocess.CompletedProcess[str]"]

INPUT, OUTPUT = "in put=ü:0", "file"


@pytest.fixture(scope="module")
def artifact(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The square root of an input with a curious name, into an output named as a parameter of numpy.savez."""
    import onnx
    from onnx import TensorProto, helper

    folder = tmp_path_factory.mktemp("curious")
    graph = helper.make_graph(
        [helper.make_node("Sqrt", [INPUT], [OUTPUT])],
        "curious",
        [helper.make_tensor_value_info(INPUT, TensorProto.FLOAT, [2, 3])],
        [helper.make_tensor_value_info(OUTPUT, TensorProto.FLOAT, [2, 3])],
    )
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), folder / "m.onnx"
    )
    code = (
        "from pathlib import Path\n"
        "from prune_engine.metaschedule.apply import compile_model\n"
        "from prune_engine.metaschedule.artifact import save_artifact\n"
        "from prune_engine.metaschedule.importers import import_onnx\n"
        "from prune_engine.metaschedule.targets import resolve_target\n"
        "target = resolve_target('native', 1)\n"
        "model = import_onnx(Path('m.onnx'), target=target, shapes={}, dims={})\n"
        "compiled = compile_model(model, [], target)\n"
        "save_artifact(compiled, model, Path('out'), n_threads=1, target=target, manifest={})\n"
    )
    subprocess.run([sys.executable, "-c", code], cwd=folder, check=True, timeout=120)
    return folder / "out"


def test_curious_names_and_values(cli: Run, artifact: Path, tmp_path: Path) -> None:
    x = np.array([[0, 1, 4], [9, 16, -1]], dtype=np.float32)
    np.save(tmp_path / "x=1.npy", x)
    done = cli("run", artifact, "--input", f"{INPUT}=x=1.npy", "--output", "y.npz", "--json", "--repeat", 1)
    assert done.returncode == 0, done.stderr
    with np.errstate(invalid="ignore"):
        np.testing.assert_allclose(np.load(tmp_path / "y.npz")[OUTPUT], np.sqrt(x), rtol=1e-6)

    def refuse(word: str) -> None:
        raise AssertionError(f"{word} is not JSON")

    assert json.loads(done.stdout, parse_constant=refuse)["outputs"][OUTPUT]["mean"] is None


def test_archive_instead_of_an_array(cli: Run, artifact: Path, tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", x=np.zeros((2, 3), dtype=np.float32))
    done = cli("run", artifact, "--input", f"{INPUT}=x.npz")
    assert done.returncode == 2
    assert "got an .npz archive" in done.stderr
