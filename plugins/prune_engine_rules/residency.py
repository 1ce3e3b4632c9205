"""Working sets far larger than the cache that should hold them."""

from __future__ import annotations

from prune_engine.hardware.schema import DeviceKind, HardwareProfile
from prune_engine.verdicts import RuleKind
from prune_engine_rules.limits import Bound, SymbolBound, profile_bound

#: A cache holds what is used again, not all that is touched, and prefetching hides the rest: only working sets so
#: many times as large are given up. Of recorded random schedules of six kernels, ones of half as much were
#: among those within 10 % of the best.
_L1_FACTOR, _L2_FACTOR = 8, 4


class L1Residency(SymbolBound):
    """What the innermost tiles of a CPU kernel touch is many times the first-level cache."""

    name, kind, order = "rules.l1-residency", RuleKind.HEURISTIC, 70
    hardware_basis = ("memory.l1d.capacity_bytes",)
    symbol, what = "working_set_l1_bytes", "bytes touched by the innermost tiles"

    def bound(self, profile: HardwareProfile) -> Bound | None:
        """A multiple of the first-level data cache."""
        return _cache_bound(profile, self.hardware_basis[0], _L1_FACTOR)


class L2Residency(SymbolBound):
    """What the middle tiles of a CPU kernel touch is many times the second-level cache."""

    name, kind, order = "rules.l2-residency", RuleKind.HEURISTIC, 71
    hardware_basis = ("memory.l2.capacity_bytes",)
    symbol, what = "working_set_l2_bytes", "bytes touched by the middle tiles"

    def bound(self, profile: HardwareProfile) -> Bound | None:
        """A multiple of the second-level cache."""
        return _cache_bound(profile, self.hardware_basis[0], _L2_FACTOR)


def _cache_bound(profile: HardwareProfile, path: str, factor: int) -> Bound | None:
    return profile_bound(profile, path, factor) if profile.kind is DeviceKind.CPU else None
