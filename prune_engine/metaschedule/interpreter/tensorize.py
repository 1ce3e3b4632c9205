"""Blocks that one instruction computes: an inner tile of loops becomes a block of its own, then an intrinsic.

After TVM's blockize_tensorize.cc and rewrite_tensorize.cc. The outer block is the one of the tree; it reads and
writes regions as wide as the tile. What is inside is kept for a start value that no intrinsic sets.
"""

from __future__ import annotations

import re

from prune_engine.metaschedule.interpreter.tree import (
    AccessNode,
    BlockNode,
    BufferNode,
    IndexNode,
    IterNode,
    LoopNode,
    Node,
    NotInterpretedError,
    TermNode,
    Tree,
    blocks_under,
    loops_of,
    plain,
)
from prune_engine.symbols.expr import Expr, as_expr, product

_INTRINSIC, _INIT_INTRINSIC = "meta_schedule.auto_tensorize", "meta_schedule.auto_tensorize_init"

#: An iterator over the tile: what is left of it outside, and the part inside (None where the tile does not use it).
_Parts = tuple[IterNode, IterNode | None]


def blockize(tree: Tree, loop: LoopNode) -> BlockNode:
    """Make one block of a loop and all inside it. Raises NotInterpretedError where the tile has no fixed size."""
    block = _only_block(loop)
    inside = [loop, *loops_of(block)[len(loops_of(loop)) + 1 :]]
    parts = {it: _divided(it, set(inside), block) for it in block.real_iters}
    outer = BlockNode(
        f"{block.name}_o",
        [part for part, _ in parts.values()],
        [],
        [],
        block.has_init,
        block.flop_count * _size([it for _, it in parts.values() if it is not None]),
        is_copy=block.is_copy,
        inner=block,
    )
    _Accesses(block, parts, set(inside), outer).divide()
    tree.replace(loop, outer)
    loop.parent = None
    block.iters = [it for _, it in parts.values() if it is not None]
    block.has_init = False
    if outer.has_init:  # what is set to its start value is all that is ever told of the inside
        for it in block.iters:
            it.name += "" if it.is_reduction else "_init"
    return outer


def tile_of(block: BlockNode, *, is_init: bool) -> tuple[int, int, int] | None:
    """m, n, k of the intrinsic that computes the block (or sets its start value), None if none does."""
    name = str(block.annotations.get(_INIT_INTRINSIC if is_init else _INTRINSIC, ""))
    if not name or block.inner is None:
        return None
    named = re.search(r"_(\d+)x(\d+)x(\d+)(_|$)", name)
    if named is not None:
        return int(named[1]), int(named[2]), int(named[3])
    last = {it for index in block.inner.writes[0].indices[-1:] for it, _ in index.coefficients or ()}
    spatial = [it for it in block.inner.iters if not it.is_reduction]
    columns = [it for it in spatial if it in last]
    return (
        _size([it for it in spatial if it not in last]),
        _size(columns),
        _size([it for it in block.inner.iters if it.is_reduction]),
    )


def init_tile(block: BlockNode) -> tuple[LoopNode, IterNode] | None:
    """The loop, and its variable, that sets the start values of a tile element by element; TVM vectorises it.

    None if there is no tile, or an intrinsic fills it. Raises NotInterpretedError for a tile of two dimensions.
    """
    if block.inner is None or tile_of(block, is_init=True) is not None:
        return None
    spatial = [it for it in block.inner.iters if not it.is_reduction]
    loop = spatial[0].terms[0].plain_loop if len(spatial) == 1 and len(spatial[0].terms) == 1 else None
    if loop is None:
        raise NotInterpretedError(f"block {block.name!r}: a tile of several dimensions without an init intrinsic")
    return loop, spatial[0]


def redirect(block: BlockNode, old: BufferNode, new: BufferNode) -> None:
    """Let what is inside a tile write ``new`` where it wrote ``old``."""
    if block.inner is not None:
        inner = block.inner
        inner.writes = [AccessNode(new if a.buffer is old else a.buffer, a.indices, a.count) for a in inner.writes]


