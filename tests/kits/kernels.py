"""Kernels of the kinds that design spaces differ by."""

from __future__ import annotations

import hashlib
from typing import Any

from prune_engine.metaschedule._compat import import_tvm
from prune_engine.task import TuningTask

NAMES = ("gemm", "conv_bias_relu", "softmax", "depthwise")


def task_of(name: str, target: str) -> TuningTask:
    """The kernel as a tuning task."""
    tvm = import_tvm()
    from tvm import te

    args = _tensors(name)
    mod = tvm.IRModule({"main": te.create_prim_func(args)})
    return TuningTask(
        task_id=hashlib.blake2b(f"{name}|{target}".encode(), digest_size=8).hexdigest(),
        name=name,
        target=target,
        weight=1,
        flop_count=1_000_000,
        arg_shapes=tuple(tuple(int(d) for d in a.shape) for a in args),
        arg_dtypes=("float32",) * len(args),
        mod=mod,
    )


def _tensors(name: str) -> list[Any]:
    from tvm import te, topi

    if name == "gemm":
        a, b = te.placeholder((96, 64), name="a"), te.placeholder((64, 80), name="b")
        k = te.reduce_axis((0, 64), name="k")
        return [a, b, te.compute((96, 80), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="c")]
    if name == "conv_bias_relu":
        x = te.placeholder((1, 16, 14, 14), name="x")
        w, b = te.placeholder((32, 16, 3, 3), name="w"), te.placeholder((1, 32, 1, 1), name="b")
        return [x, w, b, topi.nn.relu(topi.add(topi.nn.conv2d_nchw(x, w, 1, 1, 1), b))]
    if name == "softmax":
        s = te.placeholder((4, 32, 32), name="s")
        return [s, topi.nn.softmax(s)]
    x, w = te.placeholder((1, 16, 14, 14), name="x"), te.placeholder((16, 1, 3, 3), name="w")
    return [x, w, topi.nn.depthwise_conv2d_nchw(x, w, 1, 1, 1)]
