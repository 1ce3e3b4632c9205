"""The kernels of workloads: those of imported models where both exist, else checked against numpy."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from onnx import helper

from prune_engine.metaschedule.importers import import_onnx
from prune_engine.metaschedule.model_inputs import random_inputs
from prune_engine.metaschedule.workloads.kernels import workload_kernel
from prune_engine.metaschedule.workloads.loading import load_tasks
from prune_engine.metaschedule.workloads.names import parse_workload
from prune_engine.metaschedule.workloads.operators import OPERATORS
from prune_engine.metaschedule.workloads.steps import STEPS

Array = NDArray[Any]


def node(kind: str, inputs: str, output: str = "y", **attributes: Any) -> Any:
    return helper.make_node(kind, list(inputs), [output], **attributes)


#: workload -> (nodes, inputs, output) of an ONNX model that holds the same kernel and no other.
SAME_IN_ONNX: dict[str, tuple[list[Any], dict[str, list[int]], list[int]]] = {
    "gemm:96x80x64": ([node("MatMul", "ab")], {"a": [96, 64], "b": [64, 80]}, [96, 80]),
    "gemm:96x80x64+bias+relu": (
        [node("MatMul", "ab", "m"), node("Add", "mc", "n"), node("Relu", "n")],
        {"a": [96, 64], "b": [64, 80], "c": [80]},
        [96, 80],
    ),
    "bmm:4x96x80x64": ([node("MatMul", "ab")], {"a": [4, 96, 64], "b": [4, 64, 80]}, [4, 96, 80]),
    "conv1d:1x16x14,32x3,p1": (
        [node("Conv", "xw", pads=[1, 1])],
        {"x": [1, 16, 14], "w": [32, 16, 3]},
        [1, 32, 14],
    ),
    "conv2d:1x16x14x14,32x3x2,s2x1,p1x0,d1x2": (
        [node("Conv", "xw", pads=[1, 0, 1, 0], strides=[2, 1], dilations=[1, 2])],
        {"x": [1, 16, 14, 14], "w": [32, 16, 3, 2]},
        [1, 32, 7, 12],
    ),
    "conv2d:1x16x14x14,32x3x3,p1+bias+relu": (
        [node("Conv", "xwb", "c", pads=[1] * 4), node("Relu", "c")],
        {"x": [1, 16, 14, 14], "w": [32, 16, 3, 3], "b": [32]},
        [1, 32, 14, 14],
    ),
    "conv2d:1x16x14x14,16x3x3,p1,g16": (
        [node("Conv", "xw", pads=[1] * 4, group=16)],
        {"x": [1, 16, 14, 14], "w": [16, 1, 3, 3]},
        [1, 16, 14, 14],
    ),
    "conv3d:1x4x4x6x6,8x3x3x3,p1": (
        [node("Conv", "xw", pads=[1] * 6)],
        {"x": [1, 4, 4, 6, 6], "w": [8, 4, 3, 3, 3]},
        [1, 8, 4, 6, 6],
    ),
    "conv2d_transpose:1x16x14x14,8x4x4,s2,p1,op1,g2": (
        [node("ConvTranspose", "xw", pads=[1] * 4, strides=[2, 2], output_padding=[1, 1], group=2)],
        {"x": [1, 16, 14, 14], "w": [16, 4, 4, 4]},
        [1, 8, 29, 29],
    ),
    "max_pool2d:1x16x14x14,3x3,s2,p1": (
        [node("MaxPool", "x", kernel_shape=[3, 3], pads=[1] * 4, strides=[2, 2])],
        {"x": [1, 16, 14, 14]},
        [1, 16, 7, 7],
    ),
    "avg_pool2d:1x16x14x14,3x3,s2,p1": (
        [node("AveragePool", "x", kernel_shape=[3, 3], pads=[1] * 4, strides=[2, 2])],
        {"x": [1, 16, 14, 14]},
        [1, 16, 7, 7],
    ),
    "softmax:12x32x32": ([node("Softmax", "x")], {"x": [12, 32, 32]}, [12, 32, 32]),
    "elementwise:64x64+add+tanh+mul+relu": (
        [node("Add", "xu", "a"), node("Tanh", "a", "b"), node("Mul", "bv", "c"), node("Relu", "c")],
        {"x": [64, 64], "u": [64, 64], "v": [64, 64]},
        [64, 64],
    ),
}


@pytest.mark.parametrize("text", SAME_IN_ONNX)
def test_is_the_kernel_of_an_imported_model(text: str, save_onnx: Callable[..., Any], target: str) -> None:
    nodes, inputs, output = SAME_IN_ONNX[text]
    path = save_onnx(nodes, inputs, {"y": output})
    (imported,) = import_onnx(path, target=target, shapes={}, dims={}).tasks
    (made,) = load_tasks(text, target)
    assert made.task_id == imported.task_id
    assert (made.arg_shapes, made.arg_dtypes, made.flop_count) == (
        imported.arg_shapes,
        imported.arg_dtypes,
        imported.flop_count,
    )
    assert made.name == text


def run(tvm: Any, text: str) -> tuple[list[Array], Array]:
    """Random inputs of a workload, and what its kernel makes of them."""
    workload = parse_workload(text)
    kernel: Any = workload_kernel(workload)
    library = tvm.tirx.build(tvm.IRModule({"main": kernel.with_attr("global_symbol", "main")}), target="llvm")
    inputs = list(random_inputs((*workload.inputs, *workload.operands), seed=1).values())
    output = tvm.runtime.empty(workload.output.shape, workload.output.dtype, tvm.cpu())
    library["main"](*(tvm.runtime.tensor(x, tvm.cpu()) for x in inputs), output)
    return inputs, output.numpy()


def unpacked(b: Array) -> Array:
    n, k, columns, depth = b.shape
    out: Array = b.transpose(1, 3, 0, 2).reshape(k * depth, n * columns)
    return out


def normalised(x: Array, axes: tuple[int, ...]) -> Array:
    out: Array = np.asarray((x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + 1e-5))
    return out


def wide(*arrays: Array) -> list[Array]:
    return [a.astype(np.int32 if a.dtype.kind in "iu" else np.float64) for a in arrays]


NUMPY: dict[str, Callable[..., Any]] = {
    "gemm:5x7x9:nt": lambda a, b: a @ b.T,
    "gemm:5x7x9:i8+bias+relu": lambda a, b, c: np.maximum(a @ b + c, 0),
    "gemm:5x32x8:u8:packed": lambda a, b: a @ unpacked(b),
    "gemm:5x7x9:f64": lambda a, b: a @ b,
    "gemm:5x7x9:f16-f32": lambda a, b: a @ b,
    "bmm:3x5x7x9:nt": lambda a, b: a @ b.transpose(0, 2, 1),
    "conv2d:1x2x5x5,3x1x1:i8": lambda x, w: np.einsum("nchw,oc->nohw", x, w[:, :, 0, 0]),
    "log_softmax:4x6": lambda x: x - np.log(np.exp(x).sum(-1, keepdims=True)),
    "softmax:4x6,axis0": lambda x: np.exp(x) / np.exp(x).sum(0, keepdims=True),
    "layer_norm:4x6": lambda x, g, b: normalised(x, (1,)) * g + b,
    "layer_norm:4x6x5,axis1": lambda x, g, b: normalised(x, (1, 2)) * g + b,
    "rms_norm:4x6": lambda x, g: x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-5) * g,
    "reduce_sum:4x6x5,axis1": lambda x: x.sum(1, keepdims=True),
    "reduce_mean:4x6": lambda x: x.mean(-1, keepdims=True),
    "reduce_max:4x6": lambda x: x.max(-1, keepdims=True),
    "reduce_min:6": lambda x: x.min(-1, keepdims=True),
    "argmax:4x6": lambda x: x.argmax(-1, keepdims=True),
    "argmin:4x6,axis0": lambda x: x.argmin(0, keepdims=True),
    "global_max_pool:1x3x5x5+bias": lambda x, b: x.max((2, 3), keepdims=True) + b,
    "global_avg_pool:1x3x5": lambda x: x.mean(2, keepdims=True),
    "max_pool1d:1x2x6,2,s2": lambda x: x.reshape(1, 2, 3, 2).max(-1),
}


@pytest.mark.parametrize("text", NUMPY)
def test_computes(tvm: Any, text: str) -> None:
    inputs, output = run(tvm, text)
    expected = np.asarray(NUMPY[text](*wide(*inputs)))
    assert output.shape == expected.shape
    np.testing.assert_allclose(output, expected, rtol=2e-3, atol=1e-4)


def sigmoid(x: Array) -> Array:
    out: Array = 1 / (1 + np.exp(-x))
    return out


STEP_REFERENCES: dict[str, Callable[..., Any]] = {
    "bias": lambda x, b: x + b,
    "scale": lambda x, b: x * b,
    "add": lambda x, u: x + u,
    "sub": lambda x, u: x - u,
    "mul": lambda x, u: x * u,
    "max": lambda x, u: np.maximum(x, u),
    "min": lambda x, u: np.minimum(x, u),
    "relu": lambda x: np.maximum(x, 0),
    "abs": lambda x: np.abs(x),
    "neg": lambda x: -x,
    "leaky_relu": lambda x: np.where(x > 0, x, 0.01 * x),
    "gelu": lambda x: x * 0.5 * (1 + np.array([math.erf(v) for v in (x / math.sqrt(2)).flat]).reshape(x.shape)),
    "silu": lambda x: x * sigmoid(x),
    "sigmoid": sigmoid,
    "tanh": np.tanh,
    "exp": np.exp,
}


@pytest.mark.parametrize("dtype", ["f32", "f16"])
@pytest.mark.parametrize("step", STEPS)
def test_step_computes(tvm: Any, step: str, dtype: str) -> None:
    inputs, output = run(tvm, f"elementwise:4x6:{dtype}+{step}")
    np.testing.assert_allclose(output, STEP_REFERENCES[step](*wide(*inputs)), rtol=5e-3, atol=2e-3)


def examples() -> Sequence[str]:
    """Every operator in every type it has."""
    texts = []
    for operator in OPERATORS.values():
        head, plus, steps = operator.example.partition("+")
        texts += [f"{head}:{dtype}{plus if operator.family == 'elementwise' else ''}"
                  f"{steps if operator.family == 'elementwise' else ''}" for dtype in operator.types]  # fmt: skip
    return texts


@pytest.mark.parametrize("text", examples())
def test_kernel_has_the_tensors_that_the_name_means(tvm: Any, text: str) -> None:
    workload = parse_workload(text)
    kernel: Any = workload_kernel(workload)
    found = [(tuple(int(n) for n in p.ty.shape), str(p.ty.dtype)) for p in kernel.params]
    tensors = (*workload.inputs, *workload.operands, workload.output)
    assert found == [(t.shape, t.dtype) for t in tensors]


def test_whatever_is_asked_for_is_one_kernel(tvm: Any, target: str) -> None:
    """Fusion of its own accord would leave these apart."""
    for text in ("reduce_sum:64x64+relu", "softmax:8x8+gelu+add", "gemm:8x8x8+gelu+bias+tanh"):
        assert len(load_tasks(text, target)) == 1
