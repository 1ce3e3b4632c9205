"""Counts of one statement: executed instances, operations, vector lanes, unrolled bodies, tile sizes."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from prune_engine.symbols.bands import (
    inner_tile_depth,
    is_kind,
    possible_kinds,
    reduction_loops,
    repeated_axes,
)
from prune_engine.symbols.expr import Expr, as_expr, both, maximum, product, where
from prune_engine.symbols.footprint import loops_from, values
from prune_engine.symbols.loop_nest import (
    BLOCK_KINDS,
    THREAD_KINDS,
    Access,
    LoopKind,
    LoopNest,
    Statement,
    extent_if,
)


class Tile(NamedTuple):
    """A tile as a matrix product has one: rows, columns, reduction steps. See `tile`."""

    m: Expr
    n: Expr
    k: Expr


def executed_instances(statement: Statement) -> Expr:
    """How often the statement runs, all threads and blocks together, padding of imperfect splits included.

    Not its `instances` where two loops are bound to one thread axis (they are the same threads) or where a
    virtual thread's loop does not move it (it is then run once for all of them).
    """
    skipped = repeated_axes(statement)
    moving = {loop for it in statement.iterators for term in it.terms for loop, _ in term.over}
    return product(
        loop.extent
        for number, loop in enumerate(statement.loops)
        if number not in skipped and (number in moving or loop.kind.constant != LoopKind.VTHREAD)
    )


def flops(statement: Statement) -> Expr:
    """Operations of the statement."""
    return executed_instances(statement) * statement.flop_count


def axis_extent(statement: Statement, kind: LoopKind) -> Expr:
    """Extent of a thread or block axis around the statement, 1 without it."""
    result = as_expr(1)
    for loop in statement.loops:
        if kind in possible_kinds(loop.kind):
            extent = extent_if(loop, (kind,))
            result = extent if result.constant == 1 else maximum(result, extent)
    return result


def extent_of(statement: Statement, kinds: Collection[LoopKind]) -> Expr:
    """Product of the extents of loops of these kinds, 1 without any."""
    return product(
        where(is_kind(loop, kinds), loop.extent, 1)
        for loop in statement.loops
        if possible_kinds(loop.kind) & set(kinds)
    )


def vector_lanes(statement: Statement) -> Expr:
    """Lanes of the statement's vectorised loops, 1 without any."""
    return extent_of(statement, (LoopKind.VECTORIZED,))


def vector_bytes(nest: LoopNest, statement: Statement) -> Expr:
    """Bytes of the statement's widest access: its lanes by the largest element it touches."""
    return vector_lanes(statement) * max(nest.buffers[access.buffer].item_bytes for access in statement.accesses)


def per_thread_loops(statement: Statement) -> frozenset[int]:
    """Loops that one thread (one core's turn of the parallel loops) runs: all but blocks, threads, parallel."""
    apart = {LoopKind.PARALLEL, *BLOCK_KINDS, *THREAD_KINDS}
    return frozenset(n for n, loop in enumerate(statement.loops) if not possible_kinds(loop.kind) <= apart)


def per_thread_tile_loops(statement: Statement) -> frozenset[int]:
    """The spatial loops that one thread runs: with the reduction standing still they make its register tile."""
    return per_thread_loops(statement) - reduction_loops(statement)


def unrolled_instances(statement: Statement) -> Expr:
    """Instances that the unrolled loops around the statement expand to in the generated code.

    From inside out, a serial loop is unrolled as long as the bodies so far times its extent stay within the
    limit; loops marked as unrolled always are. Vector loops are instructions by then and count as one.
    (The rule of TVM's UnrollLoop with its limit of nested loops at 8; other statements in the same loops
    would use up part of the limit and are not looked at, so this is an upper bound.)
    """
    bodies, is_open = as_expr(1), as_expr(1)
    for loop in reversed(statement.loops):
        kinds = possible_kinds(loop.kind)
        if loop.extent.constant == 1 or kinds <= {LoopKind.VECTORIZED}:
            continue
        always = is_kind(loop, (LoopKind.UNROLLED, LoopKind.VTHREAD, LoopKind.VECTORIZED))
        extent = where(is_kind(loop, (LoopKind.VECTORIZED,)), 1, loop.extent)
        grown = bodies * extent
        fits = both(is_open, both(is_kind(loop, (LoopKind.SERIAL,)), grown.le(statement.unroll_steps)))
        # A loop of one turn is no loop.
        is_open = where(loop.extent.eq(1), is_open, where(always, is_open, fits))
        bodies = where(always, grown, where(fits, grown, bodies))
    return bodies


def tile(nest: LoopNest, statement: Statement) -> Tile:
    """The innermost tile of a statement with its reduction, in the terms of a matrix product.

    k: steps of all reduction iterators. n: spatial iterators that index the same operands as the one along
    the output's last dimension; m: the other spatial ones, but for those that index every operand (a batch).
    For a matrix product they are its own; for a convolution in NHWC n are output channels and m pixels, in
    NCHW the other way round. With less than two operands, n is the output's last dimension alone and m the
    rest. A statement that is a matrix instruction multiplies its own tile in.
    """
    running = loops_from(statement, inner_tile_depth(statement))
    groups = tile_iterators(nest, statement)
    sizes = [product(values(statement, it, running) for it in group) for group in groups]
    if statement.tile is not None:
        sizes = [size * own for size, own in zip(sizes, statement.tile, strict=True)]
    return Tile(*sizes)


def tile_iterators(nest: LoopNest, statement: Statement) -> tuple[list[int], list[int], list[int]]:
    """The numbers of the iterators that make m, n and k of a statement's `tile`."""
    reduction = [n for n, it in enumerate(statement.iterators) if it.is_reduction]
    spatial = [n for n, it in enumerate(statement.iterators) if not it.is_reduction]
    last = last_dimension_iterators(nest, statement)
    operands = operand_accesses(statement)
    indexed = {n: frozenset(b for b, access in operands.items() if n in _iterators_of(access)) for n in spatial}
    if len(operands) < 2 or not last or len(set(indexed.values())) < 2:
        return [n for n in spatial if n not in last], [n for n in spatial if n in last], reduction
    columns = [n for n in spatial if n in last or indexed[n] == indexed[last[0]]]
    rows = [n for n in spatial if n not in columns and len(indexed[n]) < len(operands)]
    return rows, columns, reduction


def operand_accesses(statement: Statement) -> dict[str, Access]:
    """The first read of each buffer that the statement does not write, by buffer."""
    written = {access.buffer for access in statement.accesses if access.is_write}
    operands: dict[str, Access] = {}
    for access in statement.accesses:
        if access.buffer not in written:
            operands.setdefault(access.buffer, access)
    return operands


def output_access(statement: Statement) -> Access | None:
    """The statement's first write, if it has one."""
    return next((access for access in statement.accesses if access.is_write), None)


def last_dimension_iterators(nest: LoopNest, statement: Statement) -> list[int]:
    """The iterators along the last dimension of more than one element of what the statement writes."""
    output = output_access(statement)
    if output is None:
        return []
    for index, size in zip(reversed(output.indices), reversed(nest.buffers[output.buffer].shape), strict=True):
        if size != 1 and index.coefficients:
            return [number for number, coefficient in index.coefficients if coefficient]
    return []


def _iterators_of(access: Access) -> frozenset[int]:
    return frozenset(n for index in access.indices for n, coefficient in index.coefficients or () if coefficient)
