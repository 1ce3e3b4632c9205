"""Which loops of a statement its innermost body is made of: those that TVM or LLVM unrolls, vectorises and packs.

The *body* is what the innermost loops unroll to: the vector lanes, and serial loops as long as the copies stay
within the limit (TVM's unroll pragma, or LLVM's own full unrolling). Where TVM vectorised nothing, LLVM vectorises
the loop that runs along the last dimension: copies of the body if it is unrolled, or else the loop right outside.
A reduction that reads past the edges of a buffer (padding that was inlined) is not vectorised at all, what calls a
function only where TVM did so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from prune_engine_draft.cpu_columns import BoolArray, LoopColumns, extent_where, product
from prune_engine_draft.cpu_plan import Float32Array, StatementPlan

#: What LLVM unrolls is counted in copies of 6 instructions; a lane that is loaded by itself is two.
_COPIES_PER_LANE = 2 / 6
#: A buffer of fewer bytes is on the stack (TVM's kMaxStackAlloca). LLVM takes it apart by all accesses, of which a
#: copy has two, unless there are too many (its sroa-max-alloca-slices, 1024).
_STACK_BYTES, _MOST_COPIES = 1024, 500


@dataclass(frozen=True, slots=True)
class VectorUnit:
    """Lanes of a register and of the executing unit for one width of elements; ``full_unroll`` is LLVM's limit."""

    register_lanes: int
    unit_lanes: int
    registers: int
    full_unroll: int


@dataclass(frozen=True, slots=True)
class Split:
    """Per loop, float32 (n,): its extent within the body, and the turns outside that start a body.

    ``lanes_of`` are the extents of loops that are vectorised, 1 where they are not; they are *packed* where LLVM
    did that. Results are carried where the loop around the body goes on with them, and *local* where LLVM keeps
    them in registers because their buffer is on the stack. Vectors are torn that are wider than a register and no
    power of two: what crosses from one turn to the next is taken apart. Operands are so by their own lanes, local
    results also by the lanes by which they are read. What is no multiple of a register needs ``shuffles``: 2 for
    every instruction of 1.
    """

    inside: list[Float32Array]
    turns: list[Float32Array]
    lanes_of: dict[int, Float32Array]
    lanes: Float32Array
    is_carried: NDArray[np.bool_]
    is_local: NDArray[np.bool_]
    is_packed: NDArray[np.bool_]
    has_torn_operands: NDArray[np.bool_]
    has_torn_results: NDArray[np.bool_]
    shuffles: Float32Array


def split_of(loops: LoopColumns, unit: VectorUnit) -> Split:
    """Divide a statement's loops between its body and what is around it."""
    plan, n = loops.plan, loops.n
    one = np.ones(n, dtype=np.float32)
    inside, turns = [one] * plan.n_loops, [one] * plan.n_loops
    lanes_of = {
        d: extent_where(is_vector, loops.extents[d])
        for d, is_vector in enumerate(loops.is_vector)
        if is_vector is not False and not plan.is_guarded
    }
    lanes = product(list(lanes_of.values()), one)
    scalar = lanes == 1
    size = np.ceil(lanes / np.float32(unit.register_lanes)) + _gathering(plan, lanes_of, one)
    by_compiler = np.floor(np.float32(unit.full_unroll) / size)
    limit = np.maximum(loops.unroll_steps, by_compiler)
    is_open = np.ones(n, dtype=np.bool_)
    is_carried = np.zeros(n, dtype=np.bool_)
    copies = one
    packs: dict[int, Float32Array] = {}
    is_whole = [is_open] * plan.n_loops
    for d in reversed(range(plan.n_loops)):
        if loops.is_vector[d] is True and not plan.is_guarded:
            continue
        extent, many = loops.extents[d], loops.many[d]
        if d in lanes_of:
            extent = extent / lanes_of[d]
            many = extent > 1
        if loops.is_parallel[d] is True:
            turns[d] = extent
            is_whole[d] = ~np.asarray(many)
            is_open = np.zeros(n, dtype=np.bool_)
            continue
        parallel = loops.is_parallel[d]
        if parallel is not False:
            is_open = is_open & ~(parallel & many)
        fits = is_open & (copies * extent <= limit)
        inside[d] = extent_where(fits, extent)
        is_whole[d] = fits | ~np.asarray(many)
        copies = copies * inside[d]
        if d in plan.idle:  # all that is inside is straight code, and its results are there from the first turn
            inside[d] = one
            turns[d] = np.where(is_open, one, extent)
            continue
        is_first = is_open & ~fits & many
        outside = extent / inside[d]
        if d in plan.reducing:
            is_carried |= is_first
        if d in plan.auto and not plan.is_guarded and not plan.statement.call_count:
            along = scalar & many & is_open
            for further in plan.auto[d]:
                along &= ~loops.many[further]
            is_packed = along & fits
            if (is_auto := along & is_first).any():
                outside[is_auto] = _auto_slots(extent[is_auto], unit)
            if is_packed.any():
                packs[d] = extent_where(is_packed, extent)
        turns[d] = outside
        is_open = fits | (is_open & ~many)
    is_scalar = _scalar_results(loops, is_whole)
    if packs:
        _pack(packs, is_scalar, inside, lanes_of)
    is_local = is_scalar & _is_on_stack(loops)
    is_taken_apart = is_local & (copies <= np.float32(_MOST_COPIES))
    together = np.where(is_taken_apart, np.maximum(lanes, loops.reader_lanes), lanes)
    is_odd = (lanes > unit.register_lanes) & (lanes % np.float32(unit.register_lanes) > 0)
    all_lanes = product(list(lanes_of.values()), one)
    return Split(
        inside=inside,
        turns=turns,
        lanes_of=lanes_of,
        lanes=all_lanes,
        is_carried=is_carried,
        is_local=is_local,
        is_packed=all_lanes > lanes,
        has_torn_operands=_is_torn(lanes, unit),
        has_torn_results=is_carried & _is_torn(together, unit),
        shuffles=one + is_odd,
    )


