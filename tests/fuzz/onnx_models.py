"""A small ONNX model, and ways to spoil it."""

from __future__ import annotations

import random
from typing import Any

#: Dimensions that no kernel has, or that overflow somewhere.
SIZES = (0, -1, 1, 7, 2**31 - 1, 2**31, 2**40, 2**62, -(2**63))


def good_model() -> Any:
    """Two convolutions, a pool, a reshape and a matrix product: 1 KB."""
    import numpy as np
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    rng = np.random.default_rng(0)

    def weight(name: str, *shape: int) -> Any:
        return numpy_helper.from_array(rng.normal(size=shape).astype(np.float32), name)

    nodes = [
        helper.make_node("Conv", ["x", "w1"], ["a"], name="conv1", pads=[1, 1, 1, 1], strides=[2, 2]),
        helper.make_node("Relu", ["a"], ["b"], name="relu"),
        helper.make_node("Conv", ["b", "w2"], ["c"], name="conv2", group=2),
        helper.make_node("MaxPool", ["c"], ["d"], name="pool", kernel_shape=[2, 2]),
        helper.make_node("Reshape", ["d", "shape"], ["e"], name="reshape"),
        helper.make_node("Transpose", ["e"], ["et"], name="transpose", perm=[0, 1]),
        helper.make_node("Concat", ["et", "et"], ["f"], name="concat", axis=1),
        helper.make_node("MatMul", ["f", "w3"], ["g"], name="matmul"),
        helper.make_node("Softmax", ["g"], ["y"], name="softmax", axis=-1),
    ]
    graph = helper.make_graph(
        nodes,
        "small",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 2, 8, 8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 3])],
        [
            weight("w1", 4, 2, 3, 3),
            weight("w2", 4, 2, 1, 1),
            weight("w3", 32, 3),
            numpy_helper.from_array(np.array([1, -1], np.int64), "shape"),
        ],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model)
    return model


def broken_model(content: bytes, draw: random.Random) -> bytes:
    """A model that can be parsed, but says what cannot be."""
    import onnx

    model = onnx.load_from_string(content)
    for _ in range(draw.choice((1, 1, 2, 3))):
        draw.choice(_BREAKS)(model.graph, draw)
    if draw.randrange(12) == 0:
        model.opset_import[0].version = draw.choice((0, -1, 6, 13, 99, 2**62))
    return model.SerializeToString()


def _shape(graph: Any, draw: random.Random) -> None:
    value = draw.choice([*graph.input, *graph.output])
    dims = value.type.tensor_type.shape.dim
    if draw.randrange(4) == 0:
        dims.add().dim_value = draw.choice(SIZES)
    elif dims:
        dims[draw.randrange(len(dims))].dim_value = draw.choice(SIZES)


def _weight_dims(graph: Any, draw: random.Random) -> None:
    tensor = draw.choice(graph.initializer)
    if tensor.dims:
        tensor.dims[draw.randrange(len(tensor.dims))] = draw.choice(SIZES)


def _weight_data(graph: Any, draw: random.Random) -> None:
    tensor = draw.choice(graph.initializer)
    kind = draw.randrange(4)
    if kind == 0:
        tensor.raw_data = tensor.raw_data[: draw.randrange(len(tensor.raw_data) + 1)]
    elif kind == 1:
        tensor.data_type = draw.choice((0, 1, 2, 7, 8, 9, 10, 16, 17, 23, 999))
    elif kind == 2:
        tensor.raw_data = bytes(draw.randrange(256) for _ in range(len(tensor.raw_data)))
    else:
        tensor.data_location = 1
        entry = tensor.external_data.add()
        entry.key, entry.value = (
            "location",
            draw.choice(("../../etc/passwd", "/etc/passwd", "good.onnx", "", "\0", ".")),
        )
        if draw.randrange(2):
            entry = tensor.external_data.add()
            entry.key, entry.value = draw.choice(("length", "offset")), draw.choice(("-1", "x", str(2**62), "16"))


def _wire(graph: Any, draw: random.Random) -> None:
    """Cycles, names that nobody gives, inputs that are missing."""
    node = draw.choice(graph.node)
    names = [name for other in graph.node for name in other.output] + ["", "nobody", "x", "w1"]
    if node.input and draw.randrange(3):
        node.input[draw.randrange(len(node.input))] = draw.choice(names)
    elif draw.randrange(2) and node.input:
        del node.input[-1]
    elif node.output:
        node.output[0] = draw.choice(names)


def _attribute(graph: Any, draw: random.Random) -> None:
    node = draw.choice([node for node in graph.node if node.attribute])
    attribute = draw.choice(node.attribute)
    if attribute.ints:
        attribute.ints[draw.randrange(len(attribute.ints))] = draw.choice(SIZES)
        if draw.randrange(3) == 0:
            attribute.ints.append(draw.choice(SIZES))
    else:
        attribute.i = draw.choice(SIZES)
    if draw.randrange(8) == 0:
        attribute.type = draw.choice((0, 1, 2, 3, 4, 5, 6, 7))


def _operator(graph: Any, draw: random.Random) -> None:
    node = draw.choice(graph.node)
    node.op_type = draw.choice(
        (
            "Add",
            "Div",
            "Gather",
            "Slice",
            "Loop",
            "If",
            "Tile",
            "Expand",
            "ConstantOfShape",
            "Resize",
            "",
            "Zzz",
            "Pad",
        )
    )


def _nodes(graph: Any, draw: random.Random) -> None:
    if draw.randrange(2):
        del graph.node[draw.randrange(len(graph.node))]
    else:
        graph.node.add().CopyFrom(draw.choice(graph.node))


_BREAKS = (_shape, _weight_dims, _weight_data, _wire, _attribute, _operator, _nodes)
