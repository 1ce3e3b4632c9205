"""Expressions evaluated for a batch of candidates: columns in, columns out, in flat memory."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from prune_engine.space import Int32Array, Sketch
from prune_engine.symbols.expr import OPERATIONS, Expr, Int64Array

#: Rows at a time: the columns of a chunk (128 KiB each) stay in a core's second-level cache.
CHUNK_ROWS = 16384


class TableValues:
    """Values of expressions of one variable (or none), per row of its choice table; kept as long as the sketch."""

    def __init__(self, sketch: Sketch) -> None:
        self._tables = [variable.table for variable in sketch.variables]
        self._known: dict[Expr, Int64Array] = {}

    def of(self, expr: Expr) -> Int64Array:
        """The value for each row of the variable's table, int64 (m,), or int64 () for a constant."""
        known = self._known.get(expr)
        if known is None:
            if expr.op == "const":
                known = np.asarray(expr.payload[0], dtype=np.int64)
            elif expr.op == "part":
                variable, number = expr.payload
                known = self._tables[variable][:, number].astype(np.int64)
            else:
                known = np.asarray(OPERATIONS[expr.op](*(self.of(arg) for arg in expr.args)))
            known.flags.writeable = False
            self._known[expr] = known
        return known


class Evaluator:
    """Evaluates expressions for candidates. Remembers every column: make one per chunk."""

    def __init__(self, tables: TableValues, indices: Int32Array) -> None:
        """``indices`` is int32 (n, v), row numbers of the sketch's choice tables."""
        self._tables, self._indices = tables, indices
        self._rows: dict[int, np.ndarray[tuple[int], np.dtype[np.intp]]] = {}
        self._known: dict[Expr, Int64Array] = {}

    def __call__(self, expr: Expr) -> Int64Array:
        """The column, int64 (n,), or int64 () where it is the same number for all."""
        known = self._known.get(expr)
        if known is None:
            if not expr.variables:
                known = self._tables.of(expr)
            elif len(expr.variables) == 1:
                known = self._tables.of(expr)[self._row_numbers(expr.variables[0])]
            else:
                known = np.asarray(OPERATIONS[expr.op](*(self(arg) for arg in expr.args)))
            self._known[expr] = known
        return known

    def _row_numbers(self, variable: int) -> np.ndarray[tuple[int], np.dtype[np.intp]]:
        if variable not in self._rows:
            self._rows[variable] = self._indices[:, variable].astype(np.intp)
        return self._rows[variable]


def evaluate(exprs: Sequence[Expr], tables: TableValues, indices: Int32Array) -> list[Int64Array]:
    """Columns of several expressions, each int64 (n,), chunk by chunk, so that what lies between needs no room."""
    n = len(indices)
    columns = [np.empty(n, dtype=np.int64) for _ in exprs]
    for start in range(0, n, CHUNK_ROWS):
        chunk = slice(start, min(start + CHUNK_ROWS, n))
        evaluator = Evaluator(tables, indices[chunk])
        for column, expr in zip(columns, exprs, strict=True):
            column[chunk] = evaluator(expr)
    return columns
