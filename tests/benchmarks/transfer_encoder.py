"""A transformer with BERT-base's layers, made from a smaller one of the same architecture."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import numpy_helper

#: What becomes of the smaller one's sizes: hidden, feed-forward, and (in shapes only) per head.
_SIZES, _PER_HEAD = {384: 768, 1536: 3072}, {32: 64}


def bert_base(small: Path, path: Path) -> Path:
    """Write the encoder with layers twice as wide, unless it is there; its weights repeat the smaller one's."""
    if path.exists():
        return path
    model = onnx.load(small)
    for tensor in model.graph.initializer:
        array = numpy_helper.to_array(tensor)
        wider = np.tile(array, [_SIZES.get(size, size) // size for size in array.shape])
        tensor.CopyFrom(numpy_helper.from_array(wider, tensor.name))
    for node in model.graph.node:
        if node.op_type == "Constant":
            value = node.attribute[0].t
            value.CopyFrom(numpy_helper.from_array(_wider(numpy_helper.to_array(value)), value.name))
    for output in model.graph.output:
        output.type.tensor_type.ClearField("shape")
    path.parent.mkdir(parents=True, exist_ok=True)
    staged = path.with_suffix(".staged")
    onnx.save(model, staged)
    staged.replace(path)
    return path


def _wider(constant: NDArray[Any]) -> NDArray[Any]:
    """Parts of shapes, and the root of a head's size that attention divides by."""
    if constant.dtype == np.int64:
        sizes = {**_SIZES, **_PER_HEAD}
        return np.array([sizes.get(int(size), int(size)) for size in constant.flat], np.int64).reshape(
            constant.shape
        )
    (old, new), *_ = _PER_HEAD.items()
    return np.where(np.isclose(constant, np.sqrt(old)), np.sqrt(new), constant).astype(constant.dtype)
