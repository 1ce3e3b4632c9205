"""Loops that TVM finds no constant extent for, and so refuses (DisallowDynamicLoop).

A block that is moved under a loop covers, per dimension, what is needed there while the loops inside run. Where an
index is a quotient or a remainder of loops inside and outside, TVM's simplifier may not see that the ends of this
region are always as far apart. Which forms it sees through follows from hundreds of rewriting rules, so it is
asked itself: such a sum of loops hangs on one tile, and has as many forms as there are rows in its choice table.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache, reduce
from operator import add
from typing import Any

import numpy as np

from prune_engine.metaschedule._compat import import_tvm
from prune_engine.metaschedule.interpreter.spans import digit_span, split_span, term_reach
from prune_engine.metaschedule.interpreter.tree import CONSTANT, Dynamic, IndexNode, LoopNode, TermNode
from prune_engine.symbols.evaluate import TableValues
from prune_engine.symbols.expr import ZERO, Expr, as_expr, both, either, negate, per_row

#: Of one digit of a sum: whether its loop runs inside, the loop's extent, the digit's stride, divisor and modulus.
_Digit = tuple[bool, int, int, int, int]


@dataclass(frozen=True)
class _Rest:
    """What else is in an index: whether it comes before the quotient, and whether it moves inside and outside."""

    is_before: bool
    moves_inside: bool
    moves_outside: bool


def dynamic_extent(index: IndexNode, varying: set[LoopNode], tables: TableValues) -> Dynamic:
    """Where what an index needs while ``varying`` run has no constant extent. ``tables`` are the sketch's."""
    answer = CONSTANT
    for number, (it, coefficient) in enumerate(index.coefficients or ()):
        for term in it.terms if it.is_virtual else ():
            if term.plain_loop is None:
                step = term.stride * coefficient
                answer = answer.joined(_of_term(term, step, _rests(index, number, varying), varying, tables))
    return answer


def _rests(index: IndexNode, number: int, varying: set[LoopNode]) -> list[tuple[_Rest, Expr]]:
    """What the rest of an index may be like beside iterator ``number``, and 1 where it is."""
    inside: Expr = as_expr(int(index.width > 1))
    outside = ZERO
    for other, (it, _) in enumerate(index.coefficients or ()):
        if other != number:
            span, outer = split_span(it, varying)
            inside = either(inside, as_expr(1).lt(span))
            for term in outer:
                outside = either(outside, as_expr(1).lt(term_reach(term)))
    found = [
        (_Rest(number > 0, moves_inside, moves_outside), both(is_inside, is_outside))
        for moves_inside, is_inside in ((True, inside), (False, negate(inside)))
        for moves_outside, is_outside in ((True, outside), (False, negate(outside)))
    ]
    return [(rest, condition) for rest, condition in found if condition.constant != 0]


def _of_term(
    term: TermNode, step: Expr, rests: list[tuple[_Rest, Expr]], varying: set[LoopNode], tables: TableValues
) -> Dynamic:
    inside = outside = ZERO
    for digit in term.over:
        moves = as_expr(1).lt(digit_span(digit))
        if digit.loop in varying:
            inside = either(inside, moves)
        else:
            outside = either(outside, moves)
    is_split = both(inside, outside)
    if is_split.constant == 0:
        return CONSTANT
    numbers = [is_split, step, term.divisor, term.modulus, term.start]
    for digit in term.over:
        if digit.loop.is_bound:  # a digit of a fused loop: of its form only the bounds matter
            numbers += [digit_span(digit), digit.flat_stride, as_expr(1), digit_span(digit)]
        else:
            numbers += [digit.loop.extent, digit.flat_stride, digit.divisor, digit.modulus]
    variables = sorted({variable for number in numbers for variable in number.variables})
    if len(variables) > 1:
        return Dynamic(is_unsure=is_split)
    columns = np.broadcast_arrays(*(np.atleast_1d(tables.of(number)) for number in numbers))
    sums = [_sum_of(row, term, varying) if row[0] else None for row in np.stack(columns, axis=1).tolist()]
    is_certain = ZERO
    for rest, condition in rests:
        found = [0 if one is None else int(_is_dynamic(one, rest)) for one in sums]
        answer = per_row(variables[0], found) if variables else as_expr(found[0])
        is_certain = either(is_certain, both(condition, answer))
    return Dynamic(is_certain)


@dataclass(frozen=True)
class _Sum:
    """``step * ((sum of digits + start) // divisor % modulus)`` in numbers; loops that do not run are left out."""

    step: int
    divisor: int
    modulus: int
    start: int
    digits: tuple[_Digit, ...]


def _sum_of(row: list[int], term: TermNode, varying: set[LoopNode]) -> _Sum:
    _, step, divisor, modulus, start, *numbers = row
    digits: list[_Digit] = []
    for k, digit in enumerate(term.over):
        extent, stride, digit_divisor, digit_modulus = numbers[4 * k : 4 * k + 4]
        if extent > 1:
            digits.append((digit.loop in varying, extent, stride, digit_divisor, digit_modulus))
    return _Sum(step, divisor, modulus, start, tuple(digits))


@lru_cache(maxsize=1 << 16)
def _is_dynamic(one: _Sum, rest: _Rest) -> bool:
    """Whether TVM finds no constant extent, by the steps of compute_at.cc and of EvalSet in int_set.cc."""
    tvm = import_tvm()
    sym, tirx = tvm.sym, tvm.tirx
    outer, inner = sym.Analyzer(), {}

    def loop_of(name: str, extent: int, is_inside: bool) -> Any:
        loop = tirx.Var(name, "int64")
        if is_inside:
            inner[loop] = sym.IntervalSet(_number(0), _number(extent - 1))
        else:
            outer.bind(loop, tvm.ir.Range(_number(0), _number(extent)))
        return loop

    value, last = _number(one.start), one.start
    for k, (is_inside, extent, stride, divisor, modulus) in enumerate(one.digits):
        loop = loop_of(f"v{k}", extent, is_inside)
        digit = _cut(loop, extent - 1, divisor, modulus) * _number(stride)
        value = value + digit if k or one.start else digit
        last += stride * min((extent - 1) // divisor, modulus - 1)
    value = _cut(value, last, one.divisor, one.modulus) * _number(one.step)
    # How far the rest moves makes no difference.
    others = [loop_of("outer", 4, False) * _number(2)] if rest.moves_outside else []
    others += [loop_of("inner", max(one.step, 2), True)] if rest.moves_inside else []
    terms = [*others, value] if rest.is_before else [value, *others]
    value = reduce(add, terms)
    low = outer.simplify(sym.Analyzer().int_set(value, inner).min_value)
    # The upper end is written as ``value + 1 - 1``, and simplified before anything is known of the loops.
    high = outer.simplify(sym.Analyzer().int_set(sym.Analyzer().simplify(value), inner).max_value)
    low, high = (outer.simplify(outer.simplify(end(low, high))) for end in (tirx.min, tirx.max))
    extent = outer.simplify(sym.Analyzer().simplify(high + _number(1) - low))
    return not isinstance(extent, tirx.IntImm)


def _cut(value: Any, last: int, divisor: int, modulus: int) -> Any:
    """``value // divisor % modulus`` without what changes nothing; ``last`` is the largest that ``value`` is."""
    tirx = import_tvm().tirx
    if divisor > 1:
        value = tirx.floordiv(value, _number(divisor))
    return tirx.floormod(value, _number(modulus)) if last // divisor >= modulus else value


def _number(value: int) -> Any:
    return import_tvm().tirx.const(value, "int64")
