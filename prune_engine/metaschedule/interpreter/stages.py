"""Blocks that a schedule adds: copies into and out of faster memory, and the first half of a split reduction."""

from __future__ import annotations

from dataclasses import replace

from prune_engine.metaschedule.interpreter.layouts import chained, logical, physical_shape
from prune_engine.metaschedule.interpreter.tensorize import redirect
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
    whole,
)


def cache_write(tree: Tree, block: BlockNode, number: int, scope: str) -> BlockNode:
    """The block writes into a buffer of ``scope``; a copy after it writes the real one."""
    access = block.writes[number]
    cached = _cached(tree, access.buffer, scope)
    block.writes[number] = AccessNode(cached, access.indices, access.count)
    redirect(block, access.buffer, cached)
    block.reads = [AccessNode(cached, r.indices, r.count) if r.buffer is access.buffer else r for r in block.reads]
    copy, nest = _copy(tree, cached, access.buffer, cached.name)
    top = _top(block)
    tree.insert(nest, None, tree.roots.index(top) + 1)
    return copy


def cache_read(tree: Tree, block: BlockNode, number: int, scope: str, consumers: list[BlockNode]) -> BlockNode:
    """A copy before the block fills a buffer of ``scope``, from which the consumers (default: it) read."""
    access = block.reads[number]
    cached = _cached(tree, access.buffer, scope)
    for reader in consumers or [block]:
        reader.reads = [
            AccessNode(cached, r.indices, r.count) if r.buffer is access.buffer else r for r in reader.reads
        ]
    copy, nest = _copy(tree, access.buffer, cached, cached.name)
    producers = [b for b in tree.blocks() if any(a.buffer is access.buffer for a in b.writes)]
    top = _top(producers[-1]) if producers else None
    place = tree.roots.index(top) + 1 if top is not None else tree.roots.index(_top(block))
    tree.insert(nest, None, place)
    return copy


def rfactor(tree: Tree, loop: LoopNode, axis: int) -> BlockNode:
    """Split a reduction: partial results per step of ``loop`` first, then their sum in the old block's place."""
    block = _only_block(loop)
    if len(block.writes) != 1:
        raise NotInterpretedError(f"block {block.name!r} reduces into {len(block.writes)} buffers")
    around, write = loops_of(block), block.writes[0]
    partial = BufferNode(
        f"{write.buffer.name}_rf",
        write.buffer.scope,
        write.buffer.dtype,
        write.buffer.item_bytes,
        (*write.buffer.shape[:axis], loop.extent, *write.buffer.shape[axis:]),
        is_argument=False,
    )
    tree.buffers.append(partial)
    copies = {old: LoopNode(old.name, old.extent) for old in around}
    first = _partial_block(tree, block, loop, axis, partial, copies)
    nest: Node = first
    for old in reversed(around):
        copies[old].children.append(nest)
        nest.parent = copies[old]
        nest = copies[old]
    _keep_final_sum(tree, block, loop, axis, partial)
    tree.insert(nest, None, tree.roots.index(_top(block)))
    return first


def _partial_block(
    tree: Tree, block: BlockNode, loop: LoopNode, axis: int, partial: BufferNode, copies: dict[LoopNode, LoopNode]
) -> BlockNode:
    """The block of partial results: ``loop`` becomes spatial; other loops of its variable bind one each."""
    kept: dict[IterNode, IterNode] = {}
    made = IterNode(f"v{loop.name}", loop.extent, False, [plain(copies[loop])])
    iters = [made]
    bound = {loop}
    for it in block.iters:
        terms = [_over(term, copies) for term in it.terms]
        is_split = not it.is_virtual and it.is_reduction and any(d.loop is loop for t in it.terms for d in t.over)
        kept[it] = IterNode(it.name, it.extent, it.is_reduction, terms, is_virtual=it.is_virtual or is_split)
        iters.append(kept[it])
        if is_split:
            for source in _loops_in_order(it):
                if source not in bound:
                    bound.add(source)
                    iters.append(IterNode(f"v{source.name}", source.extent, True, [plain(copies[source])]))
    write = block.writes[0]
    indices = [_with(index, kept) for index in write.indices]
    indices.insert(axis, IndexNode(((made, 1),)))
    reads = [AccessNode(r.buffer, tuple(_with(i, kept) for i in r.indices), r.count) for r in block.reads]
    return BlockNode(
        tree.unique_name(f"{block.name}_rf"),
        iters,
        reads,
        [AccessNode(partial, tuple(indices))],
        True,
        block.flop_count,
        annotations=dict(block.annotations),
        call_count=block.call_count,
    )


