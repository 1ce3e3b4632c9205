"""Pruner's own draft, to compare with and to test symbols by: as published and as its code computes it.

Sources: arXiv 2402.02361 (ASPLOS'25), table 2, section 4.1 and equation 1; the code is qiaolian9/Pruner at 0760c3f.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np
from numpy.typing import NDArray

from prune_engine.candidates import CandidateBatch
from prune_engine.hardware.schema import HardwareProfile
from prune_engine.symbols.expr import Expr, total
from prune_engine.symbols.gpu import thread_tile
from prune_engine.symbols.loop_nest import LoopNest
from prune_engine.symbols.structure import nest_columns
from prune_engine_draft.terms import DraftTerms

Float64Array = NDArray[np.float64]

#: Symbol of this project for each of Pruner's.
SYMBOLS: Final[Mapping[str, str]] = {
    "S1": "pruner_s1_l0_mem_alloc",
    "S2": "pruner_s2_l0_comp_count",
    "S3": "pruner_s3_l1_mem_alloc",
    "S4": "pruner_s4_l1_para_info",
    "S5": "pruner_s5_l2_mem_footprint",
    "S6": "pruner_s6_l2_para_info",
    "S7": "pruner_s7_l2_trans_dim",
    "S8": "pruner_s8_l2_comp_count",
}

#: Registers per thread that Pruner's code takes for enough, on every device.
REGISTER_CAP: Final = 128
#: Sub-partitions of a multiprocessor, each with a scheduler of its own.
PARTITIONS: Final = 4
#: The code divides elements by gigabytes of 2**30 bytes per second: it takes an element for a byte.
_GIGA: Final = 2**30
#: Pruner counts elements; its limits are meant for fp32.
_ITEM_BYTES: Final = 4


def pruner_symbols(batch: CandidateBatch) -> dict[str, Float64Array]:
    """S1 ... S8 of each candidate, float64 (n,). Raises SpaceError for an opaque batch."""
    known = batch.space.symbols
    names = {name: known[symbol].formula for name, symbol in SYMBOLS.items()}
    columns = nest_columns(batch, {SYMBOLS[name]: formula for name, formula in names.items() if formula})
    return {name: columns[symbol].astype(np.float64) for name, symbol in SYMBOLS.items()}


def paper_penalties(symbols: Mapping[str, Float64Array], profile: HardwareProfile) -> dict[str, Float64Array]:
    """The six penalties and the waste factor of section 4.1, float64 (n,), where the profile has what they need.

    ``l0_compute`` is the one that is not bounded: it is 1 + S2 / S1 as published.
    """
    s = symbols
    shared = profile.value("limits.shared_memory_per_block_bytes")
    warp, cores = profile.value("limits.threads_per_warp"), profile.value("core_count")
    transaction = profile.value("transaction_bytes")
    found = {"l0_memory": np.minimum(REGISTER_CAP / s["S1"], 1), "l0_compute": 1 + s["S2"] / s["S1"]}
    if shared is not None:
        found["l1_memory"] = np.minimum(shared / (_ITEM_BYTES * np.maximum(s["S3"], 1)), 1)
    if warp is not None:
        warps = np.ceil(s["S4"] / warp)
        found["l1_compute"] = filled(warps, PARTITIONS)
        found["l1_waste"] = s["S4"] / (warps * warp)
    if cores is not None:
        found["l2_compute"] = filled(s["S6"], cores)
    if transaction is not None:
        found["l2_memory"] = filled(s["S7"], max(transaction // _ITEM_BYTES, 1))
    return found


def released_form(batch: CandidateBatch, profile: HardwareProfile) -> DraftTerms:
    """What the released code computes, in seconds: elements taken for bytes, no penalty on memory.

    Compute counts for the statements that compute, memory for those that only move: A, B and the output of a
    matrix product. Raises SpaceError for an opaque batch, ValueError for a profile without its four numbers.
    """
    peak = profile.value("compute.simt.peak_flop_per_sec.float32")
    bandwidth = profile.value("memory.dram.bandwidth_bytes_per_sec")
    cores, warp = profile.value("core_count"), profile.value("limits.threads_per_warp")
    if peak is None or bandwidth is None or cores is None or warp is None:
        raise ValueError(f"{profile.name} lacks the peak, bandwidth, cores or warp size that Pruner's form needs")
    s = pruner_symbols(batch)
    output, written = _output(batch)
    reduction = np.maximum(s["S2"] / output, 1)
    reads = output + (s["S1"] - output) * reduction
    reuse = 1 + (s["S8"] / (s["S4"] * s["S6"])) / reads
    penalties = {
        "reuse": 1 / (1 + 1 / reuse),
        "registers": 1 / np.maximum(1, s["S1"] / REGISTER_CAP),
        "warp": (s["S4"] / warp) / np.ceil(s["S4"] / warp),
        "wave": _wave(s["S6"], s["S4"], int(cores), int(warp)),
    }
    compute = s["S8"] / (peak * np.prod(list(penalties.values()), axis=0))
    moved = (s["S5"] + written) / (bandwidth / 1e9 * _GIGA)
    return DraftTerms(compute + moved, {"compute": compute, "memory": moved}, penalties, s)


def filled(x: Float64Array, unit: float) -> Float64Array:
    """Share of the last unit that is used: x / (ceil(x / unit) * unit), in (0, 1]."""
    filled_share: Float64Array = x / (np.ceil(x / unit) * unit)
    return filled_share


def _wave(blocks: Float64Array, threads: Float64Array, cores: int, warp: int) -> Float64Array:
    """The code's tail-wave penalty: by blocks where they fill the device, else by its sub-partitions."""
    units = blocks * np.minimum(np.ceil(threads / warp), PARTITIONS)
    return np.where(blocks >= cores, filled(blocks, cores), filled(units, PARTITIONS * cores))


def _output(batch: CandidateBatch) -> tuple[Float64Array, Float64Array]:
    """Elements of the main statement's output in one thread's tile, and of all results of the kernel."""
    formulas = {"draft.pruner.output": _output_elements, "draft.pruner.written": _written_elements}
    tile, written = nest_columns(batch, formulas).values()
    return tile.astype(np.float64), written.astype(np.float64)


def _output_elements(nest: LoopNest) -> Expr:
    return thread_tile(nest)[0][0]


def _written_elements(nest: LoopNest) -> Expr:
    written = {access.buffer for s in nest.statements for access in s.accesses if access.is_write}
    return total(b.stored_elements for name, b in nest.buffers.items() if b.is_argument and name in written)
