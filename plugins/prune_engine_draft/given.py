"""The draft of kernels that nobody could read, from symbols that came with their space.

On a GPU it is the same cost as of a kernel that was read, where what nobody said costs nothing. On other devices it
is a roofline: arithmetic and memory, and how evenly the cores are used.
"""

from __future__ import annotations

import re

import numpy as np

from prune_engine.candidates import CandidateBatch
from prune_engine.hardware.schema import DeviceKind, HardwareProfile
from prune_engine_draft.gpu_device import BANK_BYTES, GpuDevice
from prune_engine_draft.gpu_kernel import kernel_cost
from prune_engine_draft.gpu_nest import COMPILER_UNROLLS, N_DIGITS
from prune_engine_draft.gpu_occupancy import REGISTERS_BESIDE
from prune_engine_draft.terms import DraftTerms, Float64Array

_FLOPS, _MATRIX_FLOPS, _TRAFFIC = "flops_total", "matrix_flops", "traffic_dram_bytes"
_THREADS, _BLOCKS, _CHUNKS = "threads_per_block", "grid_blocks", "parallel_extent"
#: Multiply-adds of one matrix instruction of a warp: 16 x 16 x 16.
_FMA_PER_PRODUCT = 4096.0
#: Causes overlap as in the other forms of the draft: the sum of their cubes.
_OVERLAP_POWER = 3.0
_MIN_SECS = 1e-9


def can_draft(batch: CandidateBatch, profile: HardwareProfile) -> bool:
    """Whether what was given says enough: work or traffic, and on a GPU how it is launched."""
    has_work = any(batch.knows(name) for name in (_FLOPS, _MATRIX_FLOPS, _TRAFFIC))
    return has_work and (profile.kind is not DeviceKind.GPU or batch.knows(_THREADS, _BLOCKS))


def given_terms(batch: CandidateBatch, profile: HardwareProfile) -> DraftTerms:
    """Latency of candidates for which `can_draft` holds."""
    dtype = batch.space.task.arg_dtypes[0] if batch.space.task.arg_dtypes else "float32"
    if profile.kind is DeviceKind.GPU:
        return _on_gpu(batch, profile, dtype)
    return _roofline(batch, profile, dtype)


def _on_gpu(batch: CandidateBatch, profile: HardwareProfile, dtype: str) -> DraftTerms:
    device = GpuDevice.of(profile, dtype)
    columns = _gpu_columns(batch, device, _item_bytes(dtype))
    cost = kernel_cost(columns, device, profile.combine, is_pipelined=False)
    told = {name: columns[name] for name in ("blocks", "threads", "shared_bytes", "steps")}
    return DraftTerms(np.maximum(cost.secs, _MIN_SECS), cost.terms, cost.penalties, told)


