"""Seconds of one GPU kernel by cause, and what is left of the peaks, from columns of `gpu_nest`.

The busiest core sets the pace: its blocks, one round after the other. Within a round warps hide each other's
waiting as far as there are enough of them; what a single warp waits for is a cause of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from prune_engine_draft.gpu_device import GpuDevice
from prune_engine_draft.gpu_memory import GlobalWork, SharedWork, global_work, shared_work
from prune_engine_draft.gpu_occupancy import Occupancy, occupancy
from prune_engine_draft.tensor_core import MatrixWork, matrix_work

Float64Array = NDArray[np.float64]
Columns = Mapping[str, Float64Array]

#: Causes that run side by side; `latency` and `launch` come on top.
OVERLAPPING: Final = ("compute", "issue", "shared", "l1", "l2", "dram", "matrix", "chain")
TERMS: Final = (*OVERLAPPING, "latency", "launch")
PENALTIES: Final = ("lanes", "wave", "busy", "reuse", "registers", "banks", "coalescing", "alignment")

#: Instructions that a core issues per cycle: one for each of its four schedulers (all CUDA devices since Maxwell).
_ISSUES_PER_CYCLE: Final = 4
#: Cycles of a warp, per instruction or wait, that its own other instructions do not hide: arithmetic, a load from
#: shared memory (30 with about four in flight), a value in local memory, a copy from global to shared memory (700
#: with up to 32 in flight).
_FMA_CYCLES, _SHARED_CYCLES, _LOCAL_CYCLES, _COPY_CYCLES = 1.0, 8.0, 6.0, 30.0
#: Cycles that a padded copy adds: its value is awaited to be chosen, before the next is asked for, unless the loop
#: is unrolled; and how many are then in flight together.
_PADDED_CYCLES, _PADDED_UNROLLED_STEPS, _IN_FLIGHT = 150.0, 64, 4
#: Instructions of index arithmetic and masks per copy; accesses to a result that lies in memory, per use.
_COPY_INSTRUCTIONS, _LOCAL_ACCESSES = 16.0, 2.0
#: Cycles until staged operands have come from memory and all threads have met; what is left of it where the next
#: ones are asked for before.
_STAGE_CYCLES, _PIPELINED_SHARE = 800.0, 0.75
#: Cycles of a lane for a function call (exponential: 16 lanes compute one per cycle).
_CALL_CYCLES: Final = 16.0
#: Causes overlap, but not fully: their sum of cubes. A profile that combines by `sum` adds them up.
_OVERLAP_POWER: Final = {"max": 3.0, "pipe": 3.0, "sum": 1.0}


@dataclass(frozen=True, slots=True)
class KernelCost:
    """Seconds, float64 (n,), in all and by cause, and penalties in (0, 1]."""

    secs: Float64Array
    terms: dict[str, Float64Array]
    penalties: dict[str, Float64Array]


def kernel_cost(c: Columns, device: GpuDevice, combine: str, *, is_pipelined: bool) -> KernelCost:
    """What a kernel costs. ``c`` holds the columns of `gpu_nest.kernel_formulas`, float64 (n,) each."""
    runs = occupancy(c, device)
    shared, moved = shared_work(c, runs.warps, device), global_work(c, device)
    matrix = matrix_work(c, runs.warps, device)
    terms = _cycles(c, device, runs, shared, moved, matrix)
    terms["chain"] = _chain(c, runs, shared, moved, matrix) * runs.rounds
    stages = np.maximum(c["steps"], 1) * runs.rounds
    terms["latency"] = stages * _STAGE_CYCLES * (_PIPELINED_SHARE if is_pipelined else 1.0)
    terms = {name: cycles / device.clock_hz for name, cycles in terms.items()}
    terms["l2"] = moved.moved_bytes / device.l2_bytes_per_sec
    terms["dram"] = _dram_bytes(c, moved, device) / device.dram_bytes_per_sec
    terms["launch"] = c["is_launched"] * device.launch_secs
    power = _OVERLAP_POWER[combine]
    secs = _together([terms[name] for name in OVERLAPPING], power) + terms["latency"] + terms["launch"]
    return KernelCost(secs, terms, _penalties(c, runs, shared, moved, matrix))


def _cycles(
    c: Columns, device: GpuDevice, runs: Occupancy, shared: SharedWork, moved: GlobalWork, matrix: MatrixWork
) -> dict[str, Float64Array]:
    """Cycles of the busiest core by the unit that is in demand."""
    full_warps = runs.warps * device.warp / c["threads"] / c["blocks"]
    arithmetic = np.maximum(c["flops"] / 2, c["instances"]) * full_warps / device.fma_per_cycle
    calls = c["calls"] / c["blocks"] * _CALL_CYCLES / device.fma_per_cycle
    local = (runs.in_memory + runs.spilled) * _LOCAL_ACCESSES * c["serial"] * runs.warps
    issued = arithmetic * device.fma_per_cycle / device.warp + shared.instructions + local
    issued = issued + _COPY_INSTRUCTIONS * moved.instructions
    busy = runs.blocks / runs.busy
    return {
        "compute": (arithmetic + calls) * busy,
        "issue": issued / _ISSUES_PER_CYCLE * busy,
        "shared": (shared.passes + matrix.shared_passes) * busy,
        "l1": (moved.lines + local) * busy,
        "matrix": matrix.product_cycles * busy,
    }


def _chain(c: Columns, runs: Occupancy, shared: SharedWork, moved: GlobalWork, matrix: MatrixWork) -> Float64Array:
    """Cycles of one warp from a block's start to its end, were it alone."""
    own = c["serial"] * (c["matrix_flops"] == 0)
    padded = _PADDED_CYCLES / np.where(c["limit"] >= _PADDED_UNROLLED_STEPS, _IN_FLIGHT, 1)
    per_warp = shared.instructions * _SHARED_CYCLES + moved.instructions * _COPY_CYCLES + moved.padded * padded
    chain: Float64Array = (
        own * (_FMA_CYCLES + runs.in_memory * _LOCAL_CYCLES) + per_warp / runs.warps + matrix.waiting_cycles
    )
    return chain


