"""The recorded kernel that the adapter for Kernel Tuner is judged by: a convolution, measured on four GPUs.

Its times are those of a table as `prune-engine rank` reads them (convolution_milo.tsv.gz, from the benchmark hub of
the AutoTuning Association); what a configuration needs and does is written here, in eight lines, as a user would.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from prune_engine_kernel_tuner import KernelSpace, Results, kernel_space

from prune_engine.recorded.kernel_table_files import read_kernel_tables
from prune_engine.recorded.kernel_tables import KernelTable

TABLE = "convolution_milo.tsv.gz"
#: The profiles of the devices of the table.
PROFILES = {"A100": "nvidia-a100-sxm-40gb", "A4000": "rtx-a4000", "MI250X": "mi250x", "W6600": "w6600"}

#: A 4096 x 4096 image, a filter of 15 x 15 (Milo and others, BAT).
_SIZE, _FILTER = 4096, 15
PROBLEM_SIZE = (_SIZE, _SIZE)


def _conv_blocks(c: Any) -> Any:
    across = np.ceil(_SIZE / (c["block_size_x"] * c["tile_size_x"]))
    return across * np.ceil(_SIZE / (c["block_size_y"] * c["tile_size_y"]))


def _conv_tile(c: Any) -> Any:
    width = c["block_size_x"] * c["tile_size_x"] + _FILTER - 1
    return width * (c["block_size_y"] * c["tile_size_y"] + _FILTER - 1)


CONVOLUTION: dict[str, Any] = {
    "grid_blocks": _conv_blocks,
    "shared_bytes_per_block": lambda c: c["use_shmem"] * _conv_tile(c) * 4,
    "registers_per_thread": lambda c: 20 + 2 * c["tile_size_x"] * c["tile_size_y"],
    "flops_total": 2 * _FILTER**2 * _SIZE**2,
    "traffic_dram_bytes": lambda c: 4 * (_conv_blocks(c) * _conv_tile(c) + _SIZE**2),
    "tensor_bytes": 8 * _SIZE**2,
    "shared_traffic_bytes": lambda c: (
        4 * _FILTER**2 * _SIZE**2 / np.minimum(c["tile_size_x"] * c["tile_size_y"], 8)
    ),
    "contiguous_bytes": lambda c: 4 * c["block_size_x"],
}


@dataclass(frozen=True)
class RecordedKernel:
    """A kernel with the times of every configuration on several devices, in seconds, NaN for what failed there."""

    table: KernelTable

    @classmethod
    def of_folder(cls, folder: Path) -> RecordedKernel:
        """Read the table in a folder, or in its folder ``gpu``. Raises ConfigError if it is in neither."""
        path = folder / "gpu" / TABLE
        return cls(read_kernel_tables(path if path.exists() else folder / TABLE)[0])

    @property
    def devices(self) -> tuple[str, ...]:
        return tuple(self.table.devices)

    @property
    def params(self) -> dict[str, list[int]]:
        """What `tune_kernel` takes."""
        return {
            name: [int(v) for v in choices]
            for name, choices in zip(self.table.names, self.table.choices, strict=True)
        }

    @property
    def configurations(self) -> list[tuple[int, ...]]:
        values = list(self.params.values())
        return [tuple(of[i] for of, i in zip(values, row, strict=True)) for row in self.table.indices.tolist()]

    def restriction(self) -> Any:
        """A restriction that the recorded configurations meet, and no other."""
        names, listed = self.table.names, set(self.configurations)

        def is_listed(*of: Any, **by_name: Any) -> bool:
            return (tuple(by_name[name] for name in names) if by_name else of) in listed

        return is_listed

    def space(self, device: str, *, source: str | None = None, **options: Any) -> KernelSpace:
        """The kernel's space on a device, with all results of ``source`` if it is named."""
        if source is not None:
            options["elsewhere"] = (self.results(source), PROFILES[source])
        return kernel_space(
            self.params,
            [self.restriction()],
            profile=PROFILES[device],
            symbols=CONVOLUTION,
            name=self.table.name,
            n_results=_SIZE**2,
            **options,
        )

    def run_secs(self, device: str, order: list[tuple[Any, ...]]) -> NDArray[np.float64]:
        """Seconds of configurations, NaN for failures."""
        by = dict(zip(self.configurations, self.table.run_secs[device].tolist(), strict=True))
        return np.array([by[one] for one in order])

    def results(self, device: str) -> Results:
        """All that was measured on a device."""
        names = self.table.names
        dicts = tuple(dict(zip(names, one, strict=True)) for one in self.configurations)
        return Results(dicts, self.table.run_secs[device], device)

    def write_cache(self, path: Path, device: str) -> None:
        """The times of a device as a cache file, from which Kernel Tuner simulates."""
        lines = {}
        for one, secs in zip(self.configurations, self.table.run_secs[device].tolist(), strict=True):
            time = "RuntimeFailedConfig" if np.isnan(secs) else 1e3 * secs
            lines[",".join(map(str, one))] = {**dict(zip(self.table.names, one, strict=True)), "time": time}
        content = {
            "device_name": device,
            "kernel_name": "convolution",
            "problem_size": list(PROBLEM_SIZE),
            "tune_params_keys": list(self.table.names),
            "tune_params": self.params,
            "objective": "time",
            "cache": lines,
        }
        path.write_text(json.dumps(content, indent=""), encoding="utf-8")
