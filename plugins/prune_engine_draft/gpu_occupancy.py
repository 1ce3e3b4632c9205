"""How many warps of a GPU kernel run side by side, and where a thread's values are kept."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from prune_engine_draft.gpu_device import BANK_BYTES, GpuDevice
from prune_engine_draft.gpu_nest import COMPILER_UNROLLS
from prune_engine_draft.tensor_core import fragment_registers

Float64Array = NDArray[np.float64]
Columns = Mapping[str, Float64Array]

#: Registers for addresses, counters and operands beside a thread's results: the median that ptxas reports for
#: 1 100 recorded kernels that spill nothing.
REGISTERS_BESIDE: Final = 40
#: Shared memory that the system takes of each block (CUDA C++ programming guide, compute capability 8 and later).
_SYSTEM_SHARED_BYTES: Final = 1024
#: How often the limit of unrolling must be doubled until no compiler unrolls any more. Half of the recorded kernels
#: that need twice the limit are unrolled all the same, of those that need eight times as much one in ten.
_DOUBLINGS: Final = 3.0
#: Resident warps at which a core is half busy: each waits for its own results most of the time.
_HALF_BUSY_WARPS: Final = 2.5


@dataclass(frozen=True, slots=True)
class Occupancy:
    """Of one kernel, all float64 (n,).

    ``warps`` of a block; ``blocks`` that the busiest core runs in all and ``rounds`` in which it does; ``busy``:
    share of its issue slots that the resident warps can use, (0, 1]. ``results``: registers of a thread's results;
    ``in_memory``: share of them that lies in memory as a loop over them is not unrolled; ``spilled``: share of all
    registers that do not fit. ``lanes``: share of the warps' lanes that are threads; ``wave``: share of the cores
    that have work in the average round.
    """

    warps: Float64Array
    blocks: Float64Array
    rounds: Float64Array
    busy: Float64Array
    results: Float64Array
    in_memory: Float64Array
    spilled: Float64Array
    lanes: Float64Array
    wave: Float64Array


def occupancy(c: Columns, device: GpuDevice) -> Occupancy:
    """Work out where the blocks of a kernel run, from `gpu_nest`'s columns."""
    threads, blocks = c["threads"], c["blocks"]
    warps = np.ceil(threads / device.warp)
    results = c["local_bytes"] / BANK_BYTES + fragment_registers(c, device)
    in_memory = _in_memory(c, results, device)
    wanted = results * (in_memory == 0) + REGISTERS_BESIDE
    most = np.minimum(device.registers_per_thread, np.floor(device.registers_per_core / (warps * device.warp)))
    spilled = np.maximum(wanted - most, 0) / wanted
    # More threads than a core has registers for are not legal, but asked about all the same: a unit at least.
    units = np.maximum(np.ceil(np.minimum(wanted, most) / device.register_unit), 1)
    registers = units * device.register_unit
    resident = np.minimum(np.floor(device.threads_per_core / (warps * device.warp)), device.blocks_per_core)
    resident = np.minimum(resident, np.floor(device.registers_per_core / (registers * warps * device.warp)))
    shared = np.ceil(c["shared_bytes"] / device.shared_unit_bytes) * device.shared_unit_bytes
    fitting = np.floor(device.shared_bytes_per_core / (shared + _SYSTEM_SHARED_BYTES))
    resident = np.maximum(np.where(shared > 0, np.minimum(resident, fitting), resident), 1)
    per_core = np.ceil(blocks / device.cores)
    running = np.minimum(resident, per_core) * warps
    return Occupancy(
        warps=warps,
        blocks=per_core,
        rounds=np.ceil(per_core / resident),
        busy=running / (running + _HALF_BUSY_WARPS),
        results=results,
        in_memory=in_memory,
        spilled=spilled,
        lanes=threads / (warps * device.warp),
        wave=blocks / (per_core * device.cores),
    )


def _in_memory(c: Columns, results: Float64Array, device: GpuDevice) -> Float64Array:
    """What can only be found by a computed index has no register: the loops over it are not unrolled.

    The more copies the unrolling takes beyond the limit, TVM's or the compiler's own, the less likely it is.
    """
    beyond = c["needed"] / np.maximum(c["limit"], COMPILER_UNROLLS)
    share = np.clip(np.log2(np.maximum(beyond, 1)) / _DOUBLINGS, 0, 1)
    return np.where(results > device.registers_per_thread, 1.0, np.where(results <= 1, 0.0, share))
