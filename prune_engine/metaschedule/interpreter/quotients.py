"""Regions that TVM overestimates: an index ``i // d * s + j``, where ``i`` moves within the region and outside.

A grouped convolution reads channels so: ``i`` is the output channel, ``d`` the output channels of a group, ``s``
its input channels. CompactBufferAllocation (compact_buffer_region.cc) writes the ends of such a region as
differences of quotients of a fused loop, does not see that they are the same quotient, and allocates the most that
their bounds allow. What that comes to was found by trying out; no source states it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from prune_engine.metaschedule.interpreter.spans import digit_span, split_span, term_reach
from prune_engine.metaschedule.interpreter.tree import DigitNode, IndexNode, IterNode, LoopNode, TermNode
from prune_engine.symbols.expr import Expr, as_expr, both, ceildiv, either, negate, product, total, where
from prune_engine.symbols.loop_nest import LoopKind


@dataclass(frozen=True)
class Place:
    """Where a region is: the loops around it, outermost first, what kinds they become, and which run within it."""

    around: Sequence[LoopNode]
    kinds: Mapping[LoopNode, Expr]
    varying: set[LoopNode]


def overestimated(index: IndexNode, place: Place, extent: Expr) -> Expr:
    """The extent that TVM allocates of a dimension for an index, ``extent`` where it sees clearly."""
    for it, coefficient, term in _quotients(index):
        others = [other for other, _ in index.coefficients or () if other is not it]
        extent = _with_quotient(term, term.stride * coefficient, others, place, extent)
    return extent


def is_beyond_trial(index: IndexNode) -> bool:
    """Whether what TVM allocates for an index was never tried out: of groups, only powers of two were."""
    numbers = [n.constant for _, _, term in _quotients(index) for n in (term.divisor, term.modulus)]
    return any(n is None or n & (n - 1) for n in numbers)


def _quotients(index: IndexNode) -> Iterator[tuple[IterNode, int, TermNode]]:
    """The terms of an index that are quotients beside something else, each with its iterator and coefficient."""
    for it, coefficient in index.coefficients or ():
        for term in it.terms:
            if (term.divisor.constant or 1) > 1 and len(index.coefficients or ()) > 1:
                yield it, coefficient, term


def _with_quotient(term: TermNode, step: Expr, others: list[IterNode], place: Place, extent: Expr) -> Expr:
    outside = [digit for digit in term.over if digit.loop not in place.varying]
    inside = [digit for digit in term.over if digit.loop in place.varying]
    if not outside:
        return extent
    group, width = term.divisor, outside[-1].flat_stride
    # Digits that move by whole groups drop out; the others, with what moves inside, reach over so many groups.
    unclear = [negate((stride % group).eq(0)) for stride in _strides(outside, place)]
    moved = total(u * (d.flat_stride * (digit_span(d) - 1)) for u, d in zip(unclear, outside, strict=True))
    n_groups = ceildiv(width + moved, group)
    is_fused, is_rounded = as_expr(0), as_expr(0)
    for u, digit in zip(unclear, outside, strict=True):
        is_part = both(u, _is_part_of_loop(digit, term, place))
        is_fused = either(is_fused, is_part)
        divisor = _divisor(digit, place)
        is_same = both(as_expr(1).lt(divisor), digit.flat_stride.eq(divisor))
        is_rounded = either(is_rounded, both(is_part, is_same))
    is_apart = as_expr(0)
    for u, d in zip(unclear, outside, strict=True):
        if d.is_whole:
            moves = both(u, as_expr(1).lt(d.loop.extent))
            is_apart = either(is_apart, both(moves, negate(_is_parallel(d.loop, place))))
    # Nothing else moves it outside, and it moves inside.
    is_alone = product(term_reach(t) for it in others for t in split_span(it, place.varying)[1]).eq(1)
    is_wide = both(both(is_fused, is_alone), as_expr(1).lt(width))
    # Next to another loop ``p // k * k`` becomes ``p - p % k``, whatever else there is.
    is_odd = both(is_rounded, is_apart)
    n_beyond = where(is_wide, n_groups + _is_twice(inside, width, group), where(is_odd, n_groups - 1, 0))
    return where(as_expr(1).lt(n_groups), extent + n_beyond * step, extent)


def _strides(outside: list[DigitNode], place: Place) -> list[Expr]:
    """By digit: its step, or that of the next where both are neighbours in one parallel loop, and so one digit."""
    strides = [outside[-1].flat_stride]
    for digit, following in zip(reversed(outside[:-1]), reversed(outside[1:]), strict=True):
        first, last = place.around.index(digit.loop), place.around.index(following.loop)
        between = product(loop.extent for loop in place.around[first + 1 : last])
        is_one = both(_is_parallel(following.loop, place), between.eq(1))
        strides.append(where(is_one, strides[-1], digit.flat_stride))
    return strides[::-1]


def _is_part_of_loop(digit: DigitNode, term: TermNode, place: Place) -> Expr:
    """1 where a digit is one of several in a fused loop. A loop of its own TVM does see through."""
    if not digit.is_whole:
        return digit.modulus.lt(digit.loop.extent)
    own = {d.loop for d in term.over}
    others = product(
        where(_is_parallel(loop, place), loop.extent, 1)
        for loop in place.around
        if loop not in own and loop not in place.varying
    )
    return both(both(_is_parallel(digit.loop, place), as_expr(1).lt(digit.loop.extent)), as_expr(1).lt(others))


def _divisor(digit: DigitNode, place: Place) -> Expr:
    """What a digit of a fused loop is divided by."""
    if not digit.is_whole:
        return digit.divisor
    following = place.around[place.around.index(digit.loop) + 1 :]
    return product(
        where(_is_parallel(loop, place), loop.extent, 1) for loop in following if loop not in place.varying
    )


def _is_parallel(loop: LoopNode, place: Place) -> Expr:
    return place.kinds[loop].eq(int(LoopKind.PARALLEL))


def _is_twice(inside: list[DigitNode], width: Expr, group: Expr) -> Expr:
    """1 where what moves inside is one digit of a fused loop: TVM's bounds are a group further apart."""
    n_moving = total(as_expr(1).lt(digit_span(d)) for d in inside)
    n_digits = total(both(as_expr(1).lt(digit_span(d)), as_expr(1).lt(d.divisor)) for d in inside)
    return both(both(n_moving.eq(1), n_digits.eq(1)), (width * 2).lt(group))
