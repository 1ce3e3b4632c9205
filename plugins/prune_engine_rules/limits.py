"""What rules of the form "a symbol is at most a number of the profile" share."""

from __future__ import annotations

import abc
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from prune_engine.candidates import CandidateBatch
from prune_engine.hardware.schema import HardwareProfile
from prune_engine.strategies import Rule
from prune_engine.verdicts import BoolArray


@dataclass(frozen=True, slots=True)
class Bound:
    """The most that a symbol may be, and where that number comes from: profile fields and factors."""

    value: float
    origin: str


class SymbolBound(Rule, abc.ABC):
    """Drop candidates whose ``symbol`` is more than ``bound`` allows; keep all if that is unknown.

    ``what`` names the symbol's quantity in reasons, with its unit.
    """

    symbol: ClassVar[str]
    what: ClassVar[str]

    @abc.abstractmethod
    def bound(self, profile: HardwareProfile) -> Bound | None:
        """The bound on a device, or None if the profile does not give it or it means nothing there."""

    def mask(self, batch: CandidateBatch, profile: HardwareProfile) -> BoolArray:
        """Keep what is within the bound; bool (n,)."""
        bound = self.bound(profile)
        if bound is None or not batch.knows(self.symbol):
            return keep_all(batch)
        return np.asarray(batch.symbol(self.symbol) <= bound.value)

    def reason(self, symbols: Mapping[str, float], profile: HardwareProfile) -> str:
        """Say how much it is, and what the device has."""
        bound = self.bound(profile)
        if bound is None:
            return f"{self.what}: {profile.name} gives no limit"
        limit = f"{bound.value:.15g} ({profile.name}, {bound.origin})"
        if self.symbol not in symbols:
            return f"{self.what}: more than {limit}"
        return f"{self.what}: {symbols[self.symbol]:.15g}, more than {limit}"


def keep_all(batch: CandidateBatch) -> BoolArray:
    """A mask that drops nothing, bool (n,)."""
    return np.ones(len(batch), dtype=np.bool_)


def profile_bound(profile: HardwareProfile, path: str, factor: float = 1) -> Bound | None:
    """``factor`` times the number at a path of the profile, or None if it is unknown."""
    value = profile.value(path)
    if value is None:
        return None
    return Bound(factor * value, path if factor == 1 else f"{factor:.15g} x {path}")
