"""What one statement does in a core's vector unit: instructions, registers and chains of its innermost body.

The *body* is what the innermost loops unroll to: the vector lanes, and serial loops as long as the copies stay
within the limit (TVM's unroll pragma, or LLVM's own full unrolling). What the body touches twice is loaded once,
and what the loops right outside do not move stays in registers. Where TVM vectorised nothing, LLVM vectorises the
loop that runs along the last dimension: copies of the body if it is unrolled, or else the loop right outside.
A reduction that reads past the edges of a buffer (padding that was inlined) is not vectorised at all, what calls a
function only where TVM did so. Of padding that is a statement by itself the conditions are settled in each copy, or
before the loop. Loops around the body that move nothing cost nothing: LLVM does the work before them.

Work is counted in *slots*: one instruction as wide as the unit that executes it. Wider ones take several.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from prune_engine.symbols.loop_nest import Role, Statement
from prune_engine_draft.cpu_columns import BoolArray, LoopColumns, reach
from prune_engine_draft.cpu_plan import AccessPlan, Float32Array, StatementPlan

#: Instructions of a copy behind a condition, for each that it would take without.
_GUARD_COST = 2
#: A lane that is loaded by itself is two instructions (load, insert); what LLVM unrolls is counted in copies of 6.
_COPIES_PER_LANE = 2 / 6


@dataclass(frozen=True, slots=True)
class VectorUnit:
    """Lanes of a register and of the executing unit for one width of elements; ``full_unroll`` is LLVM's limit."""

    register_lanes: int
    unit_lanes: int
    full_unroll: int


@dataclass(frozen=True, slots=True)
class Body:
    """Counts over the whole statement, all cores together, but for those per body; float32 (n,) each.

    ``arithmetic``, ``loads`` (of operands) and ``stores`` are in slots, ``results`` those of accumulators that are
    read back, ``ideal`` is the arithmetic if every lane were used. ``reloads`` are the loads, and as many stores,
    on top where accumulators do not fit into registers. Per body: ``accumulators`` and ``registers`` in registers,
    ``copies`` of the statement, ``chain`` the instructions on one accumulator (0 where the next body goes on with
    it). ``steps`` are the instructions on each accumulator of all bodies, ``trips`` the turns of the loop around
    the body, ``calls`` those of library functions.
    """

    ideal: Float32Array
    arithmetic: Float32Array
    loads: Float32Array
    results: Float32Array
    stores: Float32Array
    reloads: Float32Array
    accumulators: Float32Array
    registers: Float32Array
    copies: Float32Array
    chain: Float32Array
    steps: Float32Array
    trips: Float32Array
    calls: Float32Array


@dataclass(frozen=True, slots=True)
class _Split:
    """Per loop, float32 (n,): its extent within the body, and the turns outside that start a body.

    ``lanes_of`` are the extents of loops that are vectorised, 1 where they are not. Vectors are awkward that are
    wider than a register, no multiple of it, and kept over a loop: LLVM takes them apart. Others
    of such a width need ``shuffles``: 2 for every instruction of 1.
    """

    inside: list[Float32Array]
    turns: list[Float32Array]
    lanes_of: dict[int, Float32Array]
    lanes: Float32Array
    is_carried: NDArray[np.bool_]
    is_awkward: NDArray[np.bool_]
    shuffles: Float32Array


