"""A model of one matrix product, as a file and in memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest


@pytest.fixture(scope="session")
def proto() -> Any:
    """An onnx.ModelProto with one tunable kernel: y = x w, 64 by 64."""
    from onnx import TensorProto, helper, numpy_helper

    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        "a small/model",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [64, 64])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [64, 64])],
        [numpy_helper.from_array(np.eye(64, dtype=np.float32), "w")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


@pytest.fixture
def model(proto: Any, tmp_path: Path) -> Path:
    """model.onnx in a folder of its own."""
    import onnx

    onnx.save(proto, tmp_path / "model.onnx")
    return tmp_path / "model.onnx"
