"""How many values a digit of a loop takes."""

from __future__ import annotations

from prune_engine.metaschedule.interpreter.tree import DigitNode
from prune_engine.symbols.expr import Expr, ceildiv, minimum


def digit_span(digit: DigitNode) -> Expr:
    """How many values a digit takes while its whole loop runs."""
    if digit.is_whole:
        return digit.loop.extent
    if (digit.loop.extent % (digit.divisor * digit.modulus)).constant == 0:  # a digit of what was fused
        return digit.modulus
    return minimum(ceildiv(digit.loop.extent, digit.divisor), digit.modulus)
