"""What moves: bytes that cross into a memory, working sets at each depth, reuse distances.

The rule of traffic: a memory that holds what is touched from some depth inwards is refilled on every turn of the
loops outside, except on those of the loops right outside that do not move the buffer's region.
"""

from __future__ import annotations

from functools import partial

from prune_engine.symbols.bands import (
    OUTER_KINDS,
    in_chunk,
    kernels,
    possible_kinds,
    repeated_axes,
    together_at,
)
from prune_engine.symbols.expr import Expr, as_expr, maximum, product, total, where
from prune_engine.symbols.footprint import Region, indexing_loops, loops_from, regions, remembered, remembered_of
from prune_engine.symbols.loop_nest import LoopNest, Statement


def turns(statement: Statement, buffer: str, depth: int) -> Expr:
    """How often the region of a buffer at a depth is brought in: the turns of the loops outside that change it.

    Loops that run in parallel always count, since their turns share no memory.
    """
    return remembered_of(
        statement, ("turns", buffer, depth, statement.kinds), lambda: _turns(statement, buffer, depth)
    )


def _turns(statement: Statement, buffer: str, depth: int) -> Expr:
    indexing = frozenset[int]().union(
        *(indexing_loops(statement, access) for access in statement.accesses if access.buffer == buffer)
    )
    repeated = repeated_axes(statement)
    result, still = as_expr(1), as_expr(1)
    for number in reversed(range(depth)):
        loop = statement.loops[number]
        if number in repeated:
            continue
        if number in indexing or possible_kinds(loop.kind) & set(OUTER_KINDS):
            result, still = _skipping(result, still) * loop.extent, as_expr(1)
        else:
            still = still * loop.extent
    return _skipping(result, still)


def working_set_bytes(nest: LoopNest, number: int, depth: int) -> Expr:
    """Bytes touched in one turn of the ``depth`` outermost loops of statement ``number``.

    All statements in those loops count. A buffer that several of them touch counts once, with the largest region.
    """
    return remembered(nest, f"working set of {number} at {depth}", partial(_working_set_bytes, nest, number, depth))


def _working_set_bytes(nest: LoopNest, number: int, depth: int) -> Expr:
    found: dict[str, Expr] = {}
    for other in together_at(nest, number, depth):
        statement = nest.statements[other]
        for region in regions(nest, statement, loops_from(statement, depth)):
            known = found.get(region.buffer.name)
            found[region.buffer.name] = region.bytes if known is None else maximum(known, region.bytes)
    return total(found.values())


def traffic_bytes(nest: LoopNest, statement: Statement, depth: int) -> Expr:
    """Bytes that the statement moves into and out of a memory which holds what is touched at a depth.

    What is both read and written crosses twice.
    """
    return total(
        moved * (int(region.is_read) + int(region.is_written)) for region, moved in _moved(nest, statement, depth)
    )


def traffic_at_capacity_bytes(nest: LoopNest, number: int, capacity_bytes: int) -> Expr:
    """Bytes that statement ``number`` moves into and out of a memory of a given size.

    The memory holds the working set of the outermost depth at which it fits, or else of one instance.
    """
    statement = nest.statements[number]
    result = traffic_bytes(nest, statement, len(statement.loops))
    for depth in reversed(range(len(statement.loops))):
        if statement.loops[depth].extent.constant == 1:
            continue
        fits = working_set_bytes(nest, number, depth).le(capacity_bytes)
        result = where(fits, traffic_bytes(nest, statement, depth), result)
    return result


def reuse_distance_bytes(nest: LoopNest, number: int, buffer: str) -> Expr:
    """Bytes touched between two uses of an element of a buffer by statement ``number``.

    That is the working set of one turn of the innermost loop of more than one turn that leaves the buffer's
    region in place; that of the whole statement where there is none.
    """
    statement = nest.statements[number]
    indexing = frozenset[int]().union(
        *(indexing_loops(statement, access) for access in statement.accesses if access.buffer == buffer)
    )
    distance = working_set_bytes(nest, number, 0)
    for depth, loop in enumerate(statement.loops):
        if depth not in indexing and loop.extent.constant != 1:
            distance = where(as_expr(1).lt(loop.extent), working_set_bytes(nest, number, depth + 1), distance)
    return distance


def dram_traffic_bytes(nest: LoopNest) -> Expr:
    """Bytes between off-chip memory and the chunks (turns of the parallel loops, or blocks) of all kernels.

    Each chunk reads what it touches of global memory once and writes once what it makes; what an earlier
    statement of the same kernel wrote is not read again.
    """
    return total(
        moved
        for kernel in kernels(nest)
        for direction in _kernel_traffic(nest, kernel)
        for moved in direction.values()
    )


def _kernel_traffic(nest: LoopNest, kernel: range) -> tuple[dict[str, Expr], dict[str, Expr]]:
    reads: dict[str, Expr] = {}
    writes: dict[str, Expr] = {}
    for number in kernel:
        statement = nest.statements[number]
        written_before = set(writes)
        for name in dict.fromkeys(access.buffer for access in statement.accesses):
            if nest.buffers[name].scope != "global":
                continue
            moved = chunk_traffic_bytes(nest, statement, name)
            mine = [access for access in statement.accesses if access.buffer == name]
            if name not in written_before and any(not access.is_write for access in mine):
                reads[name] = maximum(reads[name], moved) if name in reads else moved
            if any(access.is_write for access in mine):
                writes[name] = maximum(writes[name], moved) if name in writes else moved
    return reads, writes


def chunk_traffic_bytes(nest: LoopNest, statement: Statement, buffer: str) -> Expr:
    """Bytes of one buffer that all chunks together bring in (or out) once each."""

    def at(depth: int) -> Expr:
        region = next(r for r in regions(nest, statement, loops_from(statement, depth)) if r.buffer.name == buffer)
        return region.bytes * turns(statement, buffer, depth)

    own = nest.buffers[buffer]
    key = "chunk traffic", buffer, own.shape, own.item_bytes, statement.kinds
    return remembered_of(statement, key, lambda: in_chunk(statement, at))


def _moved(nest: LoopNest, statement: Statement, depth: int) -> list[tuple[Region, Expr]]:
    return [
        (region, product([region.bytes, turns(statement, region.buffer.name, depth)]))
        for region in regions(nest, statement, loops_from(statement, depth))
    ]


def _skipping(turns_inside: Expr, still: Expr) -> Expr:
    """Turns of loops that leave a region in place count only if something inside them moves it."""
    if turns_inside.constant == 1 or still.constant == 1:
        return turns_inside
    return turns_inside * where(turns_inside.eq(1), 1, still)
