"""Compute locations: where a block may be computed, and what TVM makes of a decision that is not one of them.

After TVM's CollectComputeLocation and SampleComputeLocation: -2 inlines, -1 stays at the root, k is the loop
number k around the first consumer; a decision that does not exist becomes the nearest below that does.
"""

from __future__ import annotations

from prune_engine.metaschedule.interpreter.tree import (
    BlockNode,
    IterNode,
    LoopNode,
    Tree,
    is_data_parallel,
    loops_of,
)
from prune_engine.symbols.expr import Expr, as_expr, both, either, negate, where

INLINE, ROOT = -2, -1


def candidate_loops(tree: Tree, block: BlockNode) -> list[LoopNode]:
    """The loops around all consumers, outermost first; their numbers are the locations."""
    consumers = tree.consumers(block)
    if not consumers:
        return []
    common = loops_of(consumers[0])
    for other in consumers[1:]:
        around = set(loops_of(other))
        common = [loop for loop in common if loop in around]
    return common


def locations(tree: Tree, block: BlockNode) -> dict[int, Expr]:
    """Where the block may go: location -> 1 where it exists, ascending. ROOT always does."""
    found: dict[int, Expr] = {}
    if can_inline(block):
        found[INLINE] = as_expr(1)
    found[ROOT] = as_expr(1)
    loops = candidate_loops(tree, block) if _comes_in_time(tree, block) else []
    parallel = [is_data_parallel(loop) for loop in loops]
    is_parallel_inside = [as_expr(0)]
    for condition in reversed(parallel[1:]):
        is_parallel_inside.append(either(condition, is_parallel_inside[-1]))
    may_go_on, has_reduction = as_expr(1), as_expr(0)
    for number, (loop, inside) in enumerate(zip(loops, reversed(is_parallel_inside), strict=bool(loops))):
        # A unit loop is passed over. A data-parallel loop inside a reduction ends the search, and so does a
        # reduction with no data-parallel loop inside.
        runs = as_expr(1).lt(loop.extent)
        may_stand = where(parallel[number], negate(has_reduction), inside)
        may_go_on = where(runs, both(may_go_on, may_stand), may_go_on)
        has_reduction = where(both(runs, negate(parallel[number])), 1, has_reduction)
        exists = both(runs, may_go_on)
        if exists.constant != 0:
            found[number] = exists
    return found


def effective(options: dict[int, Expr], decision: Expr) -> Expr:
    """The location that TVM takes for a decision."""
    lowest = min(options)
    taken: Expr = as_expr(ROOT if lowest == ROOT else lowest)
    for location, exists in sorted(options.items()):
        taken = where(both(exists, as_expr(location).le(decision)), location, taken)
    if lowest != ROOT:
        return taken
    return where(decision.lt(ROOT), ROOT, taken)


def can_inline(block: BlockNode) -> bool:
    """Whether it can be computed where it is read: no reduction, not an output, one element per instance."""
    if not block.is_spatial or block.has_init or len(block.writes) != 1:
        return False
    write = block.writes[0]
    if write.buffer.is_argument:
        return False
    used: list[IterNode] = []
    for index in write.indices:
        if index.coefficients is None or index.offset or len(index.coefficients) > 1:
            return False
        used.extend(it for it, c in index.coefficients if c == 1 and not it.is_virtual)
    return len(set(used)) == len(used)


def _comes_in_time(tree: Tree, block: BlockNode) -> bool:
    """Whether everything that the block reads is computed before its first consumer, and it is no output."""
    if any(access.buffer.is_argument for access in block.writes):
        return False
    order = {other: number for number, other in enumerate(tree.blocks())}
    first = min((order[consumer] for consumer in tree.consumers(block)), default=0)
    return all(order[producer] < first for producer in tree.producers(block))
