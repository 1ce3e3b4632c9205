"""Pruner's symbols carried over to CPUs, whose caches stand where GPUs stage data explicitly."""

from __future__ import annotations

from prune_engine.symbols.bands import inner_tile_depth, main_statement, reduction_loops
from prune_engine.symbols.expr import Expr, as_expr, ceildiv, total
from prune_engine.symbols.footprint import distinct_elements, loops_from
from prune_engine.symbols.loop_nest import Access, LoopNest, Statement
from prune_engine.symbols.statement import (
    last_dimension_iterators,
    operand_accesses,
    output_access,
    vector_lanes,
)


def vector_registers(nest: LoopNest) -> Expr:
    """Registers of the innermost tile: accumulators, one broadcast per scalar operand, vectors of the others.

    A register is as wide as the vectorised loop; where a loop is wider than the machine's vectors, each
    of them stands for several.
    """
    statement = _main(nest)
    lanes = vector_lanes(statement)
    along = set(last_dimension_iterators(nest, statement))
    return fma_chains(nest) + total(
        ceildiv(_elements(nest, statement, access), lanes) if _follows(access, along) else as_expr(1)
        for access in operand_accesses(statement).values()
    )


def fma_chains(nest: LoopNest) -> Expr:
    """Independent accumulators of the innermost tile, each as wide as the vectorised loop."""
    statement = _main(nest)
    output = output_access(statement)
    if output is None:
        return as_expr(0)
    return ceildiv(_elements(nest, statement, output), vector_lanes(statement))


def _elements(nest: LoopNest, statement: Statement, access: Access) -> Expr:
    """Elements of an access in the innermost tile, the reduction standing still."""
    inner = frozenset(loops_from(statement, inner_tile_depth(statement))) - reduction_loops(statement)
    return distinct_elements(nest, statement, access, inner)


def _follows(access: Access, iterators: set[int]) -> bool:
    return any(number in iterators for index in access.indices for number, c in index.coefficients or () if c)


def _main(nest: LoopNest) -> Statement:
    return nest.statements[main_statement(nest)]
