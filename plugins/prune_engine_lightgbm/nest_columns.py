"""Columns for the trees: a loop nest's numbers, held against what the device has."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from prune_engine.candidates import CandidateBatch
from prune_engine.symbols.structure import nest_columns
from prune_engine_lightgbm.dataflow import PARTS
from prune_engine_lightgbm.device import Device
from prune_engine_lightgbm.nest_formulas import N_CURVE_POINTS, formulas_of

Column = NDArray[np.float32]
Raw = Mapping[str, NDArray[np.int64]]

#: Memory levels by the column that is held against them.
_LEVELS = {
    "set_l1_bytes": "l1_bytes",
    "set_l2_bytes": "l2_bytes",
    "set_l3_bytes": "l3_bytes",
    "reuse_bytes": "l2_bytes",
}
#: Independent accumulators that keep two multiply-add pipes of four cycles busy.
_BUSY_CHAINS = 8.0
_MOST_BUFFERS = 8.0


def nest_feature_columns(batch: CandidateBatch, device: Device) -> dict[str, Column]:
    """Named columns float32 (n,) of a batch whose sketch could be read; NaN where the profile lacks a limit.

    Sizes are log2, mostly of a ratio to a limit of the device, so that a split means the same on another one.
    Waste columns lie in [0, 1): the share of a unit that lies idle because a size is no multiple of it.
    """
    raw = {name.partition(".")[2]: c for name, c in nest_columns(batch, formulas_of(device.kind)).items()}
    columns = _sizes(raw, device)
    columns |= _parallelism(raw, device)
    columns |= _traffic(raw, device)
    columns |= _flow(raw, device)
    columns |= _curve(raw)
    return {name: np.asarray(column, dtype=np.float32) for name, column in columns.items()}


def _sizes(raw: Raw, device: Device) -> dict[str, NDArray[np.float32]]:
    columns = {f"{name}/{limit}": _log(raw[name], getattr(device, limit)) for name, limit in _LEVELS.items()}
    columns |= {
        name: _log(raw[name]) for name in ("tile_m", "tile_n", "tile_k", "unrolled_instances", "unroll_steps")
    }
    columns["tile_aspect"] = columns["tile_n"] - columns["tile_m"]
    columns["tile_area"] = columns["tile_n"] + columns["tile_m"]
    columns["double_buffers"] = np.minimum(-columns["set_l1_bytes/l1_bytes"], _log_of(_MOST_BUFFERS))
    columns["contiguous/line"] = _log(raw["contiguous_bytes"], device.line_bytes)
    columns["contiguous_waste"] = _waste(raw["contiguous_bytes"], device.line_bytes)
    columns["tile_n_waste"] = _waste(raw["tile_n"], device.simd_lanes)
    for name in ("allocated_bytes", "local_bytes", "panel_bytes", "l0a_bytes", "l0b_bytes", "l0c_bytes"):
        if name in raw:
            columns[f"{name}/l1"] = _log(raw[name], device.l1_bytes)
    if "shared_bytes" in raw:
        columns["shared_bytes/l1"] = _log(raw["shared_bytes"], device.l1_bytes)
    return columns


def _parallelism(raw: Raw, device: Device) -> dict[str, NDArray[np.float32]]:
    columns = {
        "chunks/cores": _log(raw["chunks"], device.cores),
        "chunk_waste": _waste(raw["chunks"], device.cores),
        "lanes/simd": _log(raw["lanes"], device.simd_lanes),
        "lane_waste": _waste(raw["lanes"], device.simd_lanes),
        "vector_bytes": _log(raw["vector_bytes"]),
    }
    if "chains" in raw:
        vectors = np.ceil(raw["lanes"] / device.simd_lanes) if device.simd_lanes > 0 else 1.0
        columns["chains/busy"] = _log(raw["chains"] * vectors, _BUSY_CHAINS)
        columns["registers/limit"] = _log(raw["registers"] * vectors, device.vector_registers)
    if "threads" in raw:
        warps = np.ceil(raw["threads"] / device.warp_threads)
        columns["threads/limit"] = _log(raw["threads"], device.block_threads)
        columns["warps"] = _log(warps)
        columns["warp_waste"] = _waste(raw["threads"], device.warp_threads)
        columns["registers/limit"] = _log(raw["registers"], device.registers_per_thread)
        columns["vthreads"] = _log(raw["vthreads"])
        columns["thread_instances"] = _log(raw["thread_instances"])
        columns["compute/register"] = columns["thread_instances"] - _log(raw["registers"])
        columns["warps/cores"] = columns["warps"] + columns["chunks/cores"]
    return columns


def _traffic(raw: Raw, device: Device) -> dict[str, NDArray[np.float32]]:
    flops, instances = _log(raw["flops"]), _log(raw["instances"])
    # The main statement alone: the traffic of all statements costs more to work out than it tells.
    dram = _log(np.sum([raw[f"flow.{part}.dram_traffic_bytes"] for part in PARTS], axis=0))
    l2, l1 = _log(raw["fill_l2_bytes"]), _log(raw["fill_l1_bytes"])
    seconds_ratio = _log_of(device.flop_per_sec) - _log_of(device.dram_bytes_per_sec)
    return {
        "work": instances,
        "recompute": flops - instances,
        "bandwidth_use": dram - flops + seconds_ratio,
        "intensity_dram": instances - dram,
        "intensity_l2": instances - l2,
        "intensity_l1": instances - l1,
        "l2_reuse": l2 - dram,
        "l1_reuse": l1 - l2,
    }


def _flow(raw: Raw, device: Device) -> dict[str, NDArray[np.float32]]:
    """The data-flow rows, as shares of the main statement's work or of a memory level."""
    instances = _log(raw["instances"])
    columns = {
        name: _log(raw[name]) - (instances if name.endswith("instances") else 0)
        for name in ("flow.init.instances", "flow.init.lanes", "flow.copy.instances", "flow.copy.lanes")
    }
    columns["flow.compute.instances"] = _log(raw["flow.compute.instances"]) - instances
    for part in PARTS:
        name = f"flow.{part}"
        columns[f"{name}.l1_bytes"] = _log(raw[f"{name}.l1_bytes"], device.l1_bytes)
        columns[f"{name}.l2_bytes"] = _log(raw[f"{name}.l2_bytes"], device.l2_bytes)
        columns[f"{name}.reuse_bytes"] = _log(raw[f"{name}.reuse_bytes"], device.l1_bytes)
        columns[f"{name}.run_bytes"] = _log(raw[f"{name}.run_bytes"], device.line_bytes)
        for level in ("l1", "l2", "dram"):
            columns[f"{name}.{level}_traffic"] = _log(raw[f"{name}.{level}_traffic_bytes"]) - instances
    return columns


def _curve(raw: Raw) -> dict[str, NDArray[np.float32]]:
    points = range(N_CURVE_POINTS)
    return {f"intensity{p}": _log(raw[f"intensity_work{p}"]) - _log(raw[f"intensity{p}"]) for p in points}


def _log(values: NDArray[np.generic], limit: float = 1.0) -> NDArray[np.float32]:
    """log2 of values >= 0 over a limit; 0 counts as a half, so that it lies below 1."""
    logs: NDArray[np.float32] = np.log2(np.maximum(values, 0.5).astype(np.float32))
    return logs if limit == 1.0 else logs - np.float32(_log_of(limit))


def _log_of(number: float) -> float:
    return math.log2(number) if number > 0 else math.nan


def _waste(values: NDArray[np.int64], unit: float) -> NDArray[np.float32]:
    """Idle share of the last unit's worth, 0 where values are multiples of the unit."""
    if not unit > 0:
        return np.full(len(values), np.nan, dtype=np.float32)
    ratio = values.astype(np.float32) / np.float32(unit)
    wasted: NDArray[np.float32] = 1 - ratio / np.maximum(np.ceil(ratio), 1)
    return wasted
