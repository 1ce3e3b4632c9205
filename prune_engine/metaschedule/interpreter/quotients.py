"""Regions that TVM overestimates: an index ``i // d * s + j``, where ``i`` moves within the region and outside.

A grouped convolution reads channels so: ``i`` is the output channel, ``d`` the output channels of a group, ``s``
its input channels. CompactBufferAllocation (compact_buffer_region.cc) writes the ends of such a region as
differences of quotients of blockIdx, does not see that they are the same quotient, and allocates the most that
their bounds allow. What that comes to was found by trying out; no source states it.
"""

from __future__ import annotations

from prune_engine.metaschedule.interpreter.compute_at import digit_span, split_span, term_reach
from prune_engine.metaschedule.interpreter.tree import IndexNode, IterNode, LoopNode, TermNode
from prune_engine.symbols.expr import Expr, as_expr, both, negate, product, total, where


def overestimated(index: IndexNode, varying: set[LoopNode], size: Expr, extent: Expr) -> Expr:
    """The extent that TVM allocates of a dimension of ``size`` for an index, ``extent`` where it sees clearly.

    ``varying`` are the loops that run within the region.
    """
    for it, coefficient in index.coefficients or ():
        for term in it.terms:
            others = [other for other, _ in index.coefficients or () if other is not it]
            if (term.divisor.constant or 1) > 1 and others:
                extent = _with_quotient(term, coefficient, others, varying, size, extent)
    return extent


def _with_quotient(
    term: TermNode, coefficient: int, others: list[IterNode], varying: set[LoopNode], size: Expr, extent: Expr
) -> Expr:
    outside = [digit for digit in term.over if digit.loop not in varying]
    inside = [digit for digit in term.over if digit.loop in varying]
    if len(outside) != 1 or not inside:
        return extent
    (place,) = outside
    step, group = place.flat_stride, term.divisor
    # Nothing else moves it outside, and a step outside is less than a group.
    is_alone = product(term_reach(t) for it in others for t in split_span(it, varying)[1]).eq(1)
    is_part = both(as_expr(1).lt(step), negate((step % group).eq(0)))
    # A loop that counts nothing else is its own quotient, which TVM does see.
    is_unclear = both(both(is_alone, is_part), as_expr(1).lt(place.divisor))
    n_moving = total(as_expr(1).lt(digit_span(d)) for d in inside)
    is_digit = total(both(as_expr(1).lt(digit_span(d)), as_expr(1).lt(d.divisor)) for d in inside)
    is_twice = both(both(n_moving.eq(1), is_digit.eq(1)), (step * 2).lt(group))
    return where(is_unclear, size + (is_twice + 1) * (term.stride * coefficient), extent)
