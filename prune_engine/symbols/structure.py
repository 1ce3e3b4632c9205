"""Which loop nest belongs to which candidate, and symbols as formulas over loop nests."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from prune_engine.errors import SpaceError
from prune_engine.space import Int32Array
from prune_engine.symbols.evaluate import CHUNK_ROWS, Evaluator, TableValues, evaluate
from prune_engine.symbols.expr import Expr, Int64Array
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

    def canonical(self, indices: Int32Array) -> NDArray[np.bool_]:
        """Whose decisions are those that run, bool (n,): ``LoopNest.is_canonical`` without reading every nest."""
        ...


Formula = Callable[[LoopNest], Expr]


def canonical_by_nests(source: NestSource, indices: Int32Array) -> NDArray[np.bool_]:
    """``NestSource.canonical`` for a source that has the nests at hand."""
    found = np.ones(len(indices), dtype=np.bool_)
    for group in source.groups(indices):
        rows = slice(None) if group.rows is None else group.rows
        found[rows] = evaluate([group.nest.is_canonical], source.tables, indices[rows])[0] != 0
    return found


def nest_symbol(name: str, unit: str, meaning: str, source: str, formula: Formula, *, bound: str = "") -> SymbolDef:
    """A symbol given by a formula over the loop nest; its column is int64 (n,).

    Asking for it raises SpaceError where the sketch could not be read (``batch.is_opaque``).
    """

    def compute(batch: CandidateBatch) -> Column:
        return nest_column(batch, name, formula)

    return SymbolDef(name, unit, meaning, source, compute, bound, formula)


def canonical_column(batch: CandidateBatch) -> NDArray[np.int64]:
    """1 where the decisions are those that run, int64 (n,). Raises SpaceError for an opaque batch."""
    return _source(batch, "is_canonical").canonical(batch.indices).astype(np.int64)


def nest_column(batch: CandidateBatch, name: str, formula: Formula) -> NDArray[np.int64]:
    """The column of a formula over the batch's loop nests, int64 (n,). ``name`` is what it is remembered by.

    Raises SpaceError for a batch whose sketch could not be read.
    """
    return nest_columns(batch, {name: formula})[name]


def nest_columns(batch: CandidateBatch, formulas: Mapping[str, Formula]) -> dict[str, NDArray[np.int64]]:
    """The columns of several formulas over the batch's loop nests, each int64 (n,), by name.

    Together they cost much less than one by one: what they have in common is computed once.
    Raises SpaceError for a batch whose sketch could not be read.
    """
    source = _source(batch, next(iter(formulas), ""))
    known = batch.shared.get(_SHARED)
    if not isinstance(known, _BatchColumns):
        known = batch.shared[_SHARED] = _BatchColumns(source, batch.indices)
    return known.of(formulas)


@dataclass(frozen=True, slots=True)
class GroupColumns:
    """Columns of the candidates that share one loop structure.

    ``rows`` are their positions in the batch (None: all of it, in order), ``columns`` has one int64 (len(rows),)
    per expression that was asked for, not to be written to.
    """

    nest: LoopNest
    rows: NDArray[np.int64] | None
    columns: list[Int64Array]


#: All expressions that are wanted of a nest: as many as its statements need.
NestFormulas = Callable[[LoopNest], Sequence[Expr]]


def group_columns(
    batch: CandidateBatch, formulas: NestFormulas, max_rows: int = CHUNK_ROWS
) -> Iterator[GroupColumns]:
    """Columns per loop structure, for what is computed statement by statement: structures differ in statements.

    Yields at most ``max_rows`` candidates at a time, so that what is made of the columns stays in a core's cache.
    ``formulas`` should remember what it makes, for instance in ``LoopNest.formulas``.
    Raises SpaceError for a batch whose sketch could not be read.
    """
    source = _source(batch, "columns per statement")
    for group in source.groups(batch.indices):
        wanted = formulas(group.nest)
        n = len(batch) if group.rows is None else len(group.rows)
        for start in range(0, n, max_rows):
            part = slice(start, min(start + max_rows, n))
            whole = group.rows is None and n <= max_rows
            rows = np.arange(part.start, part.stop) if group.rows is None else group.rows[part]
            indices = batch.indices[part] if group.rows is None else batch.indices[rows]
            yield GroupColumns(group.nest, None if whole else rows, evaluate(wanted, source.tables, indices))


_SHARED = "columns over loop nests"


class _BatchColumns:
    """A batch's candidates by structure; a small batch keeps every column on the way, for the next symbol."""

    def __init__(self, source: NestSource, indices: Int32Array) -> None:
        self._tables, self._n = source.tables, len(indices)
        self._groups = [
            (group, indices if group.rows is None else indices[group.rows]) for group in source.groups(indices)
        ]
        self._evaluators = [
            Evaluator(self._tables, rows) if self._n <= CHUNK_ROWS else None for _, rows in self._groups
        ]

    def of(self, formulas: Mapping[str, Formula]) -> dict[str, NDArray[np.int64]]:
        columns: dict[str, NDArray[np.int64]] = {}
        for (group, indices), evaluator in zip(self._groups, self._evaluators, strict=True):
            exprs = [_formula(group.nest, name, formula) for name, formula in formulas.items()]
            if evaluator is not None and len(exprs) == 1:
                found = [np.broadcast_to(evaluator(exprs[0]), (len(indices),))]
            else:
                found = evaluate(exprs, self._tables, indices)
            if group.rows is None:
                return dict(zip(formulas, found, strict=True))
            for name, values in zip(formulas, found, strict=True):
                columns.setdefault(name, np.empty(self._n, dtype=np.int64))[group.rows] = values
        return columns or {name: np.empty(0, dtype=np.int64) for name in formulas}


def _formula(nest: LoopNest, name: str, formula: Formula) -> Expr:
    if name not in nest.formulas:
        nest.formulas[name] = formula(nest)
    return nest.formulas[name]


def _source(batch: CandidateBatch, symbol: str) -> NestSource:
    if batch.sketch.nests is None:
        raise SpaceError(
            "a symbol of a sketch that could not be read was asked for",
            who=f"symbol {symbol!r}",
            got=batch.sketch.opaque_reason or "no loop nest",
            remedy="Ask batch.is_opaque first.",
        )
    return batch.sketch.nests
