"""A folder in which a model and a kernel have been tuned, as the pages of the documentation assume."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np

#: Columns and rows of the product that the model is: the task of the kernel, which therefore is tuned but once.
MODEL_SIZE = 64


def user_folders(folder: Path) -> dict[str, str]:
    """Return variables by which the user's own folders are below this one."""
    return {f"XDG_{kind}_HOME": str(folder / "user" / kind.lower()) for kind in ("DATA", "CONFIG")}


def tuned_folder(folder: Path, *, is_full: bool = False) -> None:
    """Make a folder with `model.onnx`, tuned into `tuned/model`, `tuned/gemm` and `store.sqlite3`.

    With ``is_full`` the model has a second kernel, and it is tuned as `tune` does by itself, until a verifier has
    what it can be trained on.
    """
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    folder.mkdir(parents=True)
    size, narrow = [MODEL_SIZE, MODEL_SIZE], [MODEL_SIZE, MODEL_SIZE // 2]
    weights = [("w", size), ("v", narrow)][: 2 if is_full else 1]
    names = ["x", "h", "y"] if is_full else ["x", "y"]
    graph = helper.make_graph(
        [
            helper.make_node("MatMul", [names[number], weight], [names[number + 1]], f"dense{number + 1}")
            for number, (weight, _) in enumerate(weights)
        ],
        "model",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, size)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, weights[-1][1])],
        [numpy_helper.from_array(np.ones(shape, dtype=np.float32), weight) for weight, shape in weights],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.save(model, folder / "model.onnx")
    environment = {**os.environ, **user_folders(folder)}
    for arguments in (["model.onnx"], [f"gemm:{MODEL_SIZE}x{MODEL_SIZE}x{MODEL_SIZE}", "--out", "tuned/gemm"]):
        command = [
            sys.executable,
            "-m",
            "prune_engine.cli",
            "tune",
            *arguments,
            "--quiet",
            "--store",
            "store.sqlite3",
        ]
        command += ["--trials", "40"] if is_full else ["--trials", "4", "--no-transfer"]
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{arguments}: {done.stderr}"
