"""Which loop nest belongs to which candidate, and symbols as formulas over loop nests."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from prune_engine.candidates import Divisible
from prune_engine.errors import SpaceError
from prune_engine.space import Int32Array
from prune_engine.symbols.evaluate import CHUNK_ROWS, Evaluator, TableValues, evaluate
from prune_engine.symbols.expr import Expr, Int64Array
from prune_engine.symbols.loop_nest import LoopNest
from prune_engine.symbols.program import filled
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
    return _columns_of(batch, next(iter(formulas), "")).of(formulas)


def _columns_of(batch: CandidateBatch, asked_for: str) -> _BatchColumns:
    source = _source(batch, asked_for)
    known = batch.shared.get(_SHARED)
    if not isinstance(known, _BatchColumns):
        known = batch.shared[_SHARED] = _BatchColumns(source, batch.indices)
    return known


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
    known = _columns_of(batch, "columns per statement")
    for group in known.groups:
        wanted = formulas(group.nest)
        n = len(batch) if group.rows is None else len(group.rows)
        for start in range(0, n, max_rows):
            part = slice(start, min(start + max_rows, n))
            whole = group.rows is None and n <= max_rows
            rows = np.arange(part.start, part.stop) if group.rows is None else group.rows[part]
            yield GroupColumns(group.nest, None if whole else rows, known.at(wanted, rows))


_SHARED = "columns over loop nests"
#: Batches of fewer candidates, and those with fewer of each structure, are evaluated operation by operation: making
#: a program takes as long as evaluating it for some thousands.
_FEW_ROWS, _FEW_OF_STRUCTURE = 2048, 512


class _BatchColumns(Divisible):
    """A batch's candidates by structure; a small batch keeps every column on the way, for the next symbol.

    Structures differ in few of their loops, so that most of what there is to work out is the same for all of them:
    where each has few candidates, an expression is worked out for the candidates of all.
    """

    def __init__(
        self,
        source: NestSource,
        indices: Int32Array,
        groups: Callable[[], Sequence[NestGroup]] | None = None,
        above: Callable[[Expr], Int64Array | None] | None = None,
    ) -> None:
        """``groups`` gives the groups of the candidates, where that is easier than to ask the source.

        ``above`` gives columns that are known of a batch which the candidates were taken from.
        """
        self._source, self._tables, self._indices, self._n = source, source.tables, indices, len(indices)
        self._above = above
        self._grouped = groups or partial(source.groups, indices)
        self._evaluators: dict[int, Evaluator] = {}

    @cached_property
    def groups(self) -> Sequence[NestGroup]:
        """The candidates by structure."""
        return self._grouped()

    @cached_property
    def _whole(self) -> _Stretches | None:
        is_few = self._n <= _FEW_ROWS or self._n < _FEW_OF_STRUCTURE * len(self.groups)
        return _Stretches(self._tables, self._indices, self._above) if is_few else None

    @cached_property
    def _structures(self) -> tuple[list[LoopNest], NDArray[np.intp]]:
        """The nests, and the number of each candidate's nest, (n,)."""
        numbers = np.zeros(self._n, dtype=np.intp)
        for number, group in enumerate(self.groups):
            numbers[slice(None) if group.rows is None else group.rows] = number
        return [group.nest for group in self.groups], numbers

    def part(self, indices: Int32Array, rows: NDArray[np.integer] | NDArray[np.bool_]) -> _BatchColumns:
        """Columns of some of the candidates, whose structures are known, and of what was worked out of them."""
        nests, numbers = self._structures
        above = None if self._whole is None else partial(self._whole.known_at, rows)
        return _BatchColumns(self._source, indices, partial(_grouped, nests, numbers[rows]), above)

    def of(self, formulas: Mapping[str, Formula]) -> dict[str, NDArray[np.int64]]:
        columns: dict[str, NDArray[np.int64]] = {}
        for number, group in enumerate(self.groups):
            exprs = [_formula(group.nest, name, formula) for name, formula in formulas.items()]
            found = self._evaluated(number, exprs)
            if group.rows is None:
                return dict(zip(formulas, found, strict=True))
            for name, values in zip(formulas, found, strict=True):
                columns.setdefault(name, np.empty(self._n, dtype=np.int64))[group.rows] = values
        return columns or {name: np.empty(0, dtype=np.int64) for name in formulas}

    def at(self, exprs: Sequence[Expr], rows: NDArray[np.int64]) -> list[Int64Array]:
        """The columns of expressions at some rows of the batch, each int64 (m,)."""
        if self._whole is not None:
            return [self._whole(expr, rows) for expr in exprs]
        return evaluate(exprs, self._tables, self._indices[rows])

    def _evaluated(self, number: int, exprs: Sequence[Expr]) -> list[Int64Array]:
        """The columns of expressions over one group's nest, each int64 (rows of the group,)."""
        rows = self.groups[number].rows
        if self._whole is not None:
            return [self._whole(expr, rows) for expr in exprs]
        indices = self._indices if rows is None else self._indices[rows]
        if len(exprs) > 1 or self._n > CHUNK_ROWS:
            return evaluate(exprs, self._tables, indices)
        if number not in self._evaluators:
            self._evaluators[number] = Evaluator(self._tables, indices)
        column = self._evaluators[number](exprs[0])
        return [column if column.ndim else filled(column, len(indices))]


