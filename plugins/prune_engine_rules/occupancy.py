"""Kernels that leave most of the device idle."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

import numpy as np

from prune_engine.candidates import CandidateBatch
from prune_engine.hardware.schema import DeviceKind, HardwareProfile
from prune_engine.strategies import Rule
from prune_engine.task import TuningTask
from prune_engine.verdicts import BoolArray, RuleKind
from prune_engine_rules.limits import keep_all

#: What a kernel must be divided into -> the symbol that counts it, and how many results are worth one of it.
_SYMBOLS: Mapping[DeviceKind, str] = {DeviceKind.CPU: "parallel_extent", DeviceKind.GPU: "grid_blocks"}
#: A share of the cores that even a good kernel may leave idle: small ones on many cores win with few blocks.
_MIN_SHARE: Mapping[DeviceKind, float] = {DeviceKind.CPU: 0.5, DeviceKind.GPU: 0.25}
#: So many results per core, and a kernel could have been divided among all of them.
_RESULTS_PER_CORE = 256


class DeviceFill(Rule):
    """The kernel has fewer blocks or parallel chunks than a fair share of the cores, though it could have more."""

    name, kind, order = "rules.device-fill", RuleKind.HEURISTIC, 80
    hardware_basis = ("core_count",)

    def mask(self, batch: CandidateBatch, profile: HardwareProfile) -> BoolArray:
        """Keep what uses enough of the device, and everything where there is too little to divide; bool (n,)."""
        least = _least(batch.space.task, profile)
        if least is None or not batch.knows(_SYMBOLS[profile.kind]):
            return keep_all(batch)
        return np.asarray(batch.symbol(_SYMBOLS[profile.kind]) > least)

    def reason(self, symbols: Mapping[str, float], profile: HardwareProfile) -> str:
        """Say into how much it is divided, and how many cores there are."""
        symbol, cores = _SYMBOLS.get(profile.kind, ""), profile.value("core_count")
        parts = "blocks" if profile.kind is DeviceKind.GPU else "parallel chunks"
        count = f"{symbols[symbol]:.15g}" if symbol in symbols else "too few"
        return f"{count} {parts} for {cores or 'an unknown number of'} cores ({profile.name}, core_count)"


def _least(task: TuningTask, profile: HardwareProfile) -> float | None:
    """So many blocks or chunks are too few; None if the device is unknown or the task too small for it."""
    cores = profile.value("core_count")
    if cores is None or profile.kind not in _SYMBOLS or not task.arg_shapes:
        return None
    n_results = prod(task.arg_shapes[-1])
    return cores * _MIN_SHARE[profile.kind] if n_results >= cores * _RESULTS_PER_CORE else None
