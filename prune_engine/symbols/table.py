"""Symbols: named columns over a batch of candidates, each registered once with unit, meaning and source."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from prune_engine.errors import PluginContractError, PluginError

if TYPE_CHECKING:
    from prune_engine.candidates import CandidateBatch
    from prune_engine.symbols.expr import Expr
    from prune_engine.symbols.loop_nest import LoopNest

#: Changes whenever a symbol changes its meaning; model files and library rows carry it.
SYMBOLS_VERSION = 2

Column = NDArray[np.float64] | NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class SymbolDef:
    """One symbol: what it is, in which unit, where the formula comes from, and how it is computed.

    ``compute`` maps a batch of n candidates to a column float64 or int64 (n,). ``bound`` says within what
    the column lies, "" where nothing is known. ``formula`` is set where the column is one over loop nests:
    many of those are cheaper together, see `structure.nest_columns`.
    """

    name: str
    unit: str
    meaning: str
    source: str
    compute: Callable[[CandidateBatch], Column]
    bound: str = ""
    formula: Callable[[LoopNest], Expr] | None = None


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


def compute_column(definition: SymbolDef, batch: CandidateBatch) -> Column:
    """A symbol's column over a batch, read-only. Raises PluginContractError for a wrong shape or dtype."""
    column = definition.compute(batch)
    n = len(batch)
    if not isinstance(column, np.ndarray) or column.shape != (n,) or column.dtype not in (np.float64, np.int64):
        got = f"{column.dtype} {column.shape}" if isinstance(column, np.ndarray) else type(column).__name__
        raise PluginContractError(
            "a column broke its contract",
            who=f"symbol {definition.name}",
            got=got,
            expected=f"float64 or int64 ({n},)",
            remedy="Report it to the author of the plugin that registers it.",
        )
    view: Column = column.view()
    view.flags.writeable = False
    return view