def body_of(loops: LoopColumns, unit: VectorUnit) -> Body:
    """The counts of one statement."""
    plan, statement = loops.plan, loops.plan.statement
    if statement.role is Role.INIT:
        return _init_body(loops, unit)
    split = _split(loops, unit)
    zero, one = np.zeros(loops.n, dtype=np.float32), np.ones(loops.n, dtype=np.float32)
    prefixes, bodies = [], one
    for turns in split.turns:
        bodies = bodies * turns
        prefixes.append(bodies)
    copies = _product(split.inside, one)
    taken = [_product([split.inside[d] for term in terms for d in term.loops], one) for terms in plan.terms]
    work = _instructions(statement, unit) * (_GUARD_COST if plan.is_guarded else 1)
    loads, results, stores, reloads, registers, accumulators = zero, zero, zero, zero, zero, one
    for buffer in plan.buffers:
        for access in buffer.accesses:
            slots, held = _in_body(access, taken, split, unit)
            moved = slots * _starts(access, split, prefixes, one)
            if access.is_write:
                stores, accumulators = stores + moved, held
                if statement.role is Role.UPDATE:
                    registers = registers + held
                    reloads = slots * bodies - moved
            elif access.is_result:
                results = results + moved
            else:
                loads = loads + moved
                registers = registers + np.where(split.lanes > 1, np.minimum(held, 2), 1)
    inner = _product([split.inside[d] for d in sorted(plan.reducing)], one)
    is_update = statement.role is Role.UPDATE
    return Body(
        ideal=loops.extents.prod(axis=0) * np.float32(_instructions(statement, unit) / unit.unit_lanes),
        arithmetic=copies * bodies * _vector_slots(split, unit) * np.float32(work),
        loads=loads,
        results=results,
        stores=stores,
        reloads=reloads,
        accumulators=accumulators,
        registers=registers,
        copies=copies * np.ceil(split.lanes / unit.register_lanes),
        chain=np.where(split.is_carried, 0, inner) if is_update else zero,
        steps=inner * bodies if is_update else zero,
        trips=bodies,
        calls=copies * bodies * split.lanes * np.float32(statement.call_count),
    )


def _init_body(loops: LoopColumns, unit: VectorUnit) -> Body:
    """Start values are stored, as wide as the loops are vectorised; that is all there is to it."""
    zero, one = np.zeros(loops.n, dtype=np.float32), np.ones(loops.n, dtype=np.float32)
    vectors = [_where(v, loops.extents[d]) for d, v in enumerate(loops.is_vector) if v is not False]
    lanes = _product(vectors, one)
    stores = loops.extents.prod(axis=0) / lanes * _pieces(lanes, unit.unit_lanes)
    return Body(zero, zero, zero, zero, stores, zero, one, one, one, zero, zero, zero, zero)


def _split(loops: LoopColumns, unit: VectorUnit) -> _Split:
    plan, n = loops.plan, loops.n
    one = np.ones(n, dtype=np.float32)
    inside, turns = [one] * plan.n_loops, [one] * plan.n_loops
    lanes_of = {
        d: _where(is_vector, loops.extents[d])
        for d, is_vector in enumerate(loops.is_vector)
        if is_vector is not False and not plan.is_guarded
    }
    lanes = _product(list(lanes_of.values()), one)
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
        grown = copies * extent
        serial = ~np.asarray(loops.is_parallel[d])
        fits = is_open & (grown <= limit) & serial
        inside[d] = _where(fits, extent)
        is_whole[d] = fits | ~np.asarray(many)
        copies = copies * inside[d]
        if d in plan.idle:  # all that is inside is straight code, and its results are there from the first turn
            inside[d] = one
            turns[d] = np.where(is_open & serial, one, extent)
            is_open = is_open & serial
            continue
        is_first = is_open & ~fits & many
        outside = extent / inside[d]
        if d in plan.reducing:
            is_carried |= is_first
        if d in plan.auto and not plan.is_guarded and not plan.statement.call_count:
            along = scalar & many & serial
            for further in plan.auto[d]:
                along &= ~loops.many[further]
            if (is_auto := along & is_first).any():
                outside = np.where(is_auto, _auto_slots(extent, unit), outside)
            if (is_packed := along & fits).any():
                packs[d] = _where(is_packed, extent)
        turns[d] = outside
        is_open = fits | (is_open & ~many)
    if packs:
        _pack(packs, _scalar_results(loops, is_whole), inside, lanes_of)
    is_odd = (lanes > unit.register_lanes) & (lanes % np.float32(unit.register_lanes) > 0)
    is_awkward = is_carried & is_odd
    shuffles = one + is_odd
    return _Split(inside, turns, lanes_of, _product(list(lanes_of.values()), one), is_carried, is_awkward, shuffles)


def _scalar_results(loops: LoopColumns, is_whole: Sequence[BoolArray]) -> BoolArray:
    """Where all that moves results within a buffer of the kernel's own is in the body: they become scalars."""
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
        lanes = _where(~is_scalar | (packed % 2 == 0), packed)
        inside[d] = inside[d] / lanes
        lanes_of[d] = lanes_of[d] * lanes if d in lanes_of else lanes