def _keep_final_sum(tree: Tree, block: BlockNode, loop: LoopNode, axis: int, partial: BufferNode) -> None:
    """The old block sums up the partial results: of its reduction loops only ``loop`` stays."""
    made = IterNode(f"v{loop.name}", loop.extent, True, [plain(loop)])
    spatial = [it for it in block.iters if not it.is_reduction and not it.is_virtual]
    used = {d.loop for it in spatial for t in it.terms for d in t.over} | {loop}
    write = block.writes[0]
    indices = list(write.indices)
    indices.insert(axis, IndexNode(((made, 1),)))
    block.iters = [made, *spatial]
    block.reads = [AccessNode(partial, tuple(indices))]
    block.flop_count, block.call_count = 1, 0
    for other in loops_of(block):
        if other in used:
            continue
        (child,) = other.children
        tree.replace(other, child)


def _loops_in_order(it: IterNode) -> list[LoopNode]:
    found: list[LoopNode] = []
    for term in it.terms:
        found.extend(d.loop for d in term.over if d.loop not in found)
    return found


def _over(term: TermNode, copies: dict[LoopNode, LoopNode]) -> TermNode:
    source = term.plain_loop
    if source is not None:
        return plain(copies[source], term.stride)
    over = tuple(
        whole(copies[d.loop], d.flat_stride)
        if d.is_whole
        else type(d)(copies[d.loop], d.flat_stride, d.divisor, d.modulus)
        for d in term.over
    )
    return replace(term, over=over)


def _with(index: IndexNode, kept: dict[IterNode, IterNode]) -> IndexNode:
    if index.coefficients is None:
        return index
    return IndexNode(tuple((kept[it], c) for it, c in index.coefficients), index.offset, index.width)


def _cached(tree: Tree, buffer: BufferNode, scope: str) -> BufferNode:
    name = f"{buffer.name}_{scope}"
    made = BufferNode(
        name, scope, buffer.dtype, buffer.item_bytes, buffer.shape, is_argument=False, layout=buffer.layout
    )
    tree.buffers.append(made)
    return made


def _copy(tree: Tree, source: BufferNode, target: BufferNode, name: str) -> tuple[BlockNode, Node]:
    """A block that copies a whole buffer, in its own loops."""
    loops = [LoopNode(f"ax{k}", size) for k, size in enumerate(physical_shape(source))]
    iters = [IterNode(f"v{k}", loop.extent, False, [plain(loop)]) for k, loop in enumerate(loops)]
    indices, laid_out = tuple(IndexNode(((it, 1),)) for it in iters), None
    if source.layout is not None:
        own = logical(source, iters)
        iters = [*iters, *own]
        indices, laid_out = tuple(IndexNode(((it, 1),)) for it in own), indices
    block = BlockNode(
        tree.unique_name(name),
        iters,
        [AccessNode(source, indices, physical=laid_out)],
        [AccessNode(target, indices, physical=laid_out)],
        False,
        0,
        is_copy=True,
    )
    return block, chained(loops, block)


def _top(block: BlockNode) -> Node:
    around = loops_of(block)
    return around[0] if around else block


def _only_block(loop: LoopNode) -> BlockNode:
    blocks = blocks_under(loop)
    if len(blocks) != 1:
        raise NotInterpretedError(f"loop {loop.name} of an rfactor holds {len(blocks)} blocks")
    return blocks[0]
