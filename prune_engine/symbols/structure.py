"""Which loop nest belongs to which candidate, and symbols as formulas over loop nests."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from prune_engine.errors import SpaceError
from prune_engine.space import Int32Array
from prune_engine.symbols.evaluate import TableValues, evaluate
from prune_engine.symbols.expr import Expr
from prune_engine.symbols.loop_nest import LoopNest
from prune_engine.symbols.table import Column, SymbolDef

if TYPE_CHECKING:
    from prune_engine.candidates import CandidateBatch


@dataclass(frozen=True, slots=True)
class NestGroup:
    """The candidates that share one loop structure: ``rows`` are their positions in the batch (None: all)."""

    nest: LoopNest
    rows: NDArray[np.int64] | None


class NestSource(Protocol):
    """What an adapter gives a sketch that it could read: the loop nests of any batch."""

    @property
    def tables(self) -> TableValues:
        """Values per row of the sketch's choice tables, kept for all batches."""
        ...

    def groups(self, indices: Int32Array) -> Sequence[NestGroup]:
        """The structures of candidates, int32 (n, v) row numbers; every row is in exactly one group."""
        ...


def nest_symbol(name: str, unit: str, meaning: str, source: str, formula: Callable[[LoopNest], Expr]) -> SymbolDef:
    """A symbol given by a formula over the loop nest; its column is int64 (n,).

    Asking for it raises SpaceError where the sketch could not be read (``batch.is_opaque``).
    """

    def compute(batch: CandidateBatch) -> Column:
        return nest_column(batch, name, formula)

    return SymbolDef(name, unit, meaning, source, compute)


def nest_column(batch: CandidateBatch, name: str, formula: Callable[[LoopNest], Expr]) -> NDArray[np.int64]:
    """The column of a formula over the batch's loop nests, int64 (n,). ``name`` is what it is remembered by.

    Raises SpaceError for a batch whose sketch could not be read.
    """
    source = batch.sketch.nests
    if source is None:
        raise SpaceError(
            "a symbol of a sketch that could not be read was asked for",
            who=f"symbol {name!r}",
            got=batch.sketch.opaque_reason or "no loop nest",
            remedy="Ask batch.is_opaque first.",
        )
    groups = source.groups(batch.indices)
    if len(groups) == 1 and groups[0].rows is None:
        return evaluate([_formula(groups[0].nest, name, formula)], source.tables, batch.indices)[0]
    column = np.zeros(len(batch), dtype=np.int64)
    for group in groups:
        rows = np.arange(len(batch)) if group.rows is None else group.rows
        column[rows] = evaluate([_formula(group.nest, name, formula)], source.tables, batch.indices[rows])[0]
    return column


def _formula(nest: LoopNest, name: str, formula: Callable[[LoopNest], Expr]) -> Expr:
    if name not in nest.formulas:
        nest.formulas[name] = formula(nest)
    return nest.formulas[name]