def _grouped(nests: Sequence[LoopNest], numbers: NDArray[np.intp]) -> list[NestGroup]:
    """The groups of candidates of which ``nests[numbers[i]]`` is that of candidate i."""
    if len(nests) == 1:
        return [NestGroup(nests[0], None)]
    present = np.flatnonzero(np.bincount(numbers, minlength=len(nests))).tolist()
    return [NestGroup(nests[number], np.flatnonzero(numbers == number)) for number in present]


class _Stretches:
    """Evaluates expressions for a whole batch, a stretch of it at a time, and remembers every column."""

    def __init__(
        self, tables: TableValues, indices: Int32Array, above: Callable[[Expr], Int64Array | None] | None
    ) -> None:
        """``above`` gives the column of an expression for the whole batch, if it is known."""
        n = len(indices)
        cuts = [slice(start, min(start + _FEW_ROWS, n)) for start in range(0, n, _FEW_ROWS)]
        # Stretches would ask for inner expressions, each for its part of the column: only what is asked of all is.
        within = above if len(cuts) == 1 else None
        self._n, self._parts = n, [(cut, Evaluator(tables, indices[cut], within)) for cut in cuts]
        self._above = above
        self._known: dict[Expr, Int64Array] = {}

    def __call__(self, expr: Expr, rows: NDArray[np.int64] | None) -> Int64Array:
        """The column at ``rows`` (None: all), int64 (m,)."""
        column = self._parts[0][1](expr) if len(self._parts) == 1 else self._joined(expr)
        if not column.ndim:
            return filled(column, self._n if rows is None else len(rows))
        return column if rows is None else column[rows]

    def known_at(self, rows: NDArray[np.integer] | NDArray[np.bool_], expr: Expr) -> Int64Array | None:
        """The column at some rows, int64 (m,), if it was worked out before, for these candidates or for more."""
        known = self._parts[0][1].known if len(self._parts) == 1 else self._known
        column = known.get(expr)
        if column is None and self._above is not None:
            column = self._above(expr)
        return column if column is None or not column.ndim else column[rows]

    def _joined(self, expr: Expr) -> Int64Array:
        if expr not in self._known:
            found = None if self._above is None else self._above(expr)
            self._known[expr] = self._in_parts(expr) if found is None else found
        return self._known[expr]

    def _in_parts(self, expr: Expr) -> Int64Array:
        column = np.empty(self._n, dtype=np.int64)
        for cut, evaluator in self._parts:
            column[cut] = evaluator(expr)
        return column


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
