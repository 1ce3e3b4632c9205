"""Expressions as a list of steps over reused buffers: what evaluates millions of candidates.

Columns between the asked-for ones live in a few buffers that stay in a core's cache, and a buffer is taken again
once its column has been used for the last time. A step then costs about a nanosecond per candidate; with
fresh memory for every column it costs ten times that.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from prune_engine.space import Int32Array
from prune_engine.symbols.expr import CONDITIONS, Expr, Int64Array

#: Rows at a time. A column of a chunk takes 64 KiB, and those in use at once stay in a core's second-level cache:
#: half as many rows pay more for starting steps, twice as many gain nothing.
CHUNK_ROWS = 8192

#: Columns and constants by number, each int64 or bool, (rows of the chunk,) or ().
_Columns = list[NDArray[Any]]
_Step = Callable[[_Columns], object]


class Program:
    """Computes the columns of several expressions. Made once, run on any batch of the sketch."""

    def __init__(self, exprs: Sequence[Expr], table_of: Callable[[Expr], Int64Array]) -> None:
        """``table_of`` gives the value of an expression of at most one variable per row of its table."""
        # Constants and repeated expressions are answered without a column of their own.
        varying = list(dict.fromkeys(expr for expr in exprs if expr.variables))
        self._answers = [varying.index(e) if e.variables else table_of(e) for e in exprs]
        compiled = _Compiler(varying, table_of)
        self._steps, self._n_outputs = compiled.steps, len(varying)
        self._kinds, self._constants = compiled.kinds, compiled.constants
        self._variables = compiled.variables

    def __call__(self, indices: Int32Array) -> list[Int64Array]:
        """The columns, each int64 (n,), not to be written to: equal expressions share one.

        ``indices`` is int32 (n, v), row numbers of the sketch's choice tables.
        """
        n = len(indices)
        outputs = [np.empty(n, dtype=np.int64) for _ in range(self._n_outputs)]
        buffers: _Columns = [np.empty(min(n, CHUNK_ROWS), dtype=kind) for kind in self._kinds]
        rows = {v: np.empty(min(n, CHUNK_ROWS), dtype=np.intp) for v in self._variables}
        for start in range(0, n, CHUNK_ROWS):
            stop = min(start + CHUNK_ROWS, n)
            size = stop - start
            for v, numbers in rows.items():
                numbers[:size] = indices[start:stop, v]
            columns: _Columns = [
                *(column[start:stop] for column in outputs),
                *self._constants,
                *(buffer[:size] for buffer in buffers),
                *(rows[v][:size] for v in self._variables),
            ]
            for step in self._steps:
                step(columns)
        return [outputs[a] if isinstance(a, int) else filled(a, n) for a in self._answers]


def filled(number: Int64Array, n: int) -> Int64Array:
    """A column of one number, int64 (n,), not to be written to. ``number`` is int64 ()."""
    # Broadcasting takes no memory, but several times as long as writing a short column.
    return np.full(n, number, dtype=np.int64) if n <= CHUNK_ROWS else np.broadcast_to(number, (n,))


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a column is: in a buffer, an output or among the constants; ``number`` counts within them."""

    group: str
    number: int
    is_bool: bool = False


#: Operations that numpy does in one call and that may write over an argument.
_UFUNCS: Final[dict[str, np.ufunc]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "floordiv": np.floor_divide,
    "mod": np.mod,
    "min": np.minimum,
    "max": np.maximum,
    "eq": np.equal,
    "lt": np.less,
    "le": np.less_equal,
    "and": np.logical_and,
    "or": np.logical_or,
}


