"""The memory footprint predictor of devices with scratchpads: tiles that would not fit, or spill silently."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar

from prune_engine.candidates import CandidateBatch
from prune_engine.hardware.schema import HardwareProfile
from prune_engine.strategies import Rule
from prune_engine.verdicts import BoolArray, RuleKind
from prune_engine_rules.limits import keep_all

#: Scratchpad, by its name in the profile -> the symbol that says how much of it a candidate needs.
SYMBOLS: Mapping[str, str] = {
    "l0a": "npu_l0a_bytes",
    "l0b": "npu_l0b_bytes",
    "l0c": "npu_l0c_bytes",
    "ub": "npu_ub_bytes",
    "nram": "npu_nram_bytes",
    "wram": "npu_wram_bytes",
}
#: Those that cores share. A reduction may stream through them, so the whole tile need not be there at once.
SHARED_SYMBOLS: Mapping[str, str] = {"sram": "npu_sram_bytes"}


def basis(symbols: Mapping[str, str]) -> tuple[str, ...]:
    """The profile fields that say how large these scratchpads are."""
    return tuple(f"memory.{level}.{field}" for level in symbols for field in ("usable_bytes", "capacity_bytes"))


class Scratchpads(Rule):
    """A tile is larger than the scratchpad it lives in.

    Only levels that the profile calls hard limits count, with what the runtime leaves of them where that is
    known. Caches are the residency rules' affair.
    """

    name, kind, order = "rules.scratchpads", RuleKind.LEGALITY, 60
    hardware_basis = basis(SYMBOLS)
    symbols: ClassVar[Mapping[str, str]] = SYMBOLS

    def mask(self, batch: CandidateBatch, profile: HardwareProfile) -> BoolArray:
        """Keep what fits into every scratchpad; bool (n,)."""
        keep = keep_all(batch)
        for level, limit, _ in _hard_limits(profile, self.symbols):
            if batch.knows(self.symbols[level]):
                keep &= batch.symbol(self.symbols[level]) <= limit
        return keep

    def reason(self, symbols: Mapping[str, float], profile: HardwareProfile) -> str:
        """Name each scratchpad that is too small."""
        limits = list(_hard_limits(profile, self.symbols))
        found = [
            f"{symbols[name]:.15g} bytes in {level}, which holds {limit} ({profile.name}, memory.{level}.{field})"
            for level, limit, field in limits
            if (name := self.symbols[level]) in symbols and symbols[name] > limit
        ]
        known = ", ".join(f"{level} {limit}" for level, limit, _ in limits) or f"none known of {profile.name}"
        return "; ".join(found) or f"a tile larger than its scratchpad (bytes: {known})"


class SharedScratchpads(Scratchpads):
    """A tile with its whole reduction is larger than the scratchpad that cores share: a guess, it may stream."""

    name, kind, order = "rules.shared-scratchpads", RuleKind.HEURISTIC, 72
    hardware_basis = basis(SHARED_SYMBOLS)
    symbols = SHARED_SYMBOLS


def _hard_limits(profile: HardwareProfile, symbols: Mapping[str, str]) -> Iterator[tuple[str, int, str]]:
    """Scratchpads of a device that have symbols, the bytes a kernel may have, and the field that says so."""
    for memory in profile.memory:
        if memory.name in symbols and memory.is_hard_limit and memory.limit_bytes is not None:
            field = "usable_bytes" if memory.usable_bytes else "capacity_bytes"
            yield memory.name, memory.limit_bytes, field
