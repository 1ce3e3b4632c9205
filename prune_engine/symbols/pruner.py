"""Pruner's eight symbols (arXiv 2402.02361, table 2), on any loop nest. In elements, as there."""

from __future__ import annotations

from prune_engine.symbols import kernel
from prune_engine.symbols.bands import main_statement
from prune_engine.symbols.expr import Expr, product, total
from prune_engine.symbols.gpu import grid_blocks, thread_tile, threads_per_block
from prune_engine.symbols.loop_nest import LoopNest
from prune_engine.symbols.statement import per_thread_loops
from prune_engine.symbols.traffic import chunk_traffic_bytes


def s1_l0_mem_alloc(nest: LoopNest) -> Expr:
    """Elements of a thread's tile: output and operands."""
    return total(elements for elements, _ in thread_tile(nest))


def s2_l0_comp_count(nest: LoopNest) -> Expr:
    """Iterations of one thread, reduction included."""
    statement = nest.statements[main_statement(nest)]
    return product(statement.loops[number].extent for number in sorted(per_thread_loops(statement)))


def s3_l1_mem_alloc(nest: LoopNest) -> Expr:
    """Elements staged in shared memory for one step of the outer reduction loop."""
    return total(b.stored_elements for b in nest.buffers.values() if b.scope.split(".")[0] == "shared")


def s4_l1_para_info(nest: LoopNest) -> Expr:
    """Threads per block."""
    return threads_per_block(nest)


def s5_l2_mem_footprint(nest: LoopNest) -> Expr:
    """Elements read from device memory by all blocks."""
    statements = kernel.staging_copies(nest) or [nest.statements[main_statement(nest)]]
    return total(
        chunk_traffic_bytes(nest, statement, access.buffer) // nest.buffers[access.buffer].item_bytes
        for statement in statements
        for access in kernel.global_reads(nest, statement)
    )


def s6_l2_para_info(nest: LoopNest) -> Expr:
    """Blocks."""
    return grid_blocks(nest)


def s7_l2_trans_dim(nest: LoopNest) -> Expr:
    """Consecutive elements of an access to device memory."""
    return kernel.contiguous_elements_staged(nest)


def s8_l2_comp_count(nest: LoopNest) -> Expr:
    """Operations in all."""
    return kernel.flops_total(nest)
