"""A loop nest run step by step for one candidate: what its loops really touch."""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from prune_engine.space import Sketch
from prune_engine.symbols.expr import Expr
from prune_engine.symbols.loop_nest import Access, LoopNest, Statement

_RULES: dict[str, Callable[..., int]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "floordiv": operator.floordiv,
    "mod": operator.mod,
    "ceildiv": lambda a, b: math.ceil(a / b),
    "min": min,
    "max": max,
    "eq": lambda a, b: int(a == b),
    "lt": lambda a, b: int(a < b),
    "le": lambda a, b: int(a <= b),
    "and": lambda a, b: int(bool(a and b)),
    "or": lambda a, b: int(bool(a or b)),
    "where": lambda c, a, b: a if c else b,
}

Element = tuple[int, ...]


@dataclass(frozen=True)
class Runner:
    """One candidate of a nest; ``row`` are its choices."""

    sketch: Sketch
    nest: LoopNest
    row: Sequence[int]

    def value(self, expr: Expr) -> int:
        if expr.op == "const":
            return expr.payload[0]
        if expr.op == "part":
            variable, number = expr.payload
            return int(self.sketch.variables[variable].table[self.row[variable], number])
        if expr.op == "rows":
            return expr.payload[1 + self.row[expr.payload[0]]]
        return _RULES[expr.op](*map(self.value, expr.args))

    def extents(self, statement: Statement) -> list[int]:
        return [self.value(loop.extent) for loop in statement.loops]

    def runs(self, statement: Statement, depth: int, loops: Collection[int] | None = None) -> list[list[list[int]]]:
        """For each turn of the loops outside ``depth``: the iterators' values of all turns inside.

        With ``loops``, those are what runs inside, and all others stand outside.
        """
        inner = list(range(depth, len(statement.loops))) if loops is None else sorted(loops)
        outer = [n for n in range(len(statement.loops)) if n not in inner]
        extents = self.extents(statement)
        terms = [
            [
                (
                    self.value(t.stride),
                    [(loop, self.value(stride)) for loop, stride in t.over],
                    self.value(t.divisor),
                    self.value(t.modulus),
                )
                for t in it.terms
            ]
            for it in statement.iterators
        ]
        limits = [self.value(it.extent) for it in statement.iterators]
        found = []
        for out in itertools.product(*(range(extents[n]) for n in outer)):
            turns = []
            for inside in itertools.product(*(range(extents[n]) for n in inner)):
                at = dict(zip([*outer, *inner], [*out, *inside], strict=True))
                its = [sum(s * (sum(at[n] * f for n, f in over) // d % m) for s, over, d, m in ts) for ts in terms]
                if all(0 <= i < limit for i, limit in zip(its, limits, strict=True)):
                    turns.append(its)
            found.append(turns)
        return found

    def touched(self, accesses: Sequence[Access], turns: Sequence[Sequence[int]]) -> set[Element]:
        elements: set[Element] = set()
        for access in accesses:
            forms = [(index.coefficients or (), index.offset) for index in access.indices]
            corners = {
                tuple(sum(its[i] * c for i, c in pairs) + offset for pairs, offset in forms) for its in turns
            }
            if all(index.width == 1 for index in access.indices):
                elements |= corners
                continue
            steps = list(itertools.product(*(range(index.width) for index in access.indices)))
            elements.update(tuple(map(sum, zip(c, step, strict=True))) for c in corners for step in steps)
        return elements


def box(elements: Collection[Element]) -> int:
    """Elements of the smallest box around some elements."""
    if not elements:
        return 0
    return math.prod(max(axis) - min(axis) + 1 for axis in zip(*elements, strict=True))


def longest_run(elements: Collection[Element], shape: Sequence[int]) -> int:
    """Length of the longest run of elements that follow each other in memory."""
    flat = sorted(_flat(e, shape) for e in elements)
    best = run = 1
    for before, after in itertools.pairwise(flat):
        run = run + 1 if after == before + 1 else 1
        best = max(best, run)
    return best


def _flat(element: Element, shape: Sequence[int]) -> int:
    position = 0
    for index, size in zip(element, shape, strict=True):
        position = position * size + index
    return position