class _Compiler:
    """Puts expressions in order, shares what is equal and gives every column a place."""

    def __init__(self, exprs: Sequence[Expr], table_of: Callable[[Expr], Int64Array]) -> None:
        self.steps: list[_Step] = []
        self.kinds: list[type] = []
        self.constants: list[NDArray[Any]] = []
        self.variables = sorted({v for expr in exprs for v in expr.variables})
        self._table_of = table_of
        self._places: dict[Expr, _Place] = {}
        self._free: dict[bool, list[int]] = {False: [], True: []}
        self._uses: dict[Expr, int] = {}
        self._pending: list[Callable[[Callable[[_Place], int]], _Step]] = []
        self._outputs: dict[Expr, int] = {}
        for expr in exprs:
            self._count_uses(expr)
        for number, expr in enumerate(exprs):
            self._output(expr, number)
        n_outputs, n_constants = len(exprs), len(self.constants)
        starts = {"output": 0, "constant": n_outputs, "buffer": n_outputs + n_constants}
        starts["rows"] = starts["buffer"] + len(self.kinds)
        self.steps = [make(lambda place: starts[place.group] + place.number) for make in self._pending]

    def _count_uses(self, expr: Expr) -> None:
        """How often a column is read, each reader counted once: a depth-first walk without recursion limits."""
        stack = [expr]
        while stack:
            one = stack.pop()
            self._uses[one] = self._uses.get(one, 0) + 1
            if self._uses[one] == 1 and len(one.variables) > 1:
                stack.extend(one.args)

    def _output(self, expr: Expr, number: int) -> None:
        target = _Place("output", number)
        for below in self._below(expr):
            self._place(below)
        if len(expr.variables) <= 1 or expr in self._places or expr.op in CONDITIONS:
            source = self._place(expr)
            self._pending.append(lambda at, a=source, o=target: _copy(at(a), at(o)))  # type: ignore[misc]
            self._used(expr)
            return
        self._outputs[expr] = number
        self._compute(expr)
        self._used(expr)

    def _below(self, expr: Expr) -> list[Expr]:
        """What has to be computed first, in order; again without recursion."""
        found: dict[Expr, None] = {}
        stack = [(expr, False)]
        while stack:
            one, is_ready = stack.pop()
            if one in self._places or one in found:
                continue
            if is_ready or len(one.variables) <= 1:
                found[one] = None
            else:
                stack.append((one, True))
                stack.extend((arg, False) for arg in reversed(one.args))
        found.pop(expr, None)
        return list(found)

    def _place(self, expr: Expr) -> _Place:
        """Where the column of an expression is, computed by the steps so far."""
        if expr not in self._places:
            if not expr.variables:
                self.constants.append(self._table_of(expr))
                self._places[expr] = _Place("constant", len(self.constants) - 1)
            elif len(expr.variables) == 1:
                self._gather(expr)
            else:
                self._compute(expr)
        return self._places[expr]

    def _gather(self, expr: Expr) -> None:
        table = self._table_of(expr)
        is_bool = expr.op in CONDITIONS  # kept in bytes: an eighth of the memory to go through
        target = self._take_buffer(is_bool=is_bool)
        rows = _Place("rows", self.variables.index(expr.variables[0]))
        values = table.astype(np.bool_) if is_bool else table
        self._pending.append(lambda at: _gather_step(values, at(rows), at(target)))
        self._places[expr] = target

    def _compute(self, expr: Expr) -> None:
        arguments = [self._place(arg) for arg in expr.args]
        is_bool = expr.op in CONDITIONS
        in_place = expr.op in _UFUNCS
        if in_place:
            self._release(expr)
        if expr in self._outputs:
            target = _Place("output", self._outputs[expr])
        else:
            target = self._take_buffer(is_bool=is_bool)
        mixed = not is_bool and any(a.is_bool for a in arguments)
        self._pending.append(lambda at: _operation(expr.op, [at(a) for a in arguments], at(target), mixed))
        if not in_place:
            self._release(expr)
        self._places[expr] = target

    def _release(self, expr: Expr) -> None:
        for arg in expr.args:
            self._used(arg)

    def _used(self, expr: Expr) -> None:
        self._uses[expr] -= 1
        place = self._places[expr]
        if not self._uses[expr] and place.group == "buffer":
            self._free[place.is_bool].append(place.number)

    def _take_buffer(self, *, is_bool: bool) -> _Place:
        if not self._free[is_bool]:
            self.kinds.append(np.bool_ if is_bool else np.int64)
            self._free[is_bool].append(len(self.kinds) - 1)
        return _Place("buffer", self._free[is_bool].pop(), is_bool)


def _copy(source: int, target: int) -> _Step:
    return lambda c: np.copyto(c[target], c[source])


def _gather_step(table: NDArray[Any], rows: int, target: int) -> _Step:
    # The mode keeps numpy from making a copy; row numbers are in range.
    return lambda c: np.take(table, c[rows], out=c[target], mode="clip")


def _operation(op: str, arguments: list[int], target: int, mixed: bool) -> _Step:
    """The step of an operation. ``mixed`` says that conditions are counted with, as numbers."""
    if op == "where":
        condition, then, otherwise = arguments
        return lambda c: _choose(c[condition], c[then], c[otherwise], c[target])
    a, b = arguments
    if op == "ceildiv":
        return lambda c: _ceildiv(c[a], c[b], c[target])
    ufunc = _UFUNCS[op]
    if mixed:
        return lambda c: ufunc(c[a], c[b], out=c[target], dtype=np.int64)
    return lambda c: ufunc(c[a], c[b], out=c[target])


def _choose(condition: NDArray[Any], then: Int64Array, otherwise: Int64Array, target: Int64Array) -> None:
    np.copyto(target, otherwise)
    np.putmask(target, condition, then)  # half the time of a copy with a mask


def _ceildiv(a: Int64Array, b: Int64Array, target: Int64Array) -> None:
    np.add(a, b, out=target)
    np.subtract(target, 1, out=target)
    np.floor_divide(target, b, out=target)
