"""Blocks that disappear into those that read them, or into the one that they read."""

from __future__ import annotations

from prune_engine.metaschedule.interpreter.tree import (
    AccessNode,
    BlockNode,
    DigitNode,
    IndexNode,
    IterNode,
    NotInterpretedError,
    TermNode,
    Tree,
)
from prune_engine.symbols.expr import as_expr

#: An index as a sum: iterators of the reading block with coefficients, and a constant.
Sum = tuple[dict[IterNode, int], int]


def compute_inline(tree: Tree, block: BlockNode) -> None:
    """Put what the block computes where its consumers read it."""
    write = _only(block.writes, block)
    for consumer in tree.consumers(block):
        reads: list[AccessNode] = []
        for read in consumer.reads:
            if read.buffer is not write.buffer:
                _add_read(reads, read)
                continue
            bindings = _bindings(write, read)
            for inlined in block.reads:
                _add_read(reads, _through(inlined, bindings, consumer, read.count))
            consumer.flop_count += read.count * block.flop_count
            consumer.call_count += read.count * block.call_count
        consumer.reads = reads
        consumer.is_copy = consumer.is_copy and block.is_copy
    tree.remove(block)
    tree.buffers.remove(write.buffer)


def reverse_compute_inline(tree: Tree, block: BlockNode) -> None:
    """Put the block into the one that makes what it reads: that one then writes what this one wrote."""
    producer = next((p for p in tree.producers(block) if not p.has_init), None)
    if producer is None:
        raise NotInterpretedError(f"block {block.name!r} is inlined into nothing")
    made = _only(producer.writes, producer)
    read = next(access for access in block.reads if access.buffer is made.buffer)
    # The block's iterators by what the producer writes: they index the buffer one by one.
    bindings: dict[IterNode, Sum | None] = {}
    for mine, theirs in zip(read.indices, made.indices, strict=True):
        if mine.coefficients is None or len(mine.coefficients) > 1:
            raise NotInterpretedError(f"block {block.name!r} reads with a sum of its variables")
        for it, coefficient in mine.coefficients:
            if coefficient != 1 or it.is_virtual:
                raise NotInterpretedError(f"block {block.name!r} reads with a stride or a quotient")
            moved = _sum(theirs)
            bindings[it] = None if moved is None else (moved[0], moved[1] - mine.offset)
    for it in block.real_iters:
        bindings.setdefault(it, ({}, 0))  # a variable of extent 1
    reads = list(producer.reads)
    for access in block.reads:
        if access.buffer is not made.buffer:
            _add_read(reads, _through(access, bindings, producer, 1))
    producer.flop_count += block.flop_count
    producer.call_count += block.call_count
    producer.reads = reads
    producer.writes = [_through(access, bindings, producer, 1) for access in block.writes]
    producer.is_copy = producer.is_copy and block.is_copy
    tree.remove(block)
    tree.buffers.remove(made.buffer)


def _only(accesses: list[AccessNode], block: BlockNode) -> AccessNode:
    if len(accesses) != 1:
        raise NotInterpretedError(f"block {block.name!r} writes {len(accesses)} buffers")
    return accesses[0]


def _sum(index: IndexNode) -> Sum | None:
    if index.coefficients is None:
        return None
    return dict(index.coefficients), index.offset


def _bindings(write: AccessNode, read: AccessNode) -> dict[IterNode, Sum | None]:
    """The written block's iterators as sums of the reading block's."""
    found: dict[IterNode, Sum | None] = {}
    for index, place in zip(write.indices, read.indices, strict=True):
        if index.coefficients is None or len(index.coefficients) > 1 or place.width != 1:
            raise NotInterpretedError(f"buffer {write.buffer.name!r} is not written one element per variable")
        for it, _ in index.coefficients:
            found[it] = _sum(place)
    return found


def _through(access: AccessNode, bindings: dict[IterNode, Sum | None], into: BlockNode, count: int) -> AccessNode:
    """An access of the block that disappears, seen from the block that takes it in."""
    return AccessNode(
        access.buffer, tuple(_index_through(i, bindings, into) for i in access.indices), access.count * count
    )


def _index_through(index: IndexNode, bindings: dict[IterNode, Sum | None], into: BlockNode) -> IndexNode:
    if index.coefficients is None:
        return index
    found: dict[IterNode, int] = {}
    offset = index.offset
    for it, coefficient in index.coefficients:
        seen = _virtual_through(it, bindings, into) if it.is_virtual else bindings.get(it, ({}, 0))
        if seen is None:
            return IndexNode(None)
        for target, c in seen[0].items():
            found[target] = found.get(target, 0) + coefficient * c
        offset += coefficient * seen[1]
    return IndexNode(tuple((it, c) for it, c in found.items() if c), offset, index.width)


def _virtual_through(it: IterNode, bindings: dict[IterNode, Sum | None], into: BlockNode) -> Sum | None:
    """A quotient or remainder of iterators, over the iterators that take their place."""
    if len(it.terms) != 1:
        return None
    term = it.terms[0]
    digits: list[DigitNode] = []
    start = term.start
    for digit in term.over:
        source = next((real for real in bindings if any(t.plain_loop is digit.loop for t in real.terms)), None)
        seen = bindings[source] if source is not None else None
        if seen is None or not digit.is_whole:
            return None
        start = start + digit.flat_stride * seen[1]
        for target, coefficient in seen[0].items():
            start = start + digit.flat_stride * coefficient * target.offset
            for inner in target.terms:
                if inner.plain_loop is None and (len(inner.over) != 1 or inner.divisor.constant != 1):
                    return None
                over = inner.over[0]
                scale = digit.flat_stride * coefficient * inner.stride
                digits.append(DigitNode(over.loop, over.flat_stride * scale, over.divisor, over.modulus))
    name = f"{it.name} of {into.name}"
    made = IterNode(name, it.extent, it.is_reduction, [], is_virtual=True)
    made.terms.append(TermNode(as_expr(1), tuple(digits), term.divisor, term.modulus, start))
    into.iters.append(made)
    return {made: 1}, 0


def _add_read(reads: list[AccessNode], new: AccessNode) -> None:
    """Add a read, joined with one of the same buffer: TVM declares one region per buffer."""
    for position, known in enumerate(reads):
        if known.buffer is new.buffer:
            indices = tuple(_joined(a, b) for a, b in zip(known.indices, new.indices, strict=True))
            reads[position] = AccessNode(known.buffer, indices, known.count + new.count)
            return
    reads.append(new)


def _joined(a: IndexNode, b: IndexNode) -> IndexNode:
    if a.coefficients is None or b.coefficients is None or dict(a.coefficients) != dict(b.coefficients):
        return IndexNode(None)
    low = min(a.offset, b.offset)
    return IndexNode(a.coefficients, low, max(a.offset + a.width, b.offset + b.width) - low)
