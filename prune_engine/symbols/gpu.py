"""Symbols of GPU kernels: launch extents, memory per block and per thread, registers.

A PrimFunc may launch several kernels (one per loop tree at its root): what limits a launch is the largest.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from prune_engine.symbols.bands import kernels, main_statement
from prune_engine.symbols.expr import Expr, as_expr, ceildiv, maximum, product, total
from prune_engine.symbols.footprint import distinct_elements
from prune_engine.symbols.loop_nest import BLOCK_KINDS, THREAD_KINDS, LoopKind, LoopNest, Statement
from prune_engine.symbols.statement import axis_extent, operand_accesses, output_access, per_thread_tile_loops

_REGISTER_BYTES = 4
#: Threads that run one matrix instruction together.
_WARP_LANES = 32


def threads_per_block(nest: LoopNest) -> Expr:
    """Threads of a block: of the kernel with most."""
    return _over_kernels(nest, THREAD_KINDS)


def grid_blocks(nest: LoopNest) -> Expr:
    """Blocks: of the kernel with most."""
    return _over_kernels(nest, BLOCK_KINDS)


def vthreads(nest: LoopNest) -> Expr:
    """Virtual threads that a thread works for: of the kernel with most."""
    return _over_kernels(nest, (LoopKind.VTHREAD,))


def shared_bytes_per_block(nest: LoopNest) -> Expr:
    """Shared memory of a block: of the kernel with most."""
    return nest.laid_out_shared_bytes or _allocated(nest, "shared")


def local_bytes_per_thread(nest: LoopNest) -> Expr:
    """What a thread allocates for itself (registers, if they suffice): of the kernel with most.

    It does so once for each virtual thread that it works for. What sums across threads need is not counted.
    """
    return _allocated(nest, "local", (LoopKind.VTHREAD,))


def registers_per_thread(nest: LoopNest) -> Expr:
    """Registers of 4 bytes for a thread's tile of the main statement's output and for its operands.

    Pruner's S1 with the width of the element: with the reduction standing still, the elements of each
    buffer that one thread's spatial loops touch. A matrix instruction's tile is a warp's: its lanes share it.
    """
    lanes = 1 if nest.statements[main_statement(nest)].tile is None else _WARP_LANES
    return total(
        elements if item == _REGISTER_BYTES * lanes else ceildiv(elements * item, _REGISTER_BYTES * lanes)
        for elements, item in thread_tile(nest)
    )


def thread_tile(nest: LoopNest) -> list[tuple[Expr, int]]:
    """Elements and bytes per element of each buffer in one thread's tile of the main statement."""
    statement = nest.statements[main_statement(nest)]
    output = output_access(statement)
    accesses = [*([output] if output else []), *operand_accesses(statement).values()]
    running = per_thread_tile_loops(statement)
    return [
        (distinct_elements(nest, statement, access, running), nest.buffers[access.buffer].item_bytes)
        for access in accesses
    ]


def statements_of(nest: LoopNest, kernel: Iterable[int]) -> list[Statement]:
    """The statements of a kernel."""
    return [nest.statements[number] for number in kernel]


def _over_kernels(nest: LoopNest, kinds: Sequence[LoopKind]) -> Expr:
    """The largest product, over all kernels, of what the axes of these kinds extend to in the kernel."""
    result = as_expr(1)
    for kernel in kernels(nest):
        result = _larger(result, _extent_in(nest, kernel, kinds))
    return result


def _extent_in(nest: LoopNest, kernel: Iterable[int], kinds: Sequence[LoopKind]) -> Expr:
    extents = []
    for kind in kinds:
        extent = as_expr(1)
        for statement in statements_of(nest, kernel):
            extent = _larger(extent, axis_extent(statement, kind))
        extents.append(extent)
    return product(extents)


def _allocated(nest: LoopNest, scope: str, once_for: Sequence[LoopKind] = ()) -> Expr:
    """The largest sum of a kernel's buffers in a scope, each there once for every turn of loops of these kinds."""
    result = as_expr(0)
    for kernel in kernels(nest):
        used = {access.buffer for s in statements_of(nest, kernel) for access in s.accesses}
        own = total(
            nest.buffers[name].stored_elements * nest.buffers[name].item_bytes
            for name in sorted(used)
            if nest.buffers[name].scope.split(".")[0] == scope
        )
        result = _larger(result, own * _extent_in(nest, kernel, once_for))
    return result


def _larger(a: Expr, b: Expr) -> Expr:
    if a.constant in (0, 1):
        return b
    return a if b.constant in (0, 1) else maximum(a, b)