def _dram_bytes(c: Columns, moved: GlobalWork, device: GpuDevice) -> Float64Array:
    """Each tensor once; of what is read again, the part that the second-level cache cannot hold."""
    tensors = c["tensor_bytes"]
    again = np.maximum(moved.moved_bytes - tensors, 0)
    missed = np.clip(1 - device.l2_capacity_bytes / np.maximum(tensors, 1), 0, 1)
    found: Float64Array = tensors + again * missed
    return found


def _together(causes: list[Float64Array], power: float) -> Float64Array:
    largest = np.max(causes, axis=0)
    scaled = np.sum([(cause / np.maximum(largest, 1e-300)) ** power for cause in causes], axis=0)
    combined: Float64Array = largest * scaled ** (1 / power)
    return combined


def _penalties(
    c: Columns, runs: Occupancy, shared: SharedWork, moved: GlobalWork, matrix: MatrixWork
) -> dict[str, Float64Array]:
    """What is left of the peak rates by cause, each in (0, 1]."""
    work = np.maximum(c["serial"] * runs.warps, 1)
    return {
        "lanes": runs.lanes,
        "wave": runs.wave,
        "busy": runs.busy,
        # Bounded as in Pruner's code: half of the peak without any reuse.
        "reuse": 1 / (1 + shared.instructions / (work + shared.instructions)),
        "registers": 1 / (1 + (runs.in_memory + runs.spilled) * _LOCAL_ACCESSES),
        "banks": shared.conflict,
        "coalescing": np.clip(moved.used_bytes / np.maximum(moved.moved_bytes, 1), 1e-9, 1),
        "alignment": matrix.alignment,
    }
