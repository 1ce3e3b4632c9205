"""What a statement moves between a core's caches: whole lines, and only as much as the sets of a cache hold.

A cache of w ways holds w lines per set. Rows a power of two apart fall into few sets, so that a small tile of a
matrix whose rows are 2 KiB long does not stay in a first-level cache with room for ten of it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from prune_engine.symbols.loop_nest import LoopKind, Role
from prune_engine_draft.cpu_columns import BoolArray, LoopColumns, reach, spans
from prune_engine_draft.cpu_plan import BufferPlan, Float32Array


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
class Boxes:
    """Of one buffer at every depth, float32 (loops + 1, n): lines touched, lines per row, extents of dimensions."""

    plan: BufferPlan
    lines: Float32Array
    row_lines: Float32Array
    rows: Float32Array
    dimensions: tuple[Float32Array, ...]


def boxes_of(loops: LoopColumns, line_bytes: int) -> list[Boxes]:
    """What a statement touches of each buffer from every depth inwards."""
    taken = spans(loops)
    return [_boxes(buffer, taken, loops, line_bytes) for buffer in loops.plan.buffers]


def _boxes(buffer: BufferPlan, taken: Sequence[Float32Array], loops: LoopColumns, line_bytes: int) -> Boxes:
    shape = (loops.plan.n_loops + 1, loops.n)
    dimensions: list[Float32Array] = []
    seen = set()
    for access in buffer.accesses:
        if access.dimensions in seen:
            continue
        seen.add(access.dimensions)
        found = [reach(dimension, taken) for dimension in access.dimensions]
        dimensions = [np.maximum(a, b) for a, b in zip(dimensions, found, strict=True)] if dimensions else found
    if not dimensions:
        one = np.ones(shape, dtype=np.float32)
        return Boxes(buffer, one, one, one, ())
    last = dimensions[-1]
    rows = np.broadcast_to(dimensions[0] if len(dimensions) > 1 else np.float32(1), shape)
    for extent in dimensions[1:-1]:
        rows = rows * extent
    per_line = np.float32(buffer.item_bytes / line_bytes)
    row_lines = np.ceil(np.broadcast_to(last, shape) * per_line)
    lines = rows * row_lines
    size = buffer.accesses[0].dimensions[-1].size
    if size * buffer.item_bytes % line_bytes:
        # Rows that are touched as a whole follow each other without gaps.
        dense = np.ceil(rows * (last * per_line))
        lines = np.where(last >= size, dense, lines)
    return Boxes(buffer, lines, row_lines, rows, tuple(dimensions))


def filled_bytes(
    loops: LoopColumns, own: Sequence[Boxes], room: Float32Array, caches: Sequence[Cache]
) -> list[Float32Array]:
    """Bytes brought into each cache by one statement, written ones included, float32 (n,) per cache.

    ``room`` float32 (loops + 1, n) is the lines of all that runs in each depth's turn. A cache holds a buffer's
    part from the outermost depth at which all that is touched there fits, and this part's lines do not crowd into
    fewer sets than they need. What the whole kernel touches, and fits, is there from the run before.
    """
    n_depths, n = room.shape
    before = np.empty((n_depths, n), dtype=np.float32)
    before[0] = 1
    for d, extent in enumerate(loops.extents):
        np.multiply(before[d], extent, out=before[d + 1])
    columns = np.arange(n)
    results = [np.zeros(n, dtype=np.float32) for _ in caches]
    misfits = [room * np.float32(c.line_bytes) > c.capacity_bytes for c in caches]
    for misfit in misfits:
        misfit[-1] = False  # one instance is always worked on
    # Only a reduction comes back to what it read: crowded lines harm nobody else.
    can_crowd = loops.plan.statement.role is Role.UPDATE
    for boxes in own:
        moved = boxes.lines * _turns(loops, boxes.plan.moving, before)
        moved[0] = 0
        flat = moved.reshape(-1)
        for position, cache in enumerate(caches):
            misfit = misfits[position]
            if can_crowd and (crowded := _crowded(boxes, cache)) is not None:
                misfit = misfit | crowded
                misfit[-1] = False
            depth = np.add.reduce(misfit.view(np.uint8), axis=0, dtype=np.uint8)
            results[position] += flat[depth * np.intp(n) + columns] * np.float32(
                boxes.plan.directions * cache.line_bytes
            )
    return results


def _turns(loops: LoopColumns, moving: frozenset[int], before: Float32Array) -> Float32Array:
    """How often a buffer's part is brought in at each depth: loops right outside that leave it do not count."""
    turns = np.empty_like(before)
    turns[0] = 1
    for d in range(loops.plan.n_loops):  # numpy's accumulate along the first axis takes ten times as long
        if d in moving or loops.plan.kinds[d] is LoopKind.PARALLEL:
            np.multiply(before[d + 1], loops.many[d], out=turns[d + 1])
            np.maximum(turns[d + 1], turns[d], out=turns[d + 1])
        else:
            turns[d + 1] = turns[d]
    return turns


def _crowded(boxes: Boxes, cache: Cache) -> BoolArray | None:
    """Where a buffer's lines need more ways of some sets than there are, bool (loops + 1, n); None: nowhere."""
    if cache.ways is None or not boxes.plan.is_argument:
        return None
    periods = [_period(stride, cache) for stride in boxes.plan.strides]
    if all(period == cache.sets for period in periods):
        return None
    sets = boxes.row_lines
    for extent, period in zip(boxes.dimensions, periods, strict=False):
        sets = sets * np.minimum(extent, np.float32(period))
    np.minimum(sets, np.float32(cache.sets), out=sets)
    crowded: BoolArray = boxes.rows * boxes.row_lines > sets * np.float32(cache.ways)
    return crowded


def _period(stride_bytes: int, cache: Cache) -> int:
    """After how many rows the lines of a column fall into the same set again."""
    if stride_bytes % cache.line_bytes:
        return cache.sets
    return cache.sets // math.gcd(cache.sets, stride_bytes // cache.line_bytes)
