"""How much of a buffer is allocated: after TVM's CompactBufferAllocation (compact_buffer_region.cc)."""

from __future__ import annotations

from dataclasses import replace
from itertools import takewhile

from prune_engine.metaschedule.interpreter.compute_at import (
    Interval,
    box_of,
    is_shared_among,
    reach,
    union,
    varying_loops,
)
from prune_engine.metaschedule.interpreter.layouts import physical, physical_shape
from prune_engine.metaschedule.interpreter.postprocs import Processed
from prune_engine.metaschedule.interpreter.quotients import Place, overestimated
from prune_engine.metaschedule.interpreter.spans import term_reach
from prune_engine.metaschedule.interpreter.tree import (
    BlockNode,
    BufferNode,
    DigitNode,
    LoopNode,
    NotInterpretedError,
    TermNode,
    loops_of,
)
from prune_engine.symbols.expr import Expr, as_expr, both, either, maximum, minimum, product, total, where
from prune_engine.symbols.gpu_legality import aligned_elements
from prune_engine.symbols.loop_nest import LoopKind


def stored_elements(done: Processed, buffer: BufferNode) -> Expr:
    """Elements allocated: the box that is live at the innermost loop around all that touch the buffer."""
    uses = [
        (block, access)
        for block in done.tree.blocks()
        for access in (*block.reads, *block.writes)
        if access.buffer is buffer
    ]
    shape = physical_shape(buffer)
    if not uses:
        return product(shape)
    around = [loops_of(block) for block, _ in uses]
    around += [around_init(done, b) for b in done.inits if any(a.buffer is buffer for a in b.writes)]
    loop = _common_loop(around)
    boxes: list[list[Interval]] = []
    places: list[Place] = []
    axes: dict[LoopKind, LoopNode] = {}
    for block, access in uses:
        varying = varying_loops(block, loop, buffer.scope)
        # Whatever loop is bound to it, a thread axis is there from the start of the kernel: it does not vary
        # for what each thread has of its own, and it is the same in all statements.
        own = {x for x in varying if x.is_bound and not is_shared_among(buffer.scope, x.kind)}
        boxes.append([_along_axes(interval, axes) for interval in box_of(access, varying - own)])
        places.append(Place(loops_of(block), done.kinds, varying - own))
    extents: list[Expr] = []
    for dimension, size in enumerate(shape):
        try:
            extents.append(kept_extent(done, union([box[dimension] for box in boxes]), size))
        except NotInterpretedError:  # different places of it: all of it is kept
            extents.append(size)
        for (_, access), place in zip(uses, places, strict=True):
            extents[-1] = overestimated(physical(access)[dimension], place, extents[-1])
    return aligned(extents, buffer)


def _along_axes(interval: Interval, axes: dict[LoopKind, LoopNode]) -> Interval:
    """An interval with one loop for each thread axis."""

    def moved(digit: DigitNode) -> DigitNode:
        loop = axes.setdefault(digit.loop.kind, digit.loop) if digit.loop.is_bound else digit.loop
        return digit if loop is digit.loop else replace(digit, loop=loop)

    base = tuple((c, replace(term, over=tuple(map(moved, term.over)))) for c, term in interval.base)
    return replace(interval, base=base)


def aligned(extents: list[Expr], buffer: BufferNode) -> Expr:
    """Elements of a box, with the padding of a storage_align."""
    if buffer.alignment is None:
        return product(extents)
    axis, factor, offset = buffer.alignment
    axis = axis % len(extents)
    return aligned_elements(product(extents[: axis + 1]), product(extents[axis + 1 :]), factor, offset)


def _common_loop(around: list[list[LoopNode]]) -> LoopNode | None:
    common = around[0]
    for other in around[1:]:
        common = [a for a, b in zip(common, other, strict=False) if a is b]
    return common[-1] if common else None


def kept_extent(done: Processed, interval: Interval, size: Expr) -> Expr:
    """How much of a dimension of ``size`` is allocated for an interval of it that moves along with outer loops.

    TVM allocates the interval where it stays in the dimension and what is left of it where it does not move.
    Where it both moves and may leave it, what is left has no constant extent: that is the whole dimension, but
    for single elements and where several loops move it, which TVM cannot take apart.
    """
    if interval.is_inside:
        return minimum(interval.extent, size)
    moves, low = reach(interval), interval.low
    high = interval.extent + (interval.low - 1)
    lies_in = both(as_expr(0).le(low), (high + moves).lt(size))
    cut = minimum(high, size - 1) - maximum(low, 0) + 1
    n_moving = _n_moving(done, [term for _, term in interval.base])
    is_kept = either(as_expr(1).lt(n_moving), interval.extent.eq(1))
    left = where(is_kept, minimum(interval.extent, size), size)
    return where(lies_in, interval.extent, where(moves.eq(0), cut, left))


def _n_moving(done: Processed, terms: list[TermNode]) -> Expr:
    """How many loops move an interval, once neighbours that run in parallel are one loop."""
    number = total(as_expr(1).lt(term_reach(term)) for term in terms)
    for k, outer in enumerate(terms):
        between = as_expr(1)
        for inner in terms[k + 1 :]:
            joined = both(_runs_in_parallel(done, outer), _runs_in_parallel(done, inner))
            moves = both(as_expr(1).lt(term_reach(outer)), as_expr(1).lt(term_reach(inner)))
            number = number - both(both(joined, moves), both(between, _are_neighbours(outer, inner)))
            between = both(between, term_reach(inner).eq(1))
    return number


def _runs_in_parallel(done: Processed, term: TermNode) -> Expr:
    loop = term.plain_loop
    return as_expr(0) if loop is None else done.kinds[loop].eq(int(LoopKind.PARALLEL))


def _are_neighbours(outer: TermNode, inner: TermNode) -> Expr:
    """1 where all loops between two are unit loops."""
    first, last = outer.plain_loop, inner.plain_loop
    if first is None or last is None:
        return as_expr(0)
    around = loops_of(last)
    if first not in around:
        return as_expr(0)
    return product(loop.extent for loop in around[around.index(first) + 1 :]).eq(1)


def around_init(done: Processed, block: BlockNode) -> list[LoopNode]:
    """The loops around a reduction that its initialisation shares: those before the first that reduces anything."""
    return list(takewhile(lambda loop: done.parallel[loop].constant == 1, loops_of(block)))