def _gpu_columns(batch: CandidateBatch, device: GpuDevice, item_bytes: float) -> dict[str, Float64Array]:
    """What `gpu_nest.kernel_formulas` says of a kernel that was read, float64 (n,) each."""
    n = len(batch)
    zero, one = np.zeros(n), np.ones(n)
    threads, blocks = np.maximum(_known(batch, _THREADS, 1), 1), np.maximum(_known(batch, _BLOCKS, 1), 1)
    matrix = _known(batch, _MATRIX_FLOPS, 0)
    # Where both are given, the whole includes what the matrix units do.
    flops = np.maximum(_known(batch, _FLOPS, 0) - matrix, 0)
    traffic, through_shared = _known(batch, _TRAFFIC, 0), _known(batch, "shared_traffic_bytes", 0)
    warps = np.ceil(threads / device.warp)
    products = matrix / 2 / _FMA_PER_PRODUCT / (blocks * warps)
    registers = _known(batch, "registers_per_thread", REGISTERS_BESIDE)
    vector = np.maximum(_known(batch, "max_vector_bytes", item_bytes) / item_bytes, 1)
    lanes = np.minimum(threads, device.warp)
    run = _known(batch, "contiguous_bytes", 0) / item_bytes if batch.knows("contiguous_bytes") else lanes * vector
    columns = {
        "is_launched": one,
        "tensor_bytes": np.minimum(_known(batch, "tensor_bytes", np.inf), traffic),
        "blocks": blocks,
        "threads": threads,
        "shared_bytes": _known(batch, "shared_bytes_per_block", 0),
        "local_bytes": np.maximum(registers - REGISTERS_BESIDE, 0) * BANK_BYTES,
        "fragment_bytes": zero,
        "matrix_flops": matrix,
        "useful_flops": matrix,
        "fragment_bytes_loaded": np.where(matrix > 0, through_shared, 0),
        "flops": flops,
        "calls": zero,
        "instances": zero,
        "serial": np.where(matrix > 0, products, flops / 2 / (threads * blocks)),
        "needed": zero,
        "limit": np.full(n, float(COMPILER_UNROLLS)),
        "steps": _known(batch, "staging_steps", 0),
        "g0.count": traffic / item_bytes,
        "g0.run": np.maximum(run, 1),
        "g0.vector": vector,
        "g0.own": vector,
        "g0.item_bytes": np.full(n, item_bytes),
        "g0.is_padded": zero,
        "g0.is_write": zero,
    }
    # Neighbouring lanes read neighbouring words: how else they lie was not given.
    loads = np.where(matrix > 0, 0, through_shared) / (BANK_BYTES * threads * blocks)
    columns |= {"s0.loads": loads, "s0.run": one, "s0.item_bytes": np.full(n, float(BANK_BYTES))}
    for digit in range(N_DIGITS):
        columns[f"s0.distinct{digit}"] = lanes if digit == N_DIGITS - 1 else one
        columns[f"s0.stride{digit}"] = one
    return columns


def _roofline(batch: CandidateBatch, profile: HardwareProfile, dtype: str) -> DraftTerms:
    n = len(batch)
    cores = float(profile.value("core_count") or 1)
    flops = np.maximum(_known(batch, _FLOPS, 0), _known(batch, _MATRIX_FLOPS, 0))
    chunks = np.maximum(_known(batch, _CHUNKS, cores), 1)
    wave = chunks / (np.ceil(chunks / cores) * cores)
    vector_bytes = profile.value("limits.vector_bytes")
    lanes = np.ones(n)
    if vector_bytes is not None and batch.knows("vector_lanes"):
        lanes = np.clip(_known(batch, "vector_lanes", 1) * _item_bytes(dtype) / vector_bytes, 1e-3, 1)
    rates = (unit.peak_flop_per_sec.get(dtype) for unit in profile.compute)
    peak = max((rate.value for rate in rates if rate is not None), default=None)
    bandwidth = profile.value("memory.dram.bandwidth_bytes_per_sec")
    terms = {
        "compute": flops / peak / (wave * lanes) if peak else np.zeros(n),
        "dram": _known(batch, _TRAFFIC, 0) / bandwidth if bandwidth else np.zeros(n),
    }
    secs = sum(term**_OVERLAP_POWER for term in terms.values()) ** (1 / _OVERLAP_POWER)
    return DraftTerms(np.maximum(secs, _MIN_SECS), terms, {"wave": wave, "lanes": lanes})


def _known(batch: CandidateBatch, name: str, otherwise: float) -> Float64Array:
    """A symbol's column as float64 (n,), or the same number for all where it was not given."""
    return batch.symbol(name).astype(np.float64) if batch.knows(name) else np.full(len(batch), float(otherwise))


def _item_bytes(dtype: str) -> float:
    """Bytes of a value of a type such as ``bfloat16``; what has no width in its name is taken for 4."""
    width = re.search(r"\d+", dtype)
    return max(int(width.group()) / 8, 1.0) if width else 4.0
