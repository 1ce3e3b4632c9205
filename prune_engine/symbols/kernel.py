"""Symbols of a whole kernel, on any device. Formulas are over the loop nest; `builtin` names them."""

from __future__ import annotations

from collections.abc import Callable

from prune_engine.symbols.bands import in_chunk, inner_tile_depth, main_statement, reduction_depth
from prune_engine.symbols.expr import Expr, as_expr, maximum, minimum, total
from prune_engine.symbols.footprint import Loops, contiguous_elements, loops_from
from prune_engine.symbols.loop_nest import THREAD_KINDS, Access, LoopKind, LoopNest, Role, Statement
from prune_engine.symbols.statement import (
    extent_of,
    flops,
    operand_accesses,
    tile,
    unrolled_instances,
    vector_bytes,
    vector_lanes,
)
from prune_engine.symbols.traffic import dram_traffic_bytes, reuse_distance_bytes, working_set_bytes


def flops_total(nest: LoopNest) -> Expr:
    """Operations of all statements."""
    return total(flops(statement) for statement in nest.statements)


def traffic_dram_bytes(nest: LoopNest) -> Expr:
    """Bytes between off-chip memory and the chunks or blocks."""
    return dram_traffic_bytes(nest)


def parallel_extent(nest: LoopNest) -> Expr:
    """Turns of the main statement's parallel loops."""
    return extent_of(_main(nest), (LoopKind.PARALLEL,))


def vector_lanes_main(nest: LoopNest) -> Expr:
    """Lanes of the main statement."""
    return vector_lanes(_main(nest))


def max_vector_bytes(nest: LoopNest) -> Expr:
    """Bytes of the widest vector access of any statement."""
    return largest(nest, lambda statement: vector_bytes(nest, statement))


def unroll_steps(nest: LoopNest) -> Expr:
    """The unroll limit over the main statement."""
    return _main(nest).unroll_steps


def unrolled_body_instances(nest: LoopNest) -> Expr:
    """Copies of the main statement's body in the generated code."""
    return unrolled_instances(_main(nest))


def working_set_l1_bytes(nest: LoopNest) -> Expr:
    """Working set of the innermost tile with its reduction."""
    return working_set_bytes(nest, main_statement(nest), inner_tile_depth(_main(nest)))


def working_set_l2_bytes(nest: LoopNest) -> Expr:
    """Working set of the whole reduction of a second-level tile."""
    return working_set_bytes(nest, main_statement(nest), reduction_depth(_main(nest)))


def working_set_l3_bytes(nest: LoopNest) -> Expr:
    """Working set of one turn of the parallel loops, or of one block."""
    return in_chunk(_main(nest), lambda depth: working_set_bytes(nest, main_statement(nest), depth))


def max_reuse_distance_bytes(nest: LoopNest) -> Expr:
    """The longest reuse distance of the main statement's operands."""
    number = main_statement(nest)
    result = as_expr(0)
    for buffer in operand_accesses(nest.statements[number]):
        result = _larger(result, reuse_distance_bytes(nest, number, buffer))
    return result


def contiguous_bytes(nest: LoopNest) -> Expr:
    """The shortest run of consecutive bytes in which global memory is read (see `contiguous_elements_staged`)."""
    return smallest([run * item for run, item in _contiguous_runs(nest)])


def contiguous_elements_staged(nest: LoopNest) -> Expr:
    """The shortest run of consecutive elements in which global memory is read, in one step of staging.

    Where the main statement's operands are copied to on-chip memory first, a step is one such copy by all threads
    of a block; else it is what the main statement's threads read at once on a GPU, and its innermost tile with
    its reduction elsewhere.
    """
    return smallest([run for run, _ in _contiguous_runs(nest)])


def tile_m(nest: LoopNest) -> Expr:
    """Rows of the innermost tile."""
    return tile(nest, _main(nest)).m


def tile_n(nest: LoopNest) -> Expr:
    """Columns of the innermost tile."""
    return tile(nest, _main(nest)).n


def tile_k(nest: LoopNest) -> Expr:
    """Reduction steps of the innermost tile."""
    return tile(nest, _main(nest)).k


def allocated_bytes(nest: LoopNest, scope: str) -> Expr:
    """Bytes of all buffers that the kernel allocates in a scope (``shared`` takes ``shared.dyn`` in)."""
    return total(
        buffer.stored_elements * buffer.item_bytes
        for buffer in nest.buffers.values()
        if not buffer.is_argument and buffer.scope.split(".")[0] == scope
    )


def largest(nest: LoopNest, value: Callable[[Statement], Expr]) -> Expr:
    """The largest value of any statement (values >= 1)."""
    result = as_expr(1)
    for statement in nest.statements:
        result = _larger(result, value(statement))
    return result


def smallest(values: list[Expr]) -> Expr:
    """The smallest of some expressions; 1 of none."""
    if not values:
        return as_expr(1)
    result = values[0]
    for value in values[1:]:
        result = minimum(result, value)
    return result


def staging_copies(nest: LoopNest) -> list[Statement]:
    """The statements that bring something from global to on-chip memory."""
    found = []
    for statement in nest.statements:
        if statement.role not in (Role.COPY, Role.COMPUTE):  # padding may be part of it
            continue
        scopes = {access.is_write: nest.buffers[access.buffer].scope for access in statement.accesses}
        if scopes.get(False) == "global" and scopes.get(True, "global") != "global":
            found.append(statement)
    return found


def global_reads(nest: LoopNest, statement: Statement) -> list[Access]:
    """The statement's reads of buffers in global memory that it does not write."""
    return [a for a in operand_accesses(statement).values() if nest.buffers[a.buffer].scope == "global"]


def staging_loops(nest: LoopNest, statement: Statement) -> Loops:
    """The loops whose turns read global memory as one step.

    For a staging copy those of the copy; for another statement of a GPU kernel the threads and vector lanes; else
    the innermost tile with its reduction.
    """
    if any(statement is copy for copy in staging_copies(nest)):
        number = next(n for n, known in enumerate(nest.statements) if known is statement)
        following = nest.statements[number + 1 : number + 2]
        shared = max(statement.n_shared_with_previous, *(s.n_shared_with_previous for s in following), 0)
        return loops_from(statement, shared)
    kinds = {*THREAD_KINDS, LoopKind.VECTORIZED}
    if any(loop.kind.constant in THREAD_KINDS for loop in statement.loops):
        return frozenset(n for n, loop in enumerate(statement.loops) if loop.kind.constant in kinds)
    return loops_from(statement, inner_tile_depth(statement))


def _contiguous_runs(nest: LoopNest) -> list[tuple[Expr, int]]:
    statements = staging_copies(nest) or [_main(nest)]
    return [
        (
            contiguous_elements(nest, statement, access, staging_loops(nest, statement)),
            nest.buffers[access.buffer].item_bytes,
        )
        for statement in statements
        for access in global_reads(nest, statement)
    ]


def _larger(a: Expr, b: Expr) -> Expr:
    """The larger of two values >= 1 (or >= 0 beside a 0)."""
    if a.constant in (0, 1):
        return b
    return a if b.constant in (0, 1) else maximum(a, b)


def _main(nest: LoopNest) -> Statement:
    return nest.statements[main_statement(nest)]
