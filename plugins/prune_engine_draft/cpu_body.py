"""What one statement does in a core's vector unit: instructions, registers and chains of its innermost body.

The *body* is what the innermost loops unroll to: the vector lanes, and serial loops as long as the copies stay
within the limit (TVM's unroll pragma, or LLVM's own full unrolling). What the body touches twice is loaded once,
and what the loops right outside do not move stays in registers. Where TVM vectorised nothing, LLVM vectorises the
loop right outside the body if it runs along the last dimension.

Work is counted in *slots*: one instruction as wide as the unit that executes it. Wider ones take several.
"""

from __future__ import annotations

from dataclasses import dataclass

from prune_engine.symbols.bands import is_kind, possible_kinds, reduction_loops
from prune_engine.symbols.expr import (
    Expr,
    as_expr,
    both,
    ceildiv,
    either,
    maximum,
    minimum,
    negate,
    product,
    total,
    where,
)
from prune_engine.symbols.footprint import indexing_loops
from prune_engine.symbols.loop_nest import Access, Index, LoopKind, LoopNest, Role, Statement
from prune_engine.symbols.statement import last_dimension_iterators


@dataclass(frozen=True, slots=True)
class VectorUnit:
    """Lanes of a register and of the executing unit for one width of elements; ``full_unroll`` is LLVM's limit."""

    register_lanes: int
    unit_lanes: int
    full_unroll: int


@dataclass(frozen=True, slots=True)
class Body:
    """Counts over the whole statement, all cores together, but for those per body.

    ``arithmetic``, ``loads`` (of operands) and ``stores`` are in slots, ``results`` those of accumulators that are
    read back; ``reloads`` are the loads, and as many stores, on top where accumulators do not fit into registers.
    Per body: ``accumulators`` and ``registers`` in registers, ``copies`` of the statement, ``chain`` the
    instructions on one accumulator (0 where the next body goes on with it). ``steps`` are the instructions on
    each accumulator of all bodies, ``trips`` the turns of the loop around the body, ``calls`` those of library
    functions.
    """

    arithmetic: Expr
    loads: Expr
    results: Expr
    stores: Expr
    reloads: Expr
    accumulators: Expr
    registers: Expr
    copies: Expr
    chain: Expr
    steps: Expr
    trips: Expr
    calls: Expr


@dataclass(frozen=True, slots=True)
class _Loops:
    """Per loop: its extent within the body, outside of it, and whether it is the one LLVM vectorises."""

    inside: list[Expr]
    outside: list[Expr]
    is_auto: list[Expr]
    is_first: list[Expr]
    lanes: Expr
    lanes_of: dict[int, Expr]