def _gathering(plan: StatementPlan, lanes_of: dict[int, Float32Array], one: Float32Array) -> Float32Array:
    """Instructions, in copies' worth, by which vectors are put together whose elements do not follow each other."""
    lanes: Float32Array = np.zeros_like(one)
    for buffer in plan.buffers:
        for access in buffer.accesses:
            apart = _product([extent for d, extent in lanes_of.items() if d in access.apart], one)
            lanes = lanes + apart * (apart > 1)
    copies: Float32Array = lanes * np.float32(_COPIES_PER_LANE)
    return copies


def _in_body(
    access: AccessPlan, taken: list[Float32Array], split: _Split, unit: VectorUnit
) -> tuple[Float32Array, Float32Array]:
    """Slots that the body needs to load (or store) an access once, and registers that hold it."""
    one = np.ones_like(split.lanes)
    elements = one
    for dimension in access.dimensions:
        if not dimension.is_affine or not dimension.iterators:
            continue
        values = reach(dimension, taken)
        if len(dimension.iterators) > 1:
            values = np.minimum(values, _product([taken[n] for n, _ in dimension.iterators], one))
        elif dimension.iterators[0][1] > 1:
            values = taken[dimension.iterators[0][0]]
        elements = elements * values
    along = _product([lanes for d, lanes in split.lanes_of.items() if d in access.along], one)
    apart = _product([lanes for d, lanes in split.lanes_of.items() if d in access.apart], one)
    slots = elements * apart * np.where(split.is_awkward, along, _pieces(along, unit.unit_lanes))
    return slots, elements * np.ceil(along * apart / np.float32(unit.register_lanes))


def _starts(access: AccessPlan, split: _Split, prefixes: list[Float32Array], one: Float32Array) -> Float32Array:
    """How often an access's part of the body is brought in: loops right outside that leave it do not count."""
    starts = one
    for d, turns in enumerate(split.turns):
        if d in access.moving and turns is not one:
            starts = np.maximum(starts, prefixes[d] * (turns > 1))
    return starts


def _vector_slots(split: _Split, unit: VectorUnit) -> Float32Array:
    """Slots of one vector operation."""
    slots = split.shuffles * np.ceil(split.lanes / np.float32(unit.unit_lanes))
    return np.where(split.is_awkward, split.lanes, slots)


def _instructions(statement: Statement, unit: VectorUnit) -> int:
    """Of one copy: a multiply and an add are one, and so are all of a dot product instruction."""
    per_instruction = 2 * unit.unit_lanes if statement.tile is not None else 2
    return max(1, -(-statement.flop_count // per_instruction))


def _where(condition: NDArray[np.bool_] | bool, extent: Float32Array) -> Float32Array:
    """The extent (>= 1) where a condition holds, else 1; a quarter of the time of ``np.where``."""
    found: Float32Array = np.maximum(extent * condition, np.float32(1))
    return found


def _pieces(lanes: Float32Array, unit_lanes: int) -> Float32Array:
    """Accesses that lanes take: whole units, and the rest in powers of two."""
    found: Float32Array = np.floor(lanes / np.float32(unit_lanes))
    rest = lanes - found * np.float32(unit_lanes)
    size = unit_lanes // 2
    while size:
        takes = np.floor(rest / np.float32(size))
        found = found + takes
        rest = rest - takes * np.float32(size)
        size //= 2
    return found


def _auto_slots(extent: Float32Array, unit: VectorUnit) -> Float32Array:
    """Slots of a loop that LLVM vectorises: by the power of two that takes the fewest, the rest one by one."""
    slots, width = extent, 2
    while width <= unit.register_lanes:
        whole = np.floor(extent / np.float32(width))
        wide = whole * np.float32(max(1, width // unit.unit_lanes)) + (extent - whole * np.float32(width))
        slots = np.minimum(slots, wide)
        width *= 2
    return slots


def _product(factors: list[Float32Array], one: Float32Array) -> Float32Array:
    result = one
    for factor in factors:
        result = factor if result is one else result * factor
    return result
