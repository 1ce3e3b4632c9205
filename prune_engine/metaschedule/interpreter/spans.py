"""How many values a digit, a term or an iterator takes while some loops run."""

from __future__ import annotations

from dataclasses import replace

from prune_engine.metaschedule.interpreter.tree import DigitNode, IterNode, LoopNode, TermNode
from prune_engine.symbols.expr import Expr, ceildiv, minimum, total


def digit_span(digit: DigitNode) -> Expr:
    """How many values a digit takes while its whole loop runs."""
    if digit.is_whole:
        return digit.loop.extent
    if (digit.loop.extent % (digit.divisor * digit.modulus)).constant == 0:  # a digit of what was fused
        return digit.modulus
    return minimum(ceildiv(digit.loop.extent, digit.divisor), digit.modulus)


def split_span(it: IterNode, varying: set[LoopNode]) -> tuple[Expr, list[TermNode]]:
    """How many values an iterator takes while ``varying`` run, and what is left of its terms outside."""
    steps: list[Expr] = []
    outer: list[TermNode] = []
    for term in it.terms:
        inner_digits = [d for d in term.over if d.loop in varying]
        outer_digits = tuple(d for d in term.over if d.loop not in varying)
        if inner_digits:
            flat = total(d.flat_stride * (digit_span(d) - 1) for d in inner_digits) + 1
            span = flat if _is_plain(term) else minimum(term.modulus, ceildiv(flat, term.divisor))
            steps.append(term.stride * (span - 1))
        if outer_digits:
            outer.append(replace(term, over=outer_digits))
    span = total(steps) + 1
    return (span if it.extent.constant is None or it.stays_inside else minimum(span, it.extent)), outer


def term_reach(term: TermNode) -> Expr:
    """How many values a term's digit takes while all its loops run."""
    if _is_plain(term):
        return term.modulus
    flat = total(d.flat_stride * (digit_span(d) - 1) for d in term.over) + 1
    return minimum(term.modulus, ceildiv(flat, term.divisor))


def _is_plain(term: TermNode) -> bool:
    return term.plain_loop is not None