def body_of(nest: LoopNest, statement: Statement, unit: VectorUnit) -> Body:
    """The counts of one statement."""
    loops = _loops(nest, statement, unit)
    n = len(statement.loops)
    slots = ceildiv(loops.lanes, unit.unit_lanes)
    turns = [where(loops.is_auto[d], _auto_slots(loops.outside[d], unit), loops.outside[d]) for d in range(n)]
    executed = product([*loops.inside, *turns])
    work = max(1, (statement.flop_count + 1) // 2)
    is_update = statement.role is Role.UPDATE
    loads, results, stores, reloads, registers = (as_expr(0),) * 5
    accumulators = as_expr(1)
    for access in _distinct_accesses(statement):
        is_carried = is_update and _is_own(statement, access)
        count, held = _in_body(nest, statement, access, loops, unit)
        moved = count * _turns_moving(statement, access, turns)
        if access.is_write:
            stores = stores + moved
            accumulators = held
            if is_update:
                registers = registers + held
                reloads = count * product(turns) - moved
        elif is_carried:
            results = results + moved
        else:
            loads = loads + moved
            registers = registers + where(loops.lanes.eq(1), 1, minimum(held, 2))
    reducing = reduction_loops(statement)
    steps, carried, inner = as_expr(0), as_expr(0), as_expr(1)
    if is_update:
        for d in sorted(reducing):
            carried = either(carried, loops.is_first[d])
        inner = product(loops.inside[d] for d in sorted(reducing))
        steps = inner * product(turns)
    return Body(
        arithmetic=executed * slots * work,
        loads=loads,
        results=results,
        stores=stores,
        reloads=reloads,
        accumulators=accumulators,
        registers=registers,
        copies=product(loops.inside) * ceildiv(loops.lanes, unit.register_lanes),
        steps=steps,
        chain=where(carried, 0, inner),
        trips=product(turns),
        calls=product([*loops.inside, *loops.outside, loops.lanes]) * statement.call_count,
    )


def _loops(nest: LoopNest, statement: Statement, unit: VectorUnit) -> _Loops:
    n = len(statement.loops)
    last = last_dimension_iterators(nest, statement)
    one = as_expr(1)
    inside, outside, is_auto, is_first = [one] * n, [one] * n, [as_expr(0)] * n, [as_expr(0)] * n
    vector = {d for d in range(n) if LoopKind.VECTORIZED in possible_kinds(statement.loops[d].kind)}
    lanes_of = {
        d: where(is_kind(statement.loops[d], (LoopKind.VECTORIZED,)), statement.loops[d].extent, 1)
        for d in sorted(vector)
    }
    lanes = product(lanes_of.values())
    by_compiler = as_expr(unit.full_unroll) // ceildiv(lanes, unit.register_lanes)
    limit = maximum(statement.unroll_steps, by_compiler)
    is_open, copies = one, one
    for d in reversed(range(n)):
        loop = statement.loops[d]
        if loop.extent.constant == 1:
            continue
        kinds = possible_kinds(loop.kind)
        is_vector = is_kind(loop, (LoopKind.VECTORIZED,))
        extent = where(is_vector, 1, loop.extent) if d in vector else loop.extent
        if kinds <= {LoopKind.VECTORIZED}:
            continue
        grown = copies * extent
        may = is_kind(loop, (LoopKind.SERIAL, LoopKind.UNROLLED, LoopKind.VECTORIZED))
        fits = both(is_open, both(may, grown.le(limit)))
        inside[d] = where(fits, extent, 1)
        outside[d] = where(fits, 1, extent)
        first = both(is_open, both(negate(fits), as_expr(1).lt(extent)))
        is_first[d] = first
        if LoopKind.SERIAL in kinds and (along := _along(statement, last, d)) is not None:
            plain = product([where(is_kind(loop, (LoopKind.SERIAL,)), 1, 0), _is_one(along)])
            is_auto[d] = both(both(first, lanes.eq(1)), plain)
        copies = where(fits, grown, copies)
        is_open = either(fits, both(is_open, extent.eq(1)))
    return _Loops(inside, outside, is_auto, is_first, lanes, lanes_of)


def _is_one(extents: Expr) -> Expr:
    return extents.eq(1)


def _along(statement: Statement, last: list[int], loop: int) -> Expr | None:
    """Turns of the loops further in that move the output's last dimension too; None if this one does not."""
    for number in last:
        for term in statement.iterators[number].terms:
            carrying = [k for k, _ in term.over]
            if loop in carrying:
                return product(
                    statement.loops[k].extent
                    for t in statement.iterators[number].terms
                    for k, _ in t.over
                    if k > loop
                )
    return None


def _distinct_accesses(statement: Statement) -> list[Access]:
    return list(statement.accesses)


def _is_own(statement: Statement, access: Access) -> bool:
    return any(other.is_write and other.buffer == access.buffer for other in statement.accesses)


def _in_body(
    nest: LoopNest, statement: Statement, access: Access, loops: _Loops, unit: VectorUnit
) -> tuple[Expr, Expr]:
    """Slots that the body needs to load (or store) an access once, and registers that hold it."""
    elements = product(_spread(statement, index, loops.inside) for index in access.indices)
    along = apart = as_expr(1)
    for d, lanes in loops.lanes_of.items():
        how = _moves_with(nest, statement, access, d)
        along = along * lanes if how == "along" else along
        apart = apart * lanes if how == "apart" else apart
    slots = elements * apart * _pieces(along, unit.unit_lanes)
    return slots, elements * ceildiv(along * apart, unit.register_lanes)


def _moves_with(nest: LoopNest, statement: Statement, access: Access, loop: int) -> str:
    """How an access follows a loop: ``not``, through consecutive elements (``along``), or ``apart``."""
    if any(index.coefficients is None for index in access.indices):
        return "apart"
    moved = {n for n, it in enumerate(statement.iterators) for t in it.terms for k, _ in t.over if k == loop}
    if not any(n in moved and c for index in access.indices for n, c in index.coefficients or ()):
        return "not"
    for index, size in zip(reversed(access.indices), reversed(nest.buffers[access.buffer].shape), strict=True):
        if size == 1 or not index.coefficients:
            continue
        here = [c for n, c in index.coefficients if n in moved and c]
        return "along" if here and all(abs(c) == 1 for c in here) else "apart"
    return "apart"


def _spread(statement: Statement, index: Index, extents: list[Expr]) -> Expr:
    """Different values of an index while loops run over ``extents``."""
    if not index.coefficients:
        return as_expr(1)
    counts = [
        (abs(c), product(extents[k] for term in statement.iterators[n].terms for k, _ in term.over))
        for n, c in index.coefficients
        if c
    ]
    if len(counts) == 1:
        return counts[0][1]
    if not counts:
        return as_expr(1)
    return minimum(product(count for _, count in counts), total(c * (count - 1) for c, count in counts) + 1)


def _turns_moving(statement: Statement, access: Access, turns: list[Expr]) -> Expr:
    """How often an access's part of the body is brought in: the loops right outside that leave it do not count."""
    moving = indexing_loops(statement, access)
    result, still = as_expr(1), as_expr(1)
    for d in reversed(range(len(turns))):
        if turns[d].constant == 1:
            continue
        if d in moving or possible_kinds(statement.loops[d].kind) == {LoopKind.PARALLEL}:
            result = (result if still.constant == 1 else result * where(result.eq(1), 1, still)) * turns[d]
            still = as_expr(1)
        else:
            still = still * turns[d]
    return result if still.constant == 1 else result * where(result.eq(1), 1, still)


def _pieces(lanes: Expr, unit_lanes: int) -> Expr:
    """Accesses that lanes take: whole units, and the rest in powers of two."""
    rest, found, size = lanes % unit_lanes, lanes // unit_lanes, unit_lanes // 2
    while size:
        found = found + (rest // size) % 2
        size //= 2
    return found


def _auto_slots(extent: Expr, unit: VectorUnit) -> Expr:
    """Slots of a loop that LLVM vectorises: by the largest power of two that fits, the rest one by one."""
    result, size = extent, 2
    while size <= unit.register_lanes:
        slots = max(1, size // unit.unit_lanes)
        result = where(as_expr(size).le(extent), (extent // size) * slots + extent % size, result)
        size *= 2
    return result
