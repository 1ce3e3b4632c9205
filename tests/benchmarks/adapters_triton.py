"""The footprint of the plugin for Triton, held against what Triton allocated (triton_resources.py recorded it)."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from prune_engine_triton import matmul, prune_configs_by

RECORDED = Path(__file__).parents[1] / "plugins" / "data" / "triton_matmul_resources.tsv"
#: A device of each compute capability that was compiled for.
PROFILES = {80: "a100", 90: "h100"}
_SIZES = {"M": 4096, "N": 4096, "K": 4096}
_META = ("BLOCK_M", "BLOCK_N", "BLOCK_K")
_LAUNCH = ("num_warps", "num_stages")


@dataclass(frozen=True)
class Held:
    """Configurations of one type on one compute capability, counted.

    Shared memory as the footprint says it is ``exact``, ``over`` what Triton allocates, or ``under`` it. ``unfit``
    are more than a block of the device can have, of which the rules keep ``unfit_kept``; ``fit_dropped`` would have
    fitted. ``spilled`` have registers that spill, of which the rule for register pressure drops
    ``spilled_dropped``; ``sound_dropped`` it drops and they do not spill.
    """

    arch: int
    dtype: str
    n: int
    exact: int
    over: int
    under: int
    unfit: int
    unfit_kept: int
    fit_dropped: int
    spilled: int
    spilled_dropped: int
    sound_dropped: int


class _Config:
    """Stands for a `triton.Config`, so that Triton need not be there."""

    def __init__(self, row: dict[str, Any]) -> None:
        self.kwargs = {name: row[name] for name in _META}
        self._launch = {name: row[name] for name in _LAUNCH}

    def all_kwargs(self) -> dict[str, Any]:
        return {**self.kwargs, **self._launch}


def held(path: Path = RECORDED) -> list[Held]:
    """Compare every recorded configuration."""
    from prune_engine.hardware.registry import ProfileRegistry

    groups: dict[tuple[int, str], list[dict[str, Any]]] = {}
    with path.open(encoding="utf-8") as file:
        for line in csv.DictReader(file, delimiter="\t"):
            row = {name: value if name == "dtype" else int(value) for name, value in line.items()}
            groups.setdefault((row["arch"], row["dtype"]), []).append(row)
    found = []
    for (arch, dtype), rows in groups.items():
        limit = ProfileRegistry([]).resolve(PROFILES[arch]).limits.shared_memory_per_block_opt_in_bytes
        assert limit is not None
        found.append(compared(arch, dtype, rows, limit.value))
    return found


def compared(arch: int, dtype: str, rows: Sequence[dict[str, Any]], limit_bytes: int) -> Held:
    """Compare configurations of one type; ``limit_bytes`` is what a block of the device can have."""
    columns = {name: np.array([row[name] for row in rows]) for name in (*_META, *_LAUNCH)}
    footprint = matmul(dtype=dtype, has_async_products=arch >= 90)
    function: Any = footprint.symbols["shared_bytes_per_block"]
    told, took = function(columns), np.array([row["shared_bytes"] for row in rows])
    too_large = _dropped(arch, dtype, rows, "rules.register-pressure")
    pressed = _dropped(arch, dtype, rows, "rules.shared-memory")
    fits, spills = took <= limit_bytes, np.array([row["spilled_bytes"] > 0 for row in rows])
    return Held(
        arch=arch,
        dtype=dtype,
        n=len(rows),
        exact=int((told == took).sum()),
        over=int((told > took).sum()),
        under=int((told < took).sum()),
        unfit=int((~fits).sum()),
        unfit_kept=int((~fits & ~too_large).sum()),
        fit_dropped=int((fits & too_large).sum()),
        spilled=int(spills.sum()),
        spilled_dropped=int((spills & pressed).sum()),
        sound_dropped=int((~spills & pressed).sum()),
    )


def _dropped(arch: int, dtype: str, rows: Sequence[dict[str, Any]], without: str) -> np.ndarray[Any, Any]:
    """Which of the configurations are dropped, bool (n,), with one rule left out."""
    footprint = matmul(dtype=dtype, has_async_products=arch >= 90)
    by = prune_configs_by(PROFILES[arch], footprint, disabled_rules=(without,))
    configs = [_Config(row) for row in rows]
    left = by["early_config_prune"](configs, _SIZES)
    return np.array([one not in left for one in configs])
