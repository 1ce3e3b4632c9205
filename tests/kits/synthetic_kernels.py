"""A tiled stencil on devices that do not exist: run times by a formula, with what real files of results have.

Nothing here was measured. The formula is not the draft's: it has effects of its own (bank conflicts of odd widths,
a cost per unrolled step, noise), so that ranking well is no tautology.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from prune_engine_kernel_tuner import KernelSpace, kernel_space

SIZE = 4096
RADIUS = 4
KERNEL = "stencil"
SOURCE = f"__global__ void {KERNEL}(float *out, const float *in) {{}}"

TUNE_PARAMS: dict[str, list[Any]] = {
    "block_size_x": [16, 32, 64, 128, 256],
    "block_size_y": [1, 2, 4, 8, 16, 32],
    "tile_x": [1, 2, 4, 8],
    "tile_y": [1, 2, 4],
    "use_shared": [0, 1],
    "unroll": [1, 2, 4],
}
RESTRICTIONS = ["block_size_x * block_size_y >= 32", "unroll <= tile_x * tile_y"]

#: Cores, clock, bytes a second, shared bytes per block and core, weight of what the formula knows and nobody else.
DEVICES = {"slow": (40, 1.5e9, 3.2e11, 49152, 65536, 0.12), "fast": (108, 1.4e9, 1.5e12, 166912, 167936, 0.15)}


def columns(configurations: list[tuple[Any, ...]]) -> dict[str, np.ndarray[Any, Any]]:
    return {name: np.array([c[i] for c in configurations]) for i, name in enumerate(TUNE_PARAMS)}


def shared_bytes(c: Any) -> Any:
    rows = c["block_size_y"] * c["tile_y"] + 2 * RADIUS
    return c["use_shared"] * (c["block_size_x"] * c["tile_x"] + 2 * RADIUS) * rows * 4


def grid_blocks(c: Any) -> Any:
    return np.ceil(SIZE / (c["block_size_x"] * c["tile_x"])) * np.ceil(SIZE / (c["block_size_y"] * c["tile_y"]))


def registers(c: Any) -> Any:
    return 20 + 3 * c["tile_x"] * c["tile_y"] * np.minimum(c["unroll"], 4)


def traffic_bytes(c: Any) -> Any:
    """Bytes that blocks ask for: with shared memory a tile and its rim, else every neighbour of every element."""
    rim = (c["block_size_x"] * c["tile_x"] + 2 * RADIUS) * (c["block_size_y"] * c["tile_y"] + 2 * RADIUS)
    per_block = np.where(
        c["use_shared"] == 1, rim, 2.5 * c["block_size_x"] * c["tile_x"] * c["block_size_y"] * c["tile_y"]
    )
    return 4 * (grid_blocks(c) * per_block + SIZE * SIZE)


#: What the owner of the kernel says of it.
SYMBOLS: dict[str, Any] = {
    "shared_bytes_per_block": shared_bytes,
    "grid_blocks": grid_blocks,
    "registers_per_thread": registers,
    "traffic_dram_bytes": traffic_bytes,
    "tensor_bytes": 2 * 4 * SIZE * SIZE,
    "flops_total": 2 * (4 * RADIUS + 1) * SIZE * SIZE,
}


def millis(configurations: list[tuple[Any, ...]], device: str, seed: int = 7) -> np.ndarray[Any, Any]:
    """Invented milliseconds, NaN for what the device refuses: too many threads, or too much shared memory."""
    cores, clock, bandwidth, shared_limit, shared_core, oddity = DEVICES[device]
    c = columns(configurations)
    threads, shared = c["block_size_x"] * c["block_size_y"], shared_bytes(c)
    refused = (threads > 1024) | (shared > shared_limit)
    resident = np.minimum(2048 // np.maximum(threads, 32), 32)
    resident = np.minimum(resident, 65536 // (registers(c) * np.maximum(threads, 32)))
    resident = np.where(shared > 0, np.minimum(resident, shared_core // np.maximum(shared, 1)), resident)
    occupancy = np.clip(np.maximum(resident, 1) * threads / 2048, 0.02, 1)
    waves = np.ceil(grid_blocks(c) / (cores * np.maximum(resident, 1))) * cores * np.maximum(resident, 1)
    memory = (
        traffic_bytes(c) / bandwidth / (0.35 + 0.65 * occupancy**0.5) * np.where(c["block_size_x"] < 32, 1.6, 1)
    )
    work = 2 * (4 * RADIUS + 1) * SIZE * SIZE / (cores * 64 * clock) / (0.5 + 0.5 * occupancy)
    work = work * waves / grid_blocks(c) * (1 + 0.3 / c["unroll"]) * np.where(registers(c) > 128, 1.4, 1)
    quirk = 1 + oddity * np.sin(3 * np.log2(c["block_size_x"]) + 2 * c["tile_y"] + c["unroll"])
    noise = np.random.default_rng(seed).lognormal(0, 0.03, len(configurations))
    secs = (memory**2 + work**2) ** 0.5 * quirk * noise + 5e-6
    return np.where(refused, np.nan, 1e3 * secs)


def write_cache(path: Path, configurations: list[tuple[Any, ...]], device: str) -> None:
    """A cache file as Kernel Tuner 1.5 writes it, with all configurations."""
    cache: dict[str, Any] = {}
    for configuration, value in zip(configurations, millis(configurations, device).tolist(), strict=True):
        line: dict[str, Any] = dict(zip(TUNE_PARAMS, configuration, strict=True))
        line["time"] = "RuntimeFailedConfig" if np.isnan(value) else value
        line |= {"times": [] if np.isnan(value) else [value], "compile_time": 300.0, "verification_time": 0}
        line |= {"benchmark_time": 20.0, "strategy_time": 0.1, "framework_time": 0.5, "timestamp": "2024-01-01"}
        cache[",".join(map(str, configuration))] = line
    content = {
        "device_name": f"synthetic {device}",
        "kernel_name": KERNEL,
        "problem_size": [SIZE, SIZE],
        "tune_params_keys": list(TUNE_PARAMS),
        "tune_params": TUNE_PARAMS,
        "objective": "time",
        "cache": cache,
    }
    path.write_text(json.dumps(content, indent=""))


def write_t4(path: Path, configurations: list[tuple[Any, ...]], device: str) -> None:
    """A T4 file as Kernel Tuner's `store_output_file` writes it."""
    results = []
    for configuration, value in zip(configurations, millis(configurations, device).tolist(), strict=True):
        failed = bool(np.isnan(value))
        results.append(
            {
                "configuration": dict(zip(TUNE_PARAMS, configuration, strict=True)),
                "times": {"compilation": 300.0, "benchmark": 20.0, "runtimes": [] if failed else [value]},
                "invalidity": "runtime" if failed else "correct",
                "correctness": 1,
                "measurements": [] if failed else [{"name": "time", "value": value, "unit": "ms"}],
                "objectives": ["time"],
            }
        )
    path.write_text(
        json.dumps({"results": results, "schema_version": "1.0.0", "metadata": {"timeunit": "milliseconds"}})
    )


def stencil_space(**more: Any) -> KernelSpace:
    """The stencil's space for an A100, with other arguments of `kernel_space` where they are given."""
    given: dict[str, Any] = {
        "restrictions": RESTRICTIONS,
        "profile": "nvidia-a100-sxm-40gb",
        "symbols": SYMBOLS,
        "n_results": SIZE**2,
    }
    return kernel_space(TUNE_PARAMS, **{**given, **more})