def _scalar_results(loops: LoopColumns, is_whole: Sequence[BoolArray]) -> BoolArray:
    """Where all that moves results within a buffer of the kernel's own is in the body: they become scalars."""
    if isinstance(loops.results_from, int) and loops.results_from < 0:
        return np.zeros(loops.n, dtype=np.bool_)
    scalar = np.broadcast_to(np.asarray(loops.results_from) >= 0, (loops.n,))
    for buffer in loops.plan.buffers:
        if any(access.is_result for access in buffer.accesses):
            for d in buffer.moving:
                scalar = scalar & (is_whole[d] | (loops.results_from > d))
    return scalar


def _pack(
    packs: dict[int, Float32Array],
    is_scalar: BoolArray,
    inside: list[Float32Array],
    lanes_of: dict[int, Float32Array],
) -> None:
    """Take the turns of unrolled loops for lanes, as LLVM does: it finds them by stores that follow each other.

    Scalars that a loop carries have no stores, and come in vectors only if their number is even: with 55 of them a
    1x1 convolution was seen to take eight times as long as with the same tiles and results that are stored.
    """
    for d, packed in packs.items():
        lanes = extent_where(~is_scalar | (packed % 2 == 0), packed)
        inside[d] = inside[d] / lanes
        lanes_of[d] = lanes_of[d] * lanes if d in lanes_of else lanes


def _gathering(plan: StatementPlan, lanes_of: dict[int, Float32Array], one: Float32Array) -> Float32Array:
    """Instructions, in copies' worth, by which vectors are put together whose elements do not follow each other."""
    lanes: Float32Array = np.zeros_like(one)
    for buffer in plan.buffers:
        for access in buffer.accesses:
            apart = product([extent for d, extent in lanes_of.items() if d in access.apart], one)
            lanes = lanes + apart * (apart > 1)
    copies: Float32Array = lanes * np.float32(_COPIES_PER_LANE)
    return copies


def _is_torn(lanes: Float32Array, unit: VectorUnit) -> BoolArray:
    """Vectors that LLVM passes from block to block as single elements: wider than a register, no power of two."""
    whole = lanes.astype(np.int32)
    torn: BoolArray = (lanes > unit.register_lanes) & ((whole & (whole - 1)) != 0)
    return torn


def _is_on_stack(loops: LoopColumns) -> BoolArray:
    """Results in a buffer that is small enough for TVM to leave it to LLVM, which then takes it apart."""
    plan = loops.plan
    elements = np.ones(loops.n, dtype=np.float32)
    moving = {d for b in plan.buffers if any(a.is_result for a in b.accesses) for d in b.moving}
    for d in sorted(moving):
        elements = elements * extent_where(loops.results_from <= d, loops.extents[d])
    small: BoolArray = elements * np.float32(plan.item_bytes) < _STACK_BYTES
    return small


def _auto_slots(extent: Float32Array, unit: VectorUnit) -> Float32Array:
    """Slots of a loop that LLVM vectorises: by the power of two that takes the fewest, the rest one by one."""
    slots, width = extent, 2
    while width <= unit.register_lanes:
        whole = np.floor(extent / np.float32(width))
        wide = whole * np.float32(max(1, width // unit.unit_lanes)) + (extent - whole * np.float32(width))
        slots = np.minimum(slots, wide)
        width *= 2
    return slots
