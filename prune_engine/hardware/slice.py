"""A part of a processor: the profile of the cores that a kernel's threads run on."""

from __future__ import annotations

import math
from typing import TypeVar

from prune_engine.errors import ProfileError
from prune_engine.hardware.levels import DeviceKind
from prune_engine.hardware.schema import ComputeUnit, Count, HardwareProfile, MemoryLevel, Rate, Scope

_SOURCE = "slice"
_N = TypeVar("_N", Count, Rate)


def with_threads(profile: HardwareProfile, n_threads: int) -> HardwareProfile:
    """The profile of ``n_threads`` cores of a processor, one thread each.

    What every core has of its own, and the peaks, shrink in proportion; of memories that several cores share,
    as many stay as the cores need; memory of the whole chip stays as it is. A profile of as many cores, or of
    another kind of device, is returned as it is. Raises ProfileError for a processor with fewer cores.
    """
    cores = profile.core_count
    if profile.kind is not DeviceKind.CPU or cores is None or cores.value == n_threads:
        return profile
    if n_threads > cores.value:
        raise ProfileError(
            "has fewer cores than threads are asked for",
            who=f"profile {profile.name}",
            got=f"{cores.value} cores, {n_threads} threads",
            expected=f"at most {cores.value} threads",
        )
    share = n_threads / cores.value
    return profile.model_copy(
        update={
            "core_count": _times(cores, share),
            "memory": tuple(_level(level, n_threads, cores.value) for level in profile.memory),
            "compute": tuple(_unit(unit, share) for unit in profile.compute),
            "sources": {**profile.sources, _SOURCE: f"{n_threads} of {cores.value} cores"},
        }
    )


def _level(level: MemoryLevel, n_threads: int, n_cores: int) -> MemoryLevel:
    if level.instances is None or level.scope is Scope.CHIP:
        return level
    used = math.ceil(n_threads * level.instances.value / n_cores)
    return level.model_copy(update={"instances": _derived(level.instances, used)})


def _unit(unit: ComputeUnit, share: float) -> ComputeUnit:
    peaks = {dtype: _times(rate, share) for dtype, rate in unit.peak_flop_per_sec.items()}
    return unit.model_copy(update={"count": _times(unit.count, share), "peak_flop_per_sec": peaks})


def _times(number: _N | None, share: float) -> _N | None:
    """A number of the whole processor, for a share of it."""
    if number is None:
        return None
    value = number.value * share
    return _derived(number, max(1, round(value)) if isinstance(number, Count) else value)


def _derived(number: _N, value: float) -> _N:
    return number.model_copy(update={"value": value, "source": _SOURCE, "origin": "derived"})
