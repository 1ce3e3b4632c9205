"""Why a rule drops a candidate: its own words, and the numbers it looked at."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

import numpy as np

from prune_engine.candidates import CandidateBatch
from prune_engine.errors import PluginContractError, SpaceError
from prune_engine.hardware.schema import HardwareProfile
from prune_engine.strategies import Rule


class CandidateSymbols(Mapping[str, float]):
    """The symbols of one candidate by name, computed when asked for. ``asked`` holds those that were."""

    def __init__(self, batch: CandidateBatch, row: int) -> None:
        self._batch = batch.take(np.array([row]))
        self._names = {**batch.space.symbols, **batch.space.given}
        self.asked: dict[str, float] = {}

    def __getitem__(self, name: str) -> float:
        """A symbol's value. Raises KeyError for one that is not registered, or that this sketch has not."""
        if name not in self.asked:
            if name not in self._names:
                raise KeyError(name)
            try:
                self.asked[name] = float(self._batch.symbol(name)[0])
            except SpaceError as error:
                raise KeyError(name) from error
        return self.asked[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


def reason_of(rule: Rule, symbols: Mapping[str, float], profile: HardwareProfile) -> tuple[str, dict[str, float]]:
    """A rule's reason, and the symbols it read as evidence.

    Raises whatever the rule raises, and PluginContractError for anything but a line of text.
    """
    reason = rule.reason(symbols, profile)
    if not isinstance(reason, str) or not reason.strip() or "\n" in reason:
        raise PluginContractError(
            "reason broke its contract",
            who=f"strategy {rule.name}",
            got=repr(reason),
            expected="one line of text",
            remedy="Report it to the plugin's author, or block the plugin.",
        )
    asked = symbols.asked if isinstance(symbols, CandidateSymbols) else {}
    return reason, {name: value for name, value in asked.items() if math.isfinite(value)}
