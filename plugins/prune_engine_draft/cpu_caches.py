"""What a statement moves between a core's caches: whole lines, and only as much as the sets of a cache hold.

A cache of w ways holds w lines per set. Rows a power of two apart fall into few sets, so that a small tile of a
matrix whose rows are 2 KiB long does not stay in a first-level cache with room for ten of it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from prune_engine.symbols.bands import together_at
from prune_engine.symbols.expr import Expr, as_expr, both, ceildiv, maximum, minimum, product, total, where
from prune_engine.symbols.footprint import Loops, loops_from, remembered, span
from prune_engine.symbols.loop_nest import Access, LoopNest, Statement
from prune_engine.symbols.traffic import turns


@dataclass(frozen=True, slots=True)
class Cache:
    """One level as a core sees it. ``ways`` None: any line may lie anywhere."""

    name: str
    capacity_bytes: int
    line_bytes: int
    ways: int | None

    @property
    def sets(self) -> int:
        """Number of sets, 1 where the associativity is unknown."""
        return max(1, self.capacity_bytes // (self.line_bytes * self.ways)) if self.ways else 1


@dataclass(frozen=True, slots=True)
class _Box:
    """Lines of one buffer, and how much of a cache they take up if they crowd into few sets."""

    line_bytes: Expr
    crowded_bytes: Expr


def traffic_bytes(nest: LoopNest, number: int, caches: tuple[Cache, ...]) -> list[Expr]:
    """Bytes of lines that statement ``number`` brings into each of some caches, writes back included.

    A cache holds a buffer's part from the outermost depth at which all that is touched there fits, and this
    part's lines do not crowd into fewer sets than they need. What the whole kernel touches, and fits, is there
    from the run before.
    """
    statement = nest.statements[number]
    depths = [d for d in range(len(statement.loops)) if d == 0 or statement.loops[d].extent.constant != 1]
    return [
        total(_filled(nest, number, buffer, depths, cache) for buffer in _by_buffer(statement)) for cache in caches
    ]


def _filled(nest: LoopNest, number: int, buffer: str, depths: list[int], cache: Cache) -> Expr:
    statement = nest.statements[number]
    accesses = _by_buffer(statement)[buffer]
    directions = int(any(not a.is_write for a in accesses)) + int(any(a.is_write for a in accesses))

    def moved(depth: int) -> Expr:
        lines = _box(nest, statement, buffer, depth, cache).line_bytes
        return product([lines, turns(statement, buffer, depth)]) * directions

    result = moved(len(statement.loops))
    for depth in reversed(depths):
        box = _box(nest, statement, buffer, depth, cache)
        fits = _working_bytes(nest, number, depth, cache).le(cache.capacity_bytes)
        if box.crowded_bytes is not box.line_bytes:
            fits = both(fits, box.crowded_bytes.le(cache.capacity_bytes))
        result = where(fits, moved(depth) if depth else as_expr(0), result)
    return result


def _working_bytes(nest: LoopNest, number: int, depth: int, cache: Cache) -> Expr:
    key = f"draft: lines for {number} at {depth} of {cache.line_bytes}"
    return remembered(nest, key, lambda: _room(nest, number, depth, cache))


def _room(nest: LoopNest, number: int, depth: int, cache: Cache) -> Expr:
    lines: dict[str, Expr] = {}
    for other in together_at(nest, number, depth):
        statement = nest.statements[other]
        for buffer in _by_buffer(statement):
            box = _box(nest, statement, buffer, depth, cache)
            known = lines.get(buffer)
            lines[buffer] = box.line_bytes if known is None else maximum(known, box.line_bytes)
    return total(lines.values())


def _box(nest: LoopNest, statement: Statement, buffer: str, depth: int, cache: Cache) -> _Box:
    """The hull of a buffer's accesses that run from ``depth`` inwards."""
    running = loops_from(statement, depth)
    held = nest.buffers[buffer]
    item = held.item_bytes
    accesses = _by_buffer(statement)[buffer]
    sizes = [size or 1 for size in held.shape]
    spans = [_span(nest, statement, accesses, d, running, size) for d, size in enumerate(sizes)]
    if not spans:
        line = as_expr(cache.line_bytes)
        return _Box(line, line)
    row_lines = ceildiv(spans[-1] * item, cache.line_bytes)
    rows = product(spans[:-1])
    line_bytes = rows * row_lines * cache.line_bytes
    whole = math.prod(sizes) * item
    if whole > cache.line_bytes:
        # Rows shorter than a line share it with their neighbours where the row is touched as a whole.
        dense = ceildiv(product(spans) * item, cache.line_bytes) * cache.line_bytes
        if sizes[-1] * item < cache.line_bytes or sizes[-1] * item % cache.line_bytes:
            line_bytes = where(spans[-1].eq(sizes[-1]), dense, line_bytes)
    reach = row_lines
    is_crowded = False
    for d, extent in enumerate(spans[:-1]):
        stride = math.prod(sizes[d + 1 :]) * item
        period = cache.sets
        if stride % cache.line_bytes == 0:
            period = cache.sets // math.gcd(cache.sets, stride // cache.line_bytes)
        if period < cache.sets and extent.constant != 1:
            is_crowded = True
        reach = reach * minimum(extent, period)
    if cache.sets == 1 or not is_crowded or not held.is_argument:
        return _Box(line_bytes, line_bytes)
    # Lines per set that is reached, times all sets.
    crowded = ceildiv(rows * row_lines, minimum(reach, cache.sets)) * (cache.sets * cache.line_bytes)
    return _Box(line_bytes, crowded)


def _span(
    nest: LoopNest, statement: Statement, accesses: list[Access], dimension: int, running: Loops, size: int
) -> Expr:
    result = as_expr(1)
    for access in accesses:
        index = access.indices[dimension]
        if index.coefficients is None:
            return as_expr(size)
        hull = total(abs(c) * (span(nest, statement, n, running) - 1) for n, c in index.coefficients if c)
        result = maximum(result, hull + index.width) if result.constant != 1 else hull + index.width
    return minimum(result, size)


def _by_buffer(statement: Statement) -> dict[str, list[Access]]:
    found: dict[str, list[Access]] = {}
    for access in statement.accesses:
        found.setdefault(access.buffer, []).append(access)
    return found
