"""Primitives that rearrange loops: split, fuse, reorder."""

from __future__ import annotations

from itertools import pairwise

from prune_engine.metaschedule.interpreter.tree import (
    LoopNode,
    NotInterpretedError,
    Tree,
    fuse_in_bindings,
    loops_of,
    split_in_bindings,
)
from prune_engine.symbols.expr import Expr, product


def split_loop(tree: Tree, loop: LoopNode, extents: list[Expr], *, is_perfect: bool) -> list[LoopNode]:
    """Put nested loops of these extents, outermost first, where ``loop`` was."""
    made = [LoopNode(f"{loop.name}_{k}", extent) for k, extent in enumerate(extents)]
    strides = [product(extents[k + 1 :]) for k in range(len(extents))]
    split_in_bindings(loop, loop, list(zip(made, strides, strict=True)), is_perfect)
    tree.replace(loop, made[0])
    for outer, inner in pairwise(made):
        outer.children = [inner]
        inner.parent = outer
    _take_children(made[-1], loop)
    return made


def fuse_loops(tree: Tree, loops: list[LoopNode]) -> LoopNode:
    """Put one loop where directly nested ones were."""
    for outer, inner in pairwise(loops):
        if outer.children != [inner]:
            raise NotInterpretedError(f"loops {outer.name} and {inner.name} are fused but not nested")
    fused = LoopNode("_".join(loop.name for loop in loops) + "_fused", product(loop.extent for loop in loops))
    fuse_in_bindings(loops[0], loops, fused)
    tree.replace(loops[0], fused)
    _take_children(fused, loops[-1])
    return fused


def reorder_loops(tree: Tree, order: list[LoopNode]) -> None:
    """Give the places that these loops have in their chain to them in this order."""
    depth = {loop: len(loops_of(loop)) for loop in order}
    top, bottom = min(order, key=depth.__getitem__), max(order, key=depth.__getitem__)
    chain = [*loops_of(bottom)[len(loops_of(top)) :], bottom]
    if chain[0] is not top or any(loop not in chain for loop in order):
        raise NotInterpretedError("loops of different nests are reordered")
    for outer in chain[:-1]:
        if len(outer.children) != 1:
            raise NotInterpretedError(f"loop {outer.name} is reordered but holds several things")
    body = bottom.children
    queue = iter(order)
    placed = [next(queue) if loop in order else loop for loop in chain]
    siblings, parent = tree.siblings(top), top.parent
    siblings[siblings.index(top)] = placed[0]
    placed[0].parent = parent
    for outer, inner in pairwise(placed):
        outer.children = [inner]
        inner.parent = outer
    placed[-1].children = body
    for child in body:
        child.parent = placed[-1]


def _take_children(new: LoopNode, old: LoopNode) -> None:
    new.children = old.children
    for child in new.children:
        child.parent = new
