"""What one statement does in a core's vector unit: instructions, registers and chains of its innermost body.

What the body touches twice is loaded once, unless LLVM loses sight of it; what the loops right outside do not move
stays in registers, as far as there are any. Of padding that is a statement by itself the conditions are settled in
each copy, or before the loop. Loops around the body that move nothing cost nothing: LLVM does the work before them.

Work is counted in *slots*: one instruction as wide as the unit that executes it. Wider ones take several.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from prune_engine.symbols.loop_nest import Role, Statement
from prune_engine_draft.cpu_columns import BoolArray, LoopColumns, extent_where, product, reach
from prune_engine_draft.cpu_plan import AccessPlan, Float32Array, StatementPlan
from prune_engine_draft.cpu_unrolling import Split, VectorUnit, split_of

#: Instructions of a copy behind a condition, for each that it would take without.
_GUARD_COST = 2
#: Loads from buffers that the kernel writes too are taken out of a loop up to this many (its licm-mssa cap).
_MOST_HOISTED = 100
#: Accesses between two of the same element over which LLVM still sees that memory holds what it did (its
#: memdep-block-scan-limit, in instructions).
_SEES = 100
#: Slots of a lane that a torn vector of results takes from one turn to the next (taken out and put in: 97 cycles
#: for two of 56 lanes were measured), and of one that was loaded before the loop: often put together there.
_TORN_RESULT, _TORN_OPERAND = 2, 0.5

#: Powers of two that add up to each number of lanes of a unit.
_PIECES = np.array([number.bit_count() for number in range(1024)], dtype=np.float32)


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


def body_of(loops: LoopColumns, unit: VectorUnit) -> Body:
    """The counts of one statement."""
    plan, statement = loops.plan, loops.plan.statement
    if statement.role is Role.INIT:
        return _init_body(loops, unit)
    split = split_of(loops, unit)
    zero, one = np.zeros(loops.n, dtype=np.float32), np.ones(loops.n, dtype=np.float32)
    prefixes, bodies = [], one
    for turns in split.turns:
        bodies = bodies * turns
        prefixes.append(bodies)
    copies = product(split.inside, one)
    taken = [product([split.inside[d] for term in terms for d in term.loops], one) for terms in plan.terms]
    work = _instructions(statement, unit) * (_GUARD_COST if plan.is_guarded else 1)
    loads, results, stores, reloads, registers, accumulators = zero, zero, zero, zero, zero, one
    hoisted = zero
    forgets = _forgets(plan, split, one)
    for buffer in plan.buffers:
        for access in buffer.accesses:
            slots, held, n_loads = _in_body(access, taken, split, unit)
            slots = slots * _repeats(access, forgets, split, one)
            starts = _starts(access, split, prefixes, one)
            moved = slots * starts
            lanes = held * np.float32(unit.register_lanes)
            if access.is_write:
                stores, accumulators = stores + moved, held
                if statement.role is Role.UPDATE:
                    results = results + lanes * bodies * (split.has_torn_results * np.float32(_TORN_RESULT))
                    registers = registers + held
                    reloads = slots * bodies - moved
            elif access.is_result:
                results = results + moved
            else:
                is_ahead = starts < bodies
                if not buffer.is_argument:
                    is_ahead = is_ahead & (n_loads <= np.float32(_MOST_HOISTED))
                    moved = np.where(is_ahead, moved, slots * bodies)
                is_torn = is_ahead & split.has_torn_operands
                loads = loads + moved + lanes * bodies * (is_torn * np.float32(_TORN_OPERAND))
                hoisted = hoisted + held * (is_ahead & ~is_torn)
                registers = registers + np.where(split.lanes > 1, np.minimum(held, 2), 1)
    # What was loaded before the loop and finds no register is loaded again in each of its turns.
    room = np.maximum(np.float32(unit.registers - 2) - accumulators, 0)
    loads = loads + np.maximum(hoisted - room, 0) * bodies
    inner = product([split.inside[d] for d in sorted(plan.reducing)], one)
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


def _forgets(plan: StatementPlan, split: Split, one: Float32Array) -> list[BoolArray]:
    """Per loop within the body, whether LLVM does not see over a turn of it that memory holds what it did.

    What is stored to could be what was loaded, so it looks for all between two accesses to the same element, and
    gives up after some. Results that are local are not stored before the end.
    """
    accesses = one  # the store of one copy; its loads, lane by lane where elements are apart
    for buffer in plan.buffers:
        for access in buffer.accesses:
            if not access.is_write:
                accesses = accesses + product([v for d, v in split.lanes_of.items() if d in access.apart], one)
    found: list[BoolArray] = []
    for turns in reversed(split.inside):
        found.append((accesses > _SEES) & ~split.is_local)
        accesses = accesses * turns
    return found[::-1]


def _repeats(access: AccessPlan, forgets: Sequence[BoolArray], split: Split, one: Float32Array) -> Float32Array:
    """How often the body loads (or stores) what it has loaded before."""
    turns = [
        extent_where(forgets[d], turns)
        for d, turns in enumerate(split.inside)
        if turns is not one and d not in access.moving
    ]
    return product(turns, one)


def _init_body(loops: LoopColumns, unit: VectorUnit) -> Body:
    """Start values are stored, as wide as the loops are vectorised; that is all there is to it."""
    zero, one = np.zeros(loops.n, dtype=np.float32), np.ones(loops.n, dtype=np.float32)
    vectors = [extent_where(v, loops.extents[d]) for d, v in enumerate(loops.is_vector) if v is not False]
    lanes = product(vectors, one)
    stores = loops.extents.prod(axis=0) / lanes * _pieces(lanes, unit.unit_lanes)
    return Body(zero, zero, zero, zero, stores, zero, one, one, one, zero, zero, zero, zero)


def _gathered(apart: Float32Array) -> Float32Array:
    """Slots of lanes that are loaded by themselves: each a load, and an instruction that puts it in its place."""
    return extent_where(apart > 1, np.float32(2) * apart)


def _in_body(
    access: AccessPlan, taken: list[Float32Array], split: Split, unit: VectorUnit
) -> tuple[Float32Array, Float32Array, Float32Array]:
    """Slots that the body needs to load (or store) an access once, registers that hold it, and how many loads."""
    one = np.ones_like(split.lanes)
    elements = one
    for dimension in access.dimensions:
        if not dimension.is_affine or not dimension.iterators:
            continue
        values = reach(dimension, taken)
        if len(dimension.iterators) > 1:
            values = np.minimum(values, product([taken[n] for n, _ in dimension.iterators], one))
        elif dimension.iterators[0][1] > 1:
            values = taken[dimension.iterators[0][0]]
        elements = elements * values
    along = product([lanes for d, lanes in split.lanes_of.items() if d in access.along], one)
    apart = product([lanes for d, lanes in split.lanes_of.items() if d in access.apart], one)
    slots = elements * _gathered(apart) * _pieces(along, unit.unit_lanes)
    return slots, elements * np.ceil(along * apart / np.float32(unit.register_lanes)), elements * apart


def _starts(access: AccessPlan, split: Split, prefixes: list[Float32Array], one: Float32Array) -> Float32Array:
    """How often an access's part of the body is brought in: loops right outside that leave it do not count."""
    starts = one
    for d, turns in enumerate(split.turns):
        if d in access.moving and turns is not one:
            starts = np.maximum(starts, prefixes[d] * (turns > 1))
    return starts


def _vector_slots(split: Split, unit: VectorUnit) -> Float32Array:
    """Slots of one vector operation."""
    whole = np.ceil(split.lanes / np.float32(unit.unit_lanes))
    slots: Float32Array = split.shuffles * np.where(split.is_packed, _pieces(split.lanes, unit.unit_lanes), whole)
    return slots


def _instructions(statement: Statement, unit: VectorUnit) -> int:
    """Of one copy: a multiply and an add are one, and so are all of a dot product instruction."""
    per_instruction = 2 * unit.unit_lanes if statement.tile is not None else 2
    return max(1, -(-statement.flop_count // per_instruction))


def _pieces(lanes: Float32Array, unit_lanes: int) -> Float32Array:
    """Accesses that lanes take: whole units, and the rest in powers of two."""
    whole: Float32Array = np.floor(lanes / np.float32(unit_lanes))
    rest = lanes - whole * np.float32(unit_lanes)
    whole += _PIECES.take(rest.astype(np.intp))
    return whole
