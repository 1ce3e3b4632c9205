"""Loops that TVM finds no constant extent for, and so refuses (DisallowDynamicLoop).

A block that is moved under a loop covers, per dimension, what is needed there while the loops inside run. Where an
index is a quotient or a remainder of loops inside and outside, TVM's simplifier may not see that the ends of this
region are always as far apart. Which forms it sees through follows from hundreds of rewriting rules, so it is
asked itself: such a sum of loops hangs on one tile, and has as many forms as there are rows in its choice table.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from prune_engine.metaschedule._compat import import_tvm
from prune_engine.metaschedule.interpreter.spans import digit_span
from prune_engine.metaschedule.interpreter.tree import CONSTANT, Dynamic, IndexNode, LoopNode, TermNode
from prune_engine.symbols.evaluate import TableValues
from prune_engine.symbols.expr import ZERO, as_expr, both, either, per_row

#: Of one digit of a sum: whether its loop runs inside, the loop's extent, the digit's stride, divisor and modulus.
_Digit = tuple[bool, int, int, int, int]


def dynamic_extent(index: IndexNode, varying: set[LoopNode], tables: TableValues) -> Dynamic:
    """Where what an index needs while ``varying`` run has no constant extent. ``tables`` are the sketch's."""
    answer = CONSTANT
    for it, _ in index.coefficients or ():
        for term in it.terms if it.is_virtual else ():
            # Where threads are bound, none was found that TVM does not see through.
            if term.plain_loop is None and not any(digit.loop.is_bound for digit in term.over):
                answer = answer.joined(_of_term(term, varying, tables))
    return answer


def _of_term(term: TermNode, varying: set[LoopNode], tables: TableValues) -> Dynamic:
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
    numbers = [is_split, term.divisor, term.modulus, term.start]
    for digit in term.over:
        numbers += [digit.loop.extent, digit.flat_stride, digit.divisor, digit.modulus]
    variables = sorted({variable for number in numbers for variable in number.variables})
    if len(variables) > 1:
        return Dynamic(is_unsure=is_split)
    columns = np.broadcast_arrays(*(np.atleast_1d(tables.of(number)) for number in numbers))
    are_inside = [digit.loop in varying for digit in term.over]
    found: list[int] = []
    for split, divisor, modulus, start, *digits in np.stack(columns, axis=1).tolist():
        sides = [(inside, *digits[4 * k : 4 * k + 4]) for k, inside in enumerate(are_inside)]
        running = tuple(side for side in sides if side[1] > 1)
        found.append(int(split and _is_dynamic(running, start, divisor, modulus)))
    return Dynamic(per_row(variables[0], found) if variables else as_expr(found[0]))


@lru_cache(maxsize=1 << 16)
def _is_dynamic(digits: tuple[_Digit, ...], start: int, divisor: int, modulus: int) -> bool:
    """Whether ``(sum of digits + start) // divisor % modulus`` has no constant extent.

    By the steps of compute_at.cc, and of EvalSet in int_set.cc.
    """
    tvm = import_tvm()
    sym, tirx = tvm.sym, tvm.tirx
    outer, inner = sym.Analyzer(), {}
    value, last = _number(start), start
    for k, (is_inside, extent, stride, digit_divisor, digit_modulus) in enumerate(digits):
        loop = tirx.Var(f"v{k}", "int64")
        if is_inside:
            inner[loop] = sym.IntervalSet(_number(0), _number(extent - 1))
        else:
            outer.bind(loop, tvm.ir.Range(_number(0), _number(extent)))
        digit = _cut(loop, extent - 1, digit_divisor, digit_modulus) * _number(stride)
        value = value + digit if k or start else digit
        last += stride * min((extent - 1) // digit_divisor, digit_modulus - 1)
    value = _cut(value, last, divisor, modulus)
    low = outer.simplify(sym.Analyzer().int_set(value, inner).min_value)
    # The upper end is written as ``value + 1 - 1``, and simplified before anything is known of the loops.
    high = outer.simplify(sym.Analyzer().int_set(sym.Analyzer().simplify(value), inner).max_value)
    low, high = (outer.simplify(outer.simplify(end(low, high))) for end in (tirx.min, tirx.max))
    return not isinstance(outer.simplify(high - low + _number(1)), tirx.IntImm)


def _cut(value: Any, last: int, divisor: int, modulus: int) -> Any:
    """``value // divisor % modulus`` without what changes nothing; ``last`` is the largest that ``value`` is."""
    tirx = import_tvm().tirx
    if divisor > 1:
        value = tirx.floordiv(value, _number(divisor))
    return tirx.floormod(value, _number(modulus)) if last // divisor >= modulus else value


def _number(value: int) -> Any:
    return import_tvm().tirx.const(value, "int64")
