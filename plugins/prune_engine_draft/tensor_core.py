"""What matrix units add to a GPU kernel: fragments in registers, loads of them from shared memory, products."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from prune_engine_draft.gpu_device import BANK_BYTES, GpuDevice

Float64Array = NDArray[np.float64]
Columns = Mapping[str, Float64Array]

#: Registers per value of a fragment beyond its size: both halves of a warp hold operands (PTX ISA, wmma.load).
_HELD_TWICE: Final = 1.5
#: Share of the peak that the instruction of one warp reaches; the peak needs instructions of four.
_WARP_SHARE: Final = 0.6
#: Cycles of a warp per product, and per load of a fragment, that other products do not hide.
_PRODUCT_CYCLES, _LOAD_CYCLES = 16.0, 30.0
#: Bytes of a fragment of 16 x 16 values of 16 bits; passes over the banks beyond the fewest, by recorded kernels.
_FRAGMENT_BYTES, _CONFLICTS = 512.0, 1.5


@dataclass(frozen=True, slots=True)
class MatrixWork:
    """Per block, all float64 (n,): cycles of the matrix units, passes over shared memory, cycles that one warp
    waits. ``alignment``: share of the products that is not padding, (0, 1].
    """

    product_cycles: Float64Array
    shared_passes: Float64Array
    waiting_cycles: Float64Array
    alignment: Float64Array


def fragment_registers(c: Columns, device: GpuDevice) -> Float64Array:
    """Registers per thread that hold fragments, float64 (n,); 0 without matrix instructions."""
    registers: Float64Array = c["fragment_bytes"] / (BANK_BYTES * device.warp) * _HELD_TWICE
    return registers


def matrix_work(c: Columns, warps: Float64Array, device: GpuDevice) -> MatrixWork:
    """The work of matrix instructions, all 0 without any."""
    blocks = c["blocks"]
    multiply_adds = c["matrix_flops"] / 2 / blocks
    rate = device.matrix_fma_per_cycle or device.fma_per_cycle
    loaded = c["fragment_bytes_loaded"] / blocks
    has_products = c["matrix_flops"] > 0
    waiting = c["serial"] * _PRODUCT_CYCLES + loaded / _FRAGMENT_BYTES / warps * _LOAD_CYCLES
    useful = c["useful_flops"] / np.maximum(c["matrix_flops"], 1)
    return MatrixWork(
        product_cycles=multiply_adds / (rate * _WARP_SHARE),
        shared_passes=loaded / (BANK_BYTES * device.warp) * _CONFLICTS,
        waiting_cycles=np.where(has_products, waiting, 0.0),
        alignment=np.where(has_products, np.clip(useful, np.finfo(np.float64).tiny, 1), 1.0),
    )
