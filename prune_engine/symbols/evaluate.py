"""Expressions evaluated for a batch of candidates: columns in, columns out, in flat memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from prune_engine.space import Int32Array, Sketch
from prune_engine.symbols.expr import ON_NUMBERS, OPERATIONS, Expr, Int64Array
from prune_engine.symbols.program import CHUNK_ROWS as CHUNK_ROWS
from prune_engine.symbols.program import Program


class TableValues:
    """Values of expressions of one variable (or none), per row of its choice table; kept as long as the sketch."""

    def __init__(self, sketch: Sketch) -> None:
        self._tables = [variable.table for variable in sketch.variables]
        self._known: dict[Expr, Int64Array] = {}
        self._programs: dict[tuple[Expr, ...], Program] = {}

    def of(self, expr: Expr) -> Int64Array:
        """The value for each row of the variable's table, int64 (m,), or int64 () for a constant."""
        known = self._known.get(expr)
        if known is None:
            if expr.op == "const":
                known = np.asarray(expr.payload[0], dtype=np.int64)
            elif expr.op == "part":
                variable, number = expr.payload
                known = self._tables[variable][:, number].astype(np.int64)
            elif expr.op == "rows":
                known = np.array(expr.payload[1:], dtype=np.int64)
            else:
                known = np.asarray(OPERATIONS[expr.op](*(self.of(arg) for arg in expr.args)))
            known.flags.writeable = False
            self._known[expr] = known
        return known

    def program(self, exprs: Sequence[Expr]) -> Program:
        """The steps that compute these expressions, kept for the next batch."""
        key = tuple(exprs)
        if key not in self._programs:
            self._programs[key] = Program(key, self.of)
        return self._programs[key]

    def forget(self) -> None:
        """Let go of all values: they are worked out again when asked for."""
        self._known.clear()
        self._programs.clear()


class Evaluator:
    """Evaluates expressions one by one. Remembers every column: for small batches only."""

    def __init__(
        self, tables: TableValues, indices: Int32Array, above: Callable[[Expr], Int64Array | None] | None = None
    ) -> None:
        """``indices`` is int32 (n, v), row numbers of the sketch's choice tables.

        ``above`` gives the column of an expression that joins variables, int64 (n,) or (), if somebody has it.
        """
        self._tables, self._indices, self._above = tables, indices, above
        self._rows: dict[int, np.ndarray[tuple[int], np.dtype[np.intp]]] = {}
        self.known: dict[Expr, Int64Array] = {}

    def __call__(self, expr: Expr) -> Int64Array:
        """The column, int64 (n,), or int64 () where it is the same number for all."""
        known = self.known.get(expr)
        if known is None:
            known = self.known[expr] = self._worked_out(expr)
        return known

    def _worked_out(self, expr: Expr) -> Int64Array:
        n_variables = len(expr.variables)
        if n_variables < 2:
            table = self._tables.of(expr)
            return table[self._row_numbers(expr.variables[0])] if n_variables else table
        if self._above is not None and (found := self._above(expr)) is not None:
            return found
        # Tens of thousands of small columns a round: what is known already is not worth a call.
        get = self.known.get
        columns = [self(arg) if (column := get(arg)) is None else column for arg in expr.args]
        return OPERATIONS[expr.op](*columns)

    def _row_numbers(self, variable: int) -> np.ndarray[tuple[int], np.dtype[np.intp]]:
        if variable not in self._rows:
            self._rows[variable] = self._indices[:, variable].astype(np.intp)
        return self._rows[variable]


def evaluate(exprs: Sequence[Expr], tables: TableValues, indices: Int32Array) -> list[Int64Array]:
    """Columns of several expressions, each int64 (n,), chunk by chunk, so that what lies between needs no room."""
    return tables.program(exprs)(indices)


def numbers(exprs: Sequence[Expr], tables: TableValues, row: Int32Array) -> list[int]:
    """The values of expressions for one candidate, int32 (v,): for a few of them, where columns would not pay."""
    known: dict[Expr, int] = {}

    def value(expr: Expr) -> int:
        if expr not in known:
            if expr.constant is not None:
                known[expr] = expr.constant
            elif expr.op in ("part", "rows"):
                known[expr] = int(tables.of(expr)[row[expr.payload[0]]])
            elif expr.op == "where":
                condition, then, otherwise = expr.args
                known[expr] = value(then) if value(condition) else value(otherwise)
            else:
                a, b = expr.args
                known[expr] = ON_NUMBERS[expr.op](value(a), value(b))
        return known[expr]

    return [value(expr) for expr in exprs]
