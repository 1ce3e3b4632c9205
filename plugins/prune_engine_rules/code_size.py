"""Unrolled loops that leave the instruction cache."""

from __future__ import annotations

from prune_engine.hardware.schema import DeviceKind, HardwareProfile
from prune_engine.verdicts import RuleKind
from prune_engine_rules.limits import Bound, SymbolBound, profile_bound

#: Bytes of one instruction with a memory operand and a displacement, and so of one unrolled instance at least.
_INSTRUCTION_BYTES = 8


class InstructionCache(SymbolBound):
    """The unrolled body of a CPU kernel is larger than the first-level instruction cache."""

    name, kind, order = "rules.instruction-cache", RuleKind.HEURISTIC, 90
    hardware_basis = ("memory.l1i.capacity_bytes",)
    symbol, what = "unrolled_body_instances", f"unrolled instances of {_INSTRUCTION_BYTES} bytes"

    def bound(self, profile: HardwareProfile) -> Bound | None:
        """As many instructions as the cache holds."""
        if profile.kind is not DeviceKind.CPU:
            return None
        return profile_bound(profile, self.hardware_basis[0], 1 / _INSTRUCTION_BYTES)
