"""The draft for accelerators with scratchpads (Ascend, MLU): hard limits, whole tiles, transfers that overlap.

The innermost tile lives in the scratchpads next to the matrix unit, the tile with its whole reduction in the ones
further out. Copies in, products, copies out and vector work run in pipes of their own, so the slowest of them sets
the pace (``combine: pipe``), and the first tile's copies are paid on top.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from prune_engine.candidates import CandidateBatch
from prune_engine.hardware.schema import ComputeUnit, HardwareProfile
from prune_engine.symbols.bands import inner_tile_depth, main_statement
from prune_engine.symbols.expr import Expr, maximum, product, total
from prune_engine.symbols.loop_nest import LoopKind, LoopNest, Statement
from prune_engine.symbols.npu import is_matrix_product
from prune_engine.symbols.statement import extent_of, flops
from prune_engine.symbols.structure import nest_columns
from prune_engine.symbols.traffic import traffic_bytes
from prune_engine_draft.terms import DraftTerms

Float64Array = NDArray[np.float64]

#: Scratchpads whose tile must fit, by their name in profiles -> the symbol of that tile.
SCRATCHPADS: Final[Mapping[str, str]] = {
    "l0a": "npu_l0a_bytes",
    "l0b": "npu_l0b_bytes",
    "l0c": "npu_l0c_bytes",
    "ub": "npu_ub_bytes",
    "nram": "npu_nram_bytes",
    "wram": "npu_wram_bytes",
}
#: Those that a reduction may stream through: a tile that is larger makes its transfers wait, not fail.
STREAMED: Final[Mapping[str, str]] = {"l1": "npu_l1_bytes", "sram": "npu_sram_bytes"}
#: Two halves of a scratchpad, one filled while the other is worked on.
_DOUBLE_BUFFERED: Final = 2
#: Products of these types are summed up in 32 bits: bytes of a sum for each byte of the type.
_SUM_BYTES_PER_BYTE: Final[Mapping[str, int]] = {"float16": 2, "bfloat16": 2, "int8": 4}
#: The memory that holds the sums.
_SUMS: Final = "npu_l0c_bytes"
#: Tiles after which copies and products overlap: one in each half of the scratchpads.
_FILL_TILES: Final = 2
_NAMES: Final = ("parallel_extent", "traffic_dram_bytes", "contiguous_bytes", "tile_m", "tile_n", "tile_k")


def npu_terms(batch: CandidateBatch, profile: HardwareProfile) -> DraftTerms:
    """Latency of each candidate on a device with scratchpads. Raises SpaceError for an opaque batch.

    Terms: ``matrix``, ``vector``, ``transfer`` (off chip), ``feed`` (into the matrix unit's scratchpads), ``fill``
    (the first tile), ``launch``. What the profile does not know has no term. Sources: Pruner's table 2 carried
    over to scratchpads; CANN's and BANG's documents, by the profile's own source tags.
    """
    dtype = _dtype_of(batch)
    unit = _Unit.of(profile, dtype)
    limits = {level: size for level in (*SCRATCHPADS, *STREAMED) if (size := _limit_bytes(profile, level))}
    symbols = {**SCRATCHPADS, **STREAMED}
    s = _columns(batch, [*_NAMES, *(symbols[level] for level in limits)])
    if _SUMS in s and _dtype_of(batch, output=True) == dtype:
        s[_SUMS] = s[_SUMS] * _SUM_BYTES_PER_BYTE.get(dtype, 1)
    penalties = _penalties(s, profile, unit)
    penalties.update(_capacities(s, limits))
    fits = np.ones(len(batch), dtype=np.bool_)
    for level, symbol in SCRATCHPADS.items():
        if level in limits:
            fits &= s[symbol] <= limits[level]
    terms = _terms(s, profile, unit, penalties)
    pipes = [terms[name] for name in ("matrix", "vector", "transfer", "feed") if name in terms]
    slowest = np.max(pipes, axis=0) if profile.combine != "sum" else np.sum(pipes, axis=0)
    latency = slowest + terms["fill"] + terms["launch"]
    latency = np.maximum(latency, np.finfo(np.float64).tiny)
    return DraftTerms(latency, terms, penalties, s, fits)


@dataclass(frozen=True, slots=True)
class _Unit:
    """The matrix unit as it multiplies one type: its tile, rate and number."""

    tile: tuple[int, int, int] | None
    peak_flop_per_sec: float | None
    count: int | None

    @staticmethod
    def of(profile: HardwareProfile, dtype: str) -> _Unit:
        """The unit with a peak for the type, the fastest of them; without one, the fastest there is."""
        units = [unit for unit in profile.compute if unit.name != "vector"] or list(profile.compute)
        found = max(units, key=lambda unit: _peak(unit, dtype) or 0.0)
        rates = [rate.value for rate in found.peak_flop_per_sec.values() if rate]
        peak = _peak(found, dtype) or (min(rates) if rates else None)
        return _Unit(found.tile_of(dtype), peak, found.count.value if found.count else None)


def _peak(unit: ComputeUnit, dtype: str) -> float | None:
    rate = unit.peak_flop_per_sec.get(dtype)
    return rate.value if rate else None


def _dtype_of(batch: CandidateBatch, *, output: bool = False) -> str:
    dtypes = batch.space.task.arg_dtypes
    return dtypes[-1 if output else 0] if dtypes else "float32"


def _limit_bytes(profile: HardwareProfile, level: str) -> int | None:
    memory = profile.level(level)
    return memory.limit_bytes if memory else None


def _columns(batch: CandidateBatch, names: list[str]) -> dict[str, Float64Array]:
    formulas = {name: f for name in names if (f := batch.space.symbols[name].formula)}
    own = {
        "draft.npu.matrix_flops": _matrix_flops,
        "draft.npu.vector_flops": _vector_flops,
        "draft.npu.feed_bytes": _feed_bytes,
        "draft.npu.tiles": _tiles,
    }
    found = nest_columns(batch, {**formulas, **own})
    columns = {name.removeprefix("draft.npu."): column.astype(np.float64) for name, column in found.items()}
    columns["chunks"] = np.maximum(columns["parallel_extent"], 1)
    return columns


def _penalties(s: Mapping[str, Float64Array], profile: HardwareProfile, unit: _Unit) -> dict[str, Float64Array]:
    """Shares of the peaks that are left, each in (0, 1]."""
    found = {}
    if unit.tile:
        sizes = (s["tile_m"], s["tile_n"], s["tile_k"])
        found["alignment"] = np.prod([_filled(x, t) for x, t in zip(sizes, unit.tile, strict=True)], axis=0)
    # A pipe of copies and products is full only after its first tiles.
    found["pipe_fill"] = s["tiles"] / (s["tiles"] + _FILL_TILES)
    # A kernel without products runs on the vector cores, of which there may be more.
    vectors = profile.value("compute.vector.count")
    if unit.count:
        cores = np.where(s["matrix_flops"] > 0, unit.count, vectors or unit.count)
        found["cores"] = s["chunks"] / (np.ceil(s["chunks"] / cores) * cores)
    if profile.transaction_bytes:
        found["transfer"] = _filled(s["contiguous_bytes"], profile.transaction_bytes.value)
    elif profile.limits.vector_alignment_bytes:
        found["transfer"] = _filled(s["contiguous_bytes"], profile.limits.vector_alignment_bytes.value)
    return found


def _capacities(s: Mapping[str, Float64Array], limits: Mapping[str, int]) -> dict[str, Float64Array]:
    """How far a tile leaves room to fill a second one meanwhile (hard), or at all (streamed)."""
    found = {}
    for level, limit in limits.items():
        symbol = SCRATCHPADS.get(level) or STREAMED[level]
        room = limit / np.maximum(s[symbol] * _DOUBLE_BUFFERED, 1)
        found[f"{level}_room"] = np.clip(room, np.finfo(np.float64).tiny, 1)
    return found


def _terms(
    s: Mapping[str, Float64Array],
    profile: HardwareProfile,
    unit: _Unit,
    penalties: Mapping[str, Float64Array],
) -> dict[str, Float64Array]:
    n = len(s["chunks"])
    cores = penalties.get("cores", np.ones(n))
    # What has no room for a second tile waits for its copies: the pipes then run one after the other.
    rooms = [value for name, value in penalties.items() if name.endswith("_room")]
    overlap = np.min(rooms, axis=0) if rooms else np.ones(n)
    overlap = np.maximum(overlap, 1 / _DOUBLE_BUFFERED)
    found: dict[str, Float64Array] = {}
    if unit.peak_flop_per_sec:
        rate = unit.peak_flop_per_sec * cores * penalties.get("alignment", 1) * penalties["pipe_fill"] * overlap
        found["matrix"] = s["matrix_flops"] / rate
        vector = _vector_rate(profile)
        if vector:
            found["vector"] = s["vector_flops"] / (vector * cores)
    bandwidth = profile.value("memory.dram.bandwidth_bytes_per_sec")
    if bandwidth:
        found["transfer"] = s["traffic_dram_bytes"] / (bandwidth * penalties.get("transfer", 1) * overlap)
    feed = profile.value("memory.l0a.bandwidth_bytes_per_sec")
    level = profile.level("l0a")
    if feed and level and level.instances:
        found["feed"] = s["feed_bytes"] / (feed * level.instances.value * cores)
    if not found:
        found["matrix"] = s["matrix_flops"] + s["vector_flops"]
    # The first tile of each core is copied before anything else can run.
    slowest = found.get("transfer", np.zeros(n))
    waves = np.ceil(s["chunks"] / unit.count) if unit.count else s["chunks"]
    found["fill"] = slowest / np.maximum(s["tiles"] * waves, 1)
    found["launch"] = np.full(n, profile.launch_secs.value if profile.launch_secs else 0.0)
    return found


def _vector_rate(profile: HardwareProfile) -> float | None:
    """Operations per second of the vector units: their fp32 peak, or lanes by clock."""
    peak = profile.value("compute.vector.peak_flop_per_sec.float32")
    if peak:
        return peak
    count, lanes = profile.value("compute.vector.count"), profile.value("compute.vector.lanes")
    clock = profile.value("clock_hz")
    return count * lanes * clock if count and lanes and clock else None


def _filled(x: Float64Array, unit: float) -> Float64Array:
    filled: Float64Array = x / (np.ceil(x / unit) * unit)
    return filled


def _main(nest: LoopNest) -> Statement:
    return nest.statements[main_statement(nest)]


def _matrix_flops(nest: LoopNest) -> Expr:
    return total(flops(s) for s in nest.statements if is_matrix_product(s))


def _vector_flops(nest: LoopNest) -> Expr:
    return total(flops(s) for s in nest.statements if not is_matrix_product(s))


def _feed_bytes(nest: LoopNest) -> Expr:
    """Bytes into the innermost scratchpads: what the innermost tiles touch, each tile's anew."""
    main = _main(nest)
    return traffic_bytes(nest, main, inner_tile_depth(main))


def _tiles(nest: LoopNest) -> Expr:
    """Innermost tiles that one chunk works through."""
    main = _main(nest)
    outer = product(loop.extent for loop in main.loops[: inner_tile_depth(main)])
    return maximum(outer // extent_of(main, (LoopKind.PARALLEL,)), 1)
