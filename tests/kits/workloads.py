"""The 24 workloads on which the design space must be read exactly."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from prune_engine.metaschedule._compat import import_tvm

#: One target of each kind that the workloads are meant for. "vnni" is a processor with 8-bit dot products.
TARGETS = {
    "llvm": "llvm -mcpu=skylake-avx512 -num-cores=4",
    "vnni": "llvm -mcpu=cascadelake -num-cores=4",
    "cuda": "nvidia/nvidia-a100",
}

_ALL = ("llvm", "cuda")


@dataclass(frozen=True)
class Workload:
    """``text`` is the workload as users write it, ``kinds`` the keys of TARGETS it is for."""

    text: str
    kinds: tuple[str, ...]
    make: Callable[[], list[Any]]


def workload_mod(name: str) -> Any:
    """The workload's IRModule, its kernel under "main"."""
    tvm = import_tvm()
    from tvm import te

    return tvm.IRModule({"main": te.create_prim_func(WORKLOADS[name].make())})


def _gemm(m: int, n: int, k: int, *epilogue: str, dtype: str = "float32", out: str = "float32") -> list[Any]:
    from tvm import te, topi

    a, b = te.placeholder((m, k), dtype, name="A"), te.placeholder((k, n), dtype, name="B")
    r = te.reduce_axis((0, k), name="k")
    c = te.compute((m, n), lambda i, j: te.sum(a[i, r].astype(out) * b[r, j].astype(out), axis=r), name="matmul")
    args = [a, b]
    if "bias" in epilogue:
        bias = te.placeholder((n,), out, name="bias")
        args.append(bias)
        c = topi.add(c, bias)
    if "relu" in epilogue:
        c = topi.nn.relu(c)
    if "gelu" in epilogue:
        half = te.compute((m, n), lambda *i: c(*i) * 0.70710678, name="scaled")
        erf = topi.erf(half)
        c = te.compute((m, n), lambda *i: c(*i) * (erf(*i) * 0.5 + 0.5), name="gelu")
    return [*args, c]


