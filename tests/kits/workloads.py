"""The 24 workloads on which the design space must be read exactly."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from prune_engine.metaschedule.targets import resolve_target
from prune_engine.metaschedule.workloads.loading import load_tasks
from prune_engine.task import TuningTask

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
    kinds: tuple[str, ...] = _ALL


WORKLOADS: dict[str, Workload] = {
    "gemm_square": Workload("gemm:512x512x512"),
    "gemm_skinny": Workload("gemm:128x3072x768"),
    "gemm_prime": Workload("gemm:127x197x131"),
    "bmm": Workload("bmm:12x128x128x64"),
    "gemm_bias_relu": Workload("gemm:128x3072x768+bias+relu"),
    "gemm_bias_gelu": Workload("gemm:128x3072x768+bias+gelu"),
    "conv1x1": Workload("conv2d:1x256x56x56,64x1x1"),
    "conv3x3": Workload("conv2d:1x64x56x56,64x3x3,p1"),
    "conv3x3_deep": Workload("conv2d:1x512x7x7,512x3x3,p1"),
    "conv_strided": Workload("conv2d:1x128x56x56,128x3x3,s2,p1"),
    "conv_dilated": Workload("conv2d:1x64x28x28,64x3x3,p2,d2"),
    "conv_grouped": Workload("conv2d:1x128x28x28,128x3x3,p1,g4"),
    "conv_depthwise": Workload("conv2d:1x96x56x56,96x3x3,p1,g96"),
    "conv_transposed": Workload("conv2d_transpose:1x128x14x14,64x4x4,s2,p1"),
    "conv_bias_relu": Workload("conv2d:1x64x56x56,64x3x3,p1+bias+relu"),
    "conv3d": Workload("conv3d:1x16x8x28x28,32x3x3x3,p1"),
    "max_pool": Workload("max_pool2d:1x64x112x112,3x3,s2,p1"),
    "softmax": Workload("softmax:12x128x128"),
    "layer_norm": Workload("layer_norm:128x768"),
    "reduce_sum": Workload("reduce_sum:1024x1024"),
    "elementwise": Workload("elementwise:1024x1024+add+tanh+mul+relu"),
    "gemm_int8": Workload("gemm:128x768x768:u8:packed", ("vnni",)),
    "gemm_fp16": Workload("gemm:512x512x512:f16"),
    "global_avg_pool": Workload("global_avg_pool:1x512x7x7"),
}


def workload_task(name: str, kind: str) -> TuningTask:
    """The workload as a tuning task for a target of TARGETS."""
    (task,) = load_tasks(WORKLOADS[name].text, resolve_target(TARGETS[kind], 4))
    return task


def workload_mod(name: str) -> Any:
    """The workload's IRModule, its kernel under "main"; the same for every target."""
    return workload_task(name, WORKLOADS[name].kinds[0]).mod
