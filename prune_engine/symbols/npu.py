"""Symbols for accelerators with scratchpads: bytes of the tiles that would have to lie in each of them.

The tile of a matrix unit is the innermost tile with its reduction; the next memory holds the tile with the whole
reduction outside it. No double buffering is counted: a rule multiplies.
"""

from __future__ import annotations

from prune_engine.symbols.bands import inner_tile_depth, main_statement, reduction_depth
from prune_engine.symbols.expr import Expr, as_expr, maximum, total
from prune_engine.symbols.footprint import footprint_bytes, loops_from, regions
from prune_engine.symbols.loop_nest import Access, LoopNest, Statement
from prune_engine.symbols.statement import operand_accesses, output_access, tile_iterators


def left_tile_bytes(nest: LoopNest) -> Expr:
    """The (m, k) operands of the innermost tile; 0 where the main statement is no matrix product."""
    return _tile_bytes(nest, _left(nest), inner_tile_depth(_main(nest)))


def right_tile_bytes(nest: LoopNest) -> Expr:
    """The (k, n) operand (weights) of the innermost tile; 0 where the main statement is no matrix product."""
    return _tile_bytes(nest, _right(nest), inner_tile_depth(_main(nest)))


def output_tile_bytes(nest: LoopNest) -> Expr:
    """The (m, n) output of the innermost tile; 0 where the main statement is no matrix product."""
    output = output_access(_main(nest))
    return _tile_bytes(nest, {output.buffer} if output else set(), inner_tile_depth(_main(nest)))


def operand_panel_bytes(nest: LoopNest) -> Expr:
    """Both operands of the tile with its whole reduction."""
    return _tile_bytes(nest, _left(nest) | _right(nest), reduction_depth(_main(nest)))


def panel_bytes(nest: LoopNest) -> Expr:
    """All buffers of the main statement's tile with its whole reduction."""
    return footprint_bytes(nest, _main(nest), reduction_depth(_main(nest)))


def vector_tile_bytes(nest: LoopNest) -> Expr:
    """The largest innermost tile, all its buffers, of a statement that is not a matrix product."""
    result = as_expr(0)
    for statement in nest.statements:
        if statement is not _main(nest) or not is_matrix_product(statement):
            size = footprint_bytes(nest, statement, inner_tile_depth(statement))
            result = size if result.constant == 0 else maximum(result, size)
    return result


def neuron_tile_bytes(nest: LoopNest) -> Expr:
    """The main statement's innermost tile, all its buffers but the weights of a matrix product."""
    statement = _main(nest)
    depth = inner_tile_depth(statement)
    if not is_matrix_product(statement):
        return footprint_bytes(nest, statement, depth)
    return left_tile_bytes(nest) + output_tile_bytes(nest)


def is_matrix_product(statement: Statement) -> bool:
    """Whether a reduction runs along at least two operands, as in a matrix product or a convolution."""
    reduced = {number for number, it in enumerate(statement.iterators) if it.is_reduction}
    return sum(_follows(access, reduced) for access in operand_accesses(statement).values()) >= 2


def _tile_bytes(nest: LoopNest, buffers: set[str], depth: int) -> Expr:
    statement = _main(nest)
    if not is_matrix_product(statement):
        return as_expr(0)
    found = regions(nest, statement, loops_from(statement, depth))
    return total(region.bytes for region in found if region.buffer.name in buffers)


def _right(nest: LoopNest) -> set[str]:
    """The operands that the output's columns index and its rows do not."""
    statement = _main(nest)
    _, columns, _ = tile_iterators(nest, statement)
    operands = operand_accesses(statement)
    by_columns = {name for name, access in operands.items() if _follows(access, set(columns))}
    return by_columns if by_columns != set(operands) else {list(operands)[-1]}


def _follows(access: Access, iterators: set[int]) -> bool:
    return any(number in iterators for index in access.indices for number, c in index.coefficients or () if c)


def _left(nest: LoopNest) -> set[str]:
    return set(operand_accesses(_main(nest))) - _right(nest)


def _main(nest: LoopNest) -> Statement:
    return nest.statements[main_statement(nest)]