def quotient(term: TermNode, inside: set[LoopNode]) -> tuple[list[TermNode], list[TermNode]] | None:
    """A term as terms of loops outside and inside a tile; None where it is not a sum of the two.

    A quotient of a sum of loops is one of those loops whose strides the divisor divides, if the others stay
    below it; a remainder is what such a quotient leaves.
    """
    if all(d.loop not in inside for d in term.over):
        return [term], []
    if not all(d.is_whole for d in term.over):
        return None
    upper = [d for d in term.over if (d.flat_stride % term.divisor).constant == 0]
    lower = [d for d in term.over if d not in upper]
    if not _stays_below([(d.flat_stride, d.loop.extent) for d in lower], term.divisor):
        return None
    limit = term.divisor * term.modulus
    kept = [d for d in upper if (d.flat_stride % limit).constant != 0]
    if not _stays_below([(d.flat_stride, d.loop.extent) for d in kept], limit):
        return None
    terms = [plain(d.loop, term.stride * (d.flat_stride // term.divisor)) for d in kept]
    return (
        [t for t in terms if t.over[0].loop not in inside],
        [t for t in terms if t.over[0].loop in inside],
    )


def _stays_below(digits: list[tuple[Expr, Expr]], limit: Expr) -> bool:
    """Whether a sum of stride * digit, each digit below its extent, is always less than a limit."""
    last = 0
    for stride, extent in digits:
        if stride.constant is None or extent.constant is None:
            last = -1
            break
        last += stride.constant * (extent.constant - 1)
    if last >= 0 and limit.constant is not None:
        return last < limit.constant
    # Digits of a mixed radix: the first one's stride times its extent is what all of them make.
    return bool(digits) and digits[0][0] * digits[0][1] is limit


def _divided(it: IterNode, inside: set[LoopNode], block: BlockNode) -> _Parts:
    outer_terms = [t for t in it.terms if all(d.loop not in inside for d in t.over)]
    inner_terms = [t for t in it.terms if t not in outer_terms]
    loops = [t.plain_loop for t in inner_terms]
    size = product(loop.extent for loop in loops if loop is not None).constant
    if None in loops or size is None or (it.extent % size).constant != 0:
        raise NotInterpretedError(f"block {block.name!r}: a tile along {it.name} of a size that is not fixed")
    if any((t.stride % size).constant != 0 for t in outer_terms) or (it.offset % size).constant != 0:
        raise NotInterpretedError(f"block {block.name!r}: tiles along {it.name} that overlap")
    outer = IterNode(f"{it.name}_o", it.extent // size, it.is_reduction, offset=it.offset // size)
    outer.terms = [TermNode(t.stride // size, t.over, t.divisor, t.modulus) for t in outer_terms]
    outer.stays_inside = it.stays_inside
    if size == 1:
        return outer, None
    return outer, IterNode(f"{it.name}_i", as_expr(size), it.is_reduction, inner_terms)


class _Accesses:
    """The accesses of a block as regions of the outer one, and as elements of the inner one."""

    def __init__(
        self, block: BlockNode, parts: dict[IterNode, _Parts], inside: set[LoopNode], outer: BlockNode
    ) -> None:
        self._block, self._parts, self._inside, self._outer = block, parts, inside, outer

    def divide(self) -> None:
        """Give the outer block its regions and the inner one its elements."""
        block = self._block
        self._outer.reads = [self._divided(a)[0] for a in block.reads]
        writes = [self._divided(a) for a in block.writes]
        self._outer.writes = [outer for outer, _ in writes]
        block.writes = [inner for _, inner in writes]
        block.reads = []

    def _divided(self, access: AccessNode) -> tuple[AccessNode, AccessNode]:
        pairs = [self._index(index) for index in access.indices]
        physical = None
        if access.physical is not None:
            physical = tuple(self._index(index)[0] for index in access.physical)
        return (
            AccessNode(access.buffer, tuple(outer for outer, _ in pairs), access.count, physical),
            AccessNode(access.buffer, tuple(inner for _, inner in pairs), access.count),
        )

    def _index(self, index: IndexNode) -> tuple[IndexNode, IndexNode]:
        if index.coefficients is None:
            return index, index
        outer: list[tuple[IterNode, int]] = []
        inner: list[tuple[IterNode, int]] = []
        width = index.width
        for it, c in index.coefficients:
            if c < 0:
                raise NotInterpretedError(f"block {self._block.name!r}: a tile that is walked backwards")
            over, tile = self._virtual(it) if it.is_virtual else self._parts[it]
            size = 1 if tile is None else tile.extent.constant or 1
            if over is not None and not (over.extent.constant == 1 and tile is not None):
                outer.append((over, c * size))
            if tile is not None:
                inner.append((tile, c))
                width += c * (size - 1)
        return (
            IndexNode(tuple(outer), index.offset, width),
            IndexNode((*outer, *inner), index.offset, index.width),
        )

    def _virtual(self, it: IterNode) -> tuple[IterNode | None, IterNode | None]:
        """A quotient or remainder: once the tile is cut out, it mostly is one of the variables."""
        found = [quotient(term, self._inside) for term in it.terms]
        outer = [t for pair in found if pair is not None for t in pair[0]]
        inner = [t for pair in found if pair is not None for t in pair[1]]
        tile = next((i for _, i in self._parts.values() if i is not None and i.terms == inner), None)
        if None in found or (inner and tile is None):
            raise NotInterpretedError(f"block {self._block.name!r}: a tile across {it.name}")
        if not outer:
            return None, tile
        size = 1 if tile is None else tile.extent.constant or 1
        outer = [TermNode(t.stride // size, t.over, t.divisor, t.modulus) for t in outer]
        known = next((o for o in self._outer.iters if o.terms == outer), None)
        if known is None:
            known = IterNode(f"{it.name}_o", it.extent // size, it.is_reduction, outer, is_virtual=True)
            self._outer.iters.append(known)
        return known, tile


def _only_block(loop: LoopNode) -> BlockNode:
    node: Node = loop
    while isinstance(node, LoopNode):
        if len(node.children) != 1:
            raise NotInterpretedError(f"loop {loop.name} of a tile holds {len(blocks_under(loop))} blocks")
        node = node.children[0]
    if node.inner is not None:
        raise NotInterpretedError(f"block {node.name!r} is a tile already")
    return node


def _size(iters: list[IterNode]) -> int:
    size = 1
    for it in iters:
        size *= it.extent.constant or 1
    return size
