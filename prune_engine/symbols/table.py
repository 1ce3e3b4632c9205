"""Symbols: named columns over a batch of candidates, each registered once with unit, meaning and source."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from prune_engine.candidates import CandidateBatch
from prune_engine.errors import PluginError

#: Changes whenever a symbol changes its meaning; model files and library rows carry it.
SYMBOLS_VERSION = 1

Column = NDArray[np.float64] | NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class SymbolDef:
    """One symbol: what it is, in which unit, where the formula comes from, and how it is computed.

    ``compute`` maps a batch of n candidates to a column float64 or int64 (n,).
    """

    name: str
    unit: str
    meaning: str
    source: str
    compute: Callable[[CandidateBatch], Column]


def symbol_table(definitions: Iterable[SymbolDef]) -> Mapping[str, SymbolDef]:
    """Index definitions by name. Raises PluginError when two share one."""
    table: dict[str, SymbolDef] = {}
    for definition in definitions:
        if definition.name in table:
            raise PluginError(
                "two symbols of one name",
                who=f"symbol {definition.name!r}",
                expected="one definition per name",
                remedy="Prefix a plugin's symbols with the plugin's name.",
            )
        table[definition.name] = definition
    return table
