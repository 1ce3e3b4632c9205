"""How many values a digit of a loop takes, and where TVM's own answer cannot be foretold."""

from __future__ import annotations

from prune_engine.metaschedule.interpreter.tree import DigitNode, IterNode, LoopNode
from prune_engine.symbols.expr import ZERO, Expr, as_expr, both, ceildiv, either, minimum


def digit_span(digit: DigitNode) -> Expr:
    """How many values a digit takes while its whole loop runs."""
    if digit.is_whole:
        return digit.loop.extent
    if (digit.loop.extent % (digit.divisor * digit.modulus)).constant == 0:  # a digit of what was fused
        return digit.modulus
    return minimum(ceildiv(digit.loop.extent, digit.divisor), digit.modulus)


def is_unsure(it: IterNode, varying: set[LoopNode]) -> Expr:
    """1 where it cannot be told whether TVM finds a constant for an iterator's span while ``varying`` run.

    A reduction over a fused window that is split again is a quotient of loops inside and outside, and so is the
    group of an output channel. Of some such spans TVM makes a loop without a constant extent, which it then
    refuses (DisallowDynamicLoop). Where threads are bound, none was found that it does.
    """
    answer = ZERO
    for term in it.terms if it.is_virtual else ():
        if any(digit.loop.is_bound for digit in term.over):
            continue
        inside = outside = ZERO
        for digit in term.over:
            moves = as_expr(1).lt(digit_span(digit))
            if digit.loop in varying:
                inside = either(inside, moves)
            else:
                outside = either(outside, moves)
        answer = either(answer, ZERO if term.plain_loop else both(inside, outside))
    return answer
