"""What the accesses of a GPU kernel cost: passes over the banks of shared memory, sectors and lines of global."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from prune_engine_draft.gpu_device import BANK_BYTES, GpuDevice
from prune_engine_draft.gpu_nest import N_DIGITS

Float64Array = NDArray[np.float64]
Columns = Mapping[str, Float64Array]


@dataclass(frozen=True, slots=True)
class SharedWork:
    """Per block, float64 (n,): load instructions of all its warps, passes over the banks that they take.

    ``conflict``: fewest passes over passes taken, (0, 1].
    """

    instructions: Float64Array
    passes: Float64Array
    conflict: Float64Array


@dataclass(frozen=True, slots=True)
class GlobalWork:
    """Float64 (n,). Per block: ``instructions`` of all its warps, those of them that are ``padded``, ``lines`` of
    the first-level cache that they touch. Of the whole kernel: ``moved_bytes`` in sectors and ``used_bytes`` of
    them.
    """

    instructions: Float64Array
    padded: Float64Array
    lines: Float64Array
    moved_bytes: Float64Array
    used_bytes: Float64Array


def shared_work(c: Columns, warps: Float64Array, device: GpuDevice) -> SharedWork:
    """Loads of the main statement's operands from shared memory.

    A warp's load takes a pass for every 32 words, and one for every lane that hits the same bank elsewhere. Lanes
    ``stride`` words apart hit ``32 / gcd(stride, 32)`` banks.
    """
    n = len(c["threads"])
    instructions, passes, fewest = np.zeros(n), np.zeros(n), np.zeros(n)
    lanes = np.minimum(c["threads"], device.warp)
    for prefix in _prefixes(c, "s", "loads"):
        item = c[f"{prefix}.item_bytes"]
        vector = np.minimum(_power_of_two(c[f"{prefix}.run"]), np.maximum(device.vector_bytes / item, 1))
        count = c[f"{prefix}.loads"] / vector * warps
        places, banks = np.ones(n), np.ones(n)
        for digit in reversed(range(N_DIGITS)):
            distinct = np.clip(c[f"{prefix}.distinct{digit}"], 1, np.maximum(lanes / places, 1))
            stride = np.maximum(c[f"{prefix}.stride{digit}"] * item / BANK_BYTES, 1).astype(np.int64)
            places = places * distinct
            banks = np.minimum(banks * np.minimum(distinct, device.warp / np.gcd(stride, device.warp)), device.warp)
        words = np.maximum(places * vector * item / BANK_BYTES / device.warp, 1)
        instructions += count
        passes += count * np.maximum(words, places / banks)
        fewest += count * words
    return SharedWork(instructions, passes, np.where(passes > 0, fewest / np.maximum(passes, 1e-300), 1.0))


def global_work(c: Columns, device: GpuDevice) -> GlobalWork:
    """Accesses to global memory: lanes that touch neighbours share sectors and lines.

    A thread's own consecutive stores are taken together as far as the widest instruction goes.
    """
    n = len(c["threads"])
    instructions, padded, lines, moved, used = (np.zeros(n) for _ in range(5))
    lanes = np.minimum(c["threads"], device.warp)
    for prefix in _prefixes(c, "g", "count"):
        item, count, run = (c[f"{prefix}.{name}"] for name in ("item_bytes", "count", "run"))
        vector = c[f"{prefix}.vector"]
        widest = np.maximum(device.vector_bytes / item, 1)
        own = np.minimum(np.minimum(_power_of_two(c[f"{prefix}.own"]), widest), 4)
        vector = np.where(c[f"{prefix}.is_write"] > 0, np.maximum(vector, own), vector)
        elements = lanes * vector
        run = np.clip(np.maximum(run, vector), 1, elements)
        requests = count / elements
        sectors = elements / run * np.ceil(run * item / device.sector_bytes)
        instructions += requests / c["blocks"]
        padded += requests / c["blocks"] * c[f"{prefix}.is_padded"]
        lines += requests / c["blocks"] * (elements / run * np.ceil(run * item / device.line_bytes))
        moved += requests * sectors * device.sector_bytes
        used += count * item
    return GlobalWork(instructions, padded, lines, moved, used)


def _prefixes(c: Columns, kind: str, name: str) -> list[str]:
    return [key.removesuffix(f".{name}") for key in c if key.startswith(kind) and key.endswith(f".{name}")]


def _power_of_two(run: Float64Array) -> Float64Array:
    """The largest power of two, up to 8, that divides a run."""
    return np.gcd(run.astype(np.int64), 8).astype(np.float64)