def _gemm_packed(m: int, n: int, k: int) -> list[Any]:
    from tvm import te

    a, b = te.placeholder((m, k), "uint8", name="A"), te.placeholder((n // 16, k // 4, 16, 4), "int8", name="B")
    r = te.reduce_axis((0, k), name="k")
    c = te.compute(
        (m, n),
        lambda i, j: te.sum(a[i, r].astype("int32") * b[j // 16, r // 4, j % 16, r % 4].astype("int32"), axis=r),
        name="matmul",
    )
    return [a, b, c]


def _bmm(b: int, m: int, n: int, k: int) -> list[Any]:
    from tvm import te

    x, y = te.placeholder((b, m, k), name="A"), te.placeholder((b, k, n), name="B")
    r = te.reduce_axis((0, k), name="k")
    return [x, y, te.compute((b, m, n), lambda h, i, j: te.sum(x[h, i, r] * y[h, r, j], axis=r), name="matmul")]


def _conv2d(
    x: tuple[int, ...], w: tuple[int, ...], s: int = 1, p: int = 0, d: int = 1, g: int = 1, bias_relu: bool = False
) -> list[Any]:
    from tvm import te, topi

    data, weight = te.placeholder(x, name="X"), te.placeholder((w[0], x[1] // g, *w[1:]), name="W")
    if g == 1:
        out = topi.nn.conv2d_nchw(data, weight, s, p, d)
    elif g == x[1]:
        out = topi.nn.depthwise_conv2d_nchw(data, weight, s, p, d)
    else:
        out = topi.nn.group_conv2d_nchw(data, weight, s, p, d, g)
    if not bias_relu:
        return [data, weight, out]
    bias = te.placeholder((1, w[0], 1, 1), name="bias")
    return [data, weight, bias, topi.nn.relu(topi.add(out, bias))]


def _conv2d_transpose(x: tuple[int, ...], w: tuple[int, ...], s: int, p: int) -> list[Any]:
    from tvm import te, topi

    data, weight = te.placeholder(x, name="X"), te.placeholder((x[1], *w), name="W")
    return [data, weight, topi.nn.conv2d_transpose_nchw(data, weight, (s, s), p, "float32", (0, 0))]


def _conv3d(x: tuple[int, ...], w: tuple[int, ...], s: int, p: int) -> list[Any]:
    from tvm import te, topi

    data, weight = te.placeholder(x, name="X"), te.placeholder((w[0], x[1], *w[1:]), name="W")
    return [data, weight, topi.nn.conv3d_ncdhw(data, weight, s, p, 1, 1)]


def _unary(shape: tuple[int, ...], make: Callable[[Any, Any], Any]) -> list[Any]:
    from tvm import te, topi

    x = te.placeholder(shape, name="X")
    return [x, make(topi, x)]


def _layer_norm(rows: int, columns: int) -> list[Any]:
    from tvm import te, topi

    x = te.placeholder((rows, columns), name="X")
    gamma, beta = te.placeholder((columns,), name="gamma"), te.placeholder((columns,), name="beta")
    return [x, gamma, beta, topi.nn.layer_norm(x, gamma, beta, [1], 1e-5)]


def _chain(rows: int, columns: int) -> list[Any]:
    from tvm import te, topi

    x, y = te.placeholder((rows, columns), name="X"), te.placeholder((rows, columns), name="Y")
    return [x, y, topi.nn.relu(topi.multiply(topi.tanh(topi.add(x, y)), y))]


WORKLOADS: dict[str, Workload] = {
    "gemm_square": Workload("gemm:512x512x512", _ALL, lambda: _gemm(512, 512, 512)),
    "gemm_skinny": Workload("gemm:128x3072x768", _ALL, lambda: _gemm(128, 3072, 768)),
    "gemm_prime": Workload("gemm:127x197x131", _ALL, lambda: _gemm(127, 197, 131)),
    "bmm": Workload("bmm:12x128x128x64", _ALL, lambda: _bmm(12, 128, 128, 64)),
    "gemm_bias_relu": Workload("gemm:128x3072x768+bias+relu", _ALL, lambda: _gemm(128, 3072, 768, "bias", "relu")),
    "gemm_bias_gelu": Workload("gemm:128x3072x768+bias+gelu", _ALL, lambda: _gemm(128, 3072, 768, "bias", "gelu")),
    "conv1x1": Workload("conv2d:1x256x56x56,64x1x1", _ALL, lambda: _conv2d((1, 256, 56, 56), (64, 1, 1))),
    "conv3x3": Workload("conv2d:1x64x56x56,64x3x3,p1", _ALL, lambda: _conv2d((1, 64, 56, 56), (64, 3, 3), p=1)),
    "conv3x3_deep": Workload(
        "conv2d:1x512x7x7,512x3x3,p1", _ALL, lambda: _conv2d((1, 512, 7, 7), (512, 3, 3), p=1)
    ),
    "conv_strided": Workload(
        "conv2d:1x128x56x56,128x3x3,s2,p1", _ALL, lambda: _conv2d((1, 128, 56, 56), (128, 3, 3), s=2, p=1)
    ),
    "conv_dilated": Workload(
        "conv2d:1x64x28x28,64x3x3,p2,d2", _ALL, lambda: _conv2d((1, 64, 28, 28), (64, 3, 3), p=2, d=2)
    ),
    "conv_grouped": Workload(
        "conv2d:1x128x28x28,128x3x3,p1,g4", _ALL, lambda: _conv2d((1, 128, 28, 28), (128, 3, 3), p=1, g=4)
    ),
    "conv_depthwise": Workload(
        "conv2d:1x96x56x56,96x3x3,p1,g96", _ALL, lambda: _conv2d((1, 96, 56, 56), (96, 3, 3), p=1, g=96)
    ),
    "conv_transposed": Workload(
        "conv2d_transpose:1x128x14x14,64x4x4,s2,p1",
        _ALL,
        lambda: _conv2d_transpose((1, 128, 14, 14), (64, 4, 4), 2, 1),
    ),
    "conv_bias_relu": Workload(
        "conv2d:1x64x56x56,64x3x3,p1+bias+relu",
        _ALL,
        lambda: _conv2d((1, 64, 56, 56), (64, 3, 3), p=1, bias_relu=True),
    ),
    "conv3d": Workload(
        "conv3d:1x16x8x28x28,32x3x3x3,p1", _ALL, lambda: _conv3d((1, 16, 8, 28, 28), (32, 3, 3, 3), 1, 1)
    ),
    "max_pool": Workload(
        "max_pool2d:1x64x112x112,3x3,s2,p1",
        _ALL,
        lambda: _unary(
            (1, 64, 112, 112), lambda topi, x: topi.nn.pool2d(x, [3, 3], [2, 2], [1, 1], [1, 1, 1, 1], "max")
        ),
    ),
    "softmax": Workload("softmax:12x128x128", _ALL, lambda: _unary((12, 128, 128), lambda t, x: t.nn.softmax(x))),
    "layer_norm": Workload("layer_norm:128x768", _ALL, lambda: _layer_norm(128, 768)),
    "reduce_sum": Workload(
        "reduce_sum:1024x1024,axis1", _ALL, lambda: _unary((1024, 1024), lambda topi, x: topi.sum(x, 1))
    ),
    "elementwise": Workload("elementwise:1024x1024+add+tanh+mul+relu", _ALL, lambda: _chain(1024, 1024)),
    "gemm_int8": Workload("gemm:128x768x768:i8:packed", ("vnni",), lambda: _gemm_packed(128, 768, 768)),
    "gemm_fp16": Workload(
        "gemm:512x512x512:f16", _ALL, lambda: _gemm(512, 512, 512, dtype="float16", out="float32")
    ),
    "global_avg_pool": Workload(
        "global_avg_pool:1x512x7x7",
        _ALL,
        lambda: _unary((1, 512, 7, 7), lambda topi, x: topi.nn.adaptive_pool(x, (1, 1), "avg")),
    ),
}
