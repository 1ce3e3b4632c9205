"""Moving a block under a loop: which region it must cover there, and the loops that this takes.

After TVM's compute_at.cc: the new loops cover, per block variable, the hull of what the blocks on the other
side need while the loops inside the target loop run; storage that threads share is needed for all threads.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace

from prune_engine.metaschedule.interpreter.dynamic import dynamic_extent
from prune_engine.metaschedule.interpreter.layouts import physical, physical_shape
from prune_engine.metaschedule.interpreter.spans import split_span, term_reach
from prune_engine.metaschedule.interpreter.tree import (
    CONSTANT,
    AccessNode,
    BlockNode,
    DigitNode,
    Dynamic,
    IndexNode,
    IterNode,
    LoopNode,
    Node,
    NotInterpretedError,
    TermNode,
    Tree,
    loops_of,
    plain,
)
from prune_engine.symbols.evaluate import TableValues
from prune_engine.symbols.expr import (
    ZERO,
    Expr,
    as_expr,
    both,
    either,
    factors,
    maximum,
    minimum,
    negate,
    total,
    where,
)
from prune_engine.symbols.loop_nest import LoopKind

#: Storage that all threads of a block (or warp) see; what it must hold is not relaxed over other threads' loops.
_THREAD_SCOPES = ("local", "wmma", "m16n8k8", "warp")


@dataclass(frozen=True)
class Interval:
    """What is needed of one dimension: ``base`` (fixed while the inner loops run) + [low, low + extent)."""

    base: tuple[tuple[int, TermNode], ...]
    low: Expr
    extent: Expr
    #: Whether it is known to lie in the dimension, wherever it moves.
    is_inside: bool = False
    #: Where TVM finds no constant extent.
    dynamic: Dynamic = CONSTANT


def compute_at(tree: Tree, block: BlockNode, loop: LoopNode, *, is_reverse: bool, index: int = -1) -> None:
    """Move a block under ``loop``: before its consumers there, or (reverse) after its producers."""
    others = tree.producers(block) if is_reverse else tree.consumers(block)
    inside = [b for b in others if loop in loops_of(b)]
    if not inside:
        raise NotInterpretedError(f"block {block.name!r} is moved to where nothing needs it")
    provided = block.reads if is_reverse else block.writes
    domains: dict[IterNode, Interval] = {}
    for access in provided:
        needed = [
            box_of(needed_access, _varying(other, needed_access, loop, is_reverse=is_reverse), tree.tables)
            for other in inside
            for needed_access in (other.writes if is_reverse else other.reads)
            if needed_access.buffer is access.buffer
        ]
        if needed:
            _merge_domains(domains, access, needed, block)
    position = _position(loop, inside, is_reverse=is_reverse, index=index)
    anchor = loop.children[position] if position < len(loop.children) else None
    _detach(tree, block, keep=loop)
    new_loops = _rebind(block, domains)
    top: Node = block
    for made in reversed(new_loops):
        made.children.append(top)
        top.parent = made
        top = made
    position = loop.children.index(anchor) if anchor is not None and anchor in loop.children else len(loop.children)
    tree.insert(top, loop, position)


def _detach(tree: Tree, block: BlockNode, keep: LoopNode) -> None:
    node: Node = block
    while node.parent is not None and node.parent is not keep and len(node.parent.children) == 1:
        node = node.parent
    tree.siblings(node).remove(node)
    node.parent = None
    block.parent = None


def _position(loop: LoopNode, inside: list[BlockNode], *, is_reverse: bool, index: int) -> int:
    """Where among the loop's children: -1 asks for the last possible place, others are the place itself.

    A producer goes before its first consumer; a consumer goes to the end, behind its producers.
    """
    if index != -1:
        raise NotInterpretedError(f"a block is moved to place {index} of a loop")
    if is_reverse:
        return len(loop.children)
    return min(
        k for k, child in enumerate(loop.children) if any(b is child or child in loops_of(b) for b in inside)
    )


def _varying(block: BlockNode, access: AccessNode, loop: LoopNode, *, is_reverse: bool) -> set[LoopNode]:
    return varying_loops(block, loop, None if is_reverse else access.buffer.scope)


def box_of(access: AccessNode, varying: set[LoopNode], tables: TableValues | None = None) -> list[Interval]:
    """What an access touches while the loops in ``varying`` run, per dimension.

    With the sketch's ``tables`` also where TVM finds no constant extent.
    """
    return [
        _interval(index, varying, size, tables)
        for index, size in zip(physical(access), physical_shape(access.buffer), strict=True)
    ]


def varying_loops(block: BlockNode, loop: LoopNode | None, scope: str | None) -> set[LoopNode]:
    """The loops that run for one instance of a buffer at ``loop``: those inside it, and threads that share it.

    ``scope`` None: threads are not relaxed. ``loop`` None: the root, inside which all loops run.
    """
    around = loops_of(block)
    inside = set(around if loop is None else around[around.index(loop) + 1 :])
    if scope is not None:
        for outer in around:
            if outer.is_bound and is_shared_among(scope, outer.kind):
                inside.add(outer)
    return inside


def is_shared_among(scope: str, kind: LoopKind) -> bool:
    """TVM's CanRelaxStorageUnderThread: rank of the storage <= rank of the thread axis."""
    rank = 0 if scope == "global" else 1 if scope.startswith("shared") else 3
    return rank <= (0 if kind in (LoopKind.BLOCK_X, LoopKind.BLOCK_Y, LoopKind.BLOCK_Z) else 1)


def _interval(index: IndexNode, varying: set[LoopNode], size: int | Expr, tables: TableValues | None) -> Interval:
    if index.coefficients is None or any(it.is_lost for it, _ in index.coefficients):
        return Interval((), as_expr(0), as_expr(size))
    base: list[tuple[int, TermNode]] = []
    low, steps = as_expr(index.offset), as_expr(0)
    for it, coefficient in index.coefficients:
        low = low + it.offset * coefficient
        inner, outer = split_span(it, varying)
        steps = steps + abs(coefficient) * (inner - 1)
        if coefficient < 0:
            low_of_inner = inner - 1
            if low_of_inner.constant is None and outer:
                raise NotInterpretedError(f"an index runs backwards over {it.name} in a tile")
            if low_of_inner.constant is None:
                # The whole domain or part of it from 0: its last value is the span.
                raise NotInterpretedError(f"an index runs backwards over part of {it.name}")
            low = low + coefficient * low_of_inner.constant
        base.extend((coefficient, term) for term in outer)
    is_inside = _is_inside(index, as_expr(size))
    if len(index.coefficients) == 1 and index.coefficients[0][1] == index.width:  # whole tiles
        return Interval(tuple(base), low, inner * index.width, is_inside)
    dynamic = CONSTANT if tables is None else dynamic_extent(index, varying, tables)
    return Interval(tuple(base), low, steps + index.width, is_inside, dynamic)


def _is_inside(index: IndexNode, size: Expr) -> bool:
    """Whether an index is known to stay in its dimension."""
    assert index.coefficients is not None
    last: Expr = as_expr(index.offset + index.width - 1)
    for it, coefficient in index.coefficients:
        if not it.stays_inside or coefficient < 0 or it.offset.constant != 0:
            return False
        last = last + coefficient * (it.extent - 1)
    n = last + 1
    if n.constant is None or size.constant is None:
        return index.offset >= 0 and n is size
    return index.offset >= 0 and n.constant <= size.constant


def _merge_domains(
    domains: dict[IterNode, Interval], access: AccessNode, needed: list[list[Interval]], block: BlockNode
) -> None:
    """Domains of block variables from what is needed of one buffer that they index."""
    sizes = physical_shape(access.buffer)
    for dimension, index in enumerate(physical(access)):
        interval = union([box[dimension] for box in needed])
        if index.coefficients is None:
            continue
        real = [(it, c) for it, c in index.coefficients if not it.is_virtual]
        if len(real) != len(index.coefficients) or len(real) > 1:
            continue
        if not real:
            continue
        it, coefficient = real[0]
        if coefficient != 1 or index.width != 1:
            if coefficient < 0:
                raise NotInterpretedError(f"block {block.name!r} is provided backwards")
            raise NotInterpretedError(f"block {block.name!r} provides a buffer with a stride")
        is_inside = interval.is_inside and it.extent is sizes[dimension] and not index.offset
        moved = replace(interval, low=interval.low - index.offset, is_inside=is_inside)
        domains[it] = union([domains[it], moved]) if it in domains else moved


def union(intervals: list[Interval]) -> Interval:
    """The hull of intervals. Raises NotInterpretedError if they move apart.

    Where one stays and the others move, TVM can bound the hull only if they move within it: elsewhere the
    extent is 0, which stands for a loop of no constant extent.
    """
    first = intervals[0]
    for other in intervals[1:]:
        if _same_base(first, other):
            low = minimum(first.low, other.low)
            end = maximum(first.extent + (first.low - low), other.extent + (other.low - low))
            first = Interval(
                first.base, low, end, first.is_inside and other.is_inside, first.dynamic.joined(other.dynamic)
            )
        elif not first.base or not other.base:
            still, moving = (other, first) if first.base else (first, other)
            inside = both(
                still.low.le(moving.low),
                (moving.extent + reach(moving) + moving.low).le(still.extent + still.low),
            )
            first = Interval((), still.low, where(inside, still.extent, 0))
        else:
            raise NotInterpretedError("two blocks need different places of a buffer")
    return first


def _same_base(a: Interval, b: Interval) -> bool:
    return [(t.over, t.divisor, _factors(t.stride * c)) for c, t in a.base] == [
        (t.over, t.divisor, _factors(t.stride * c)) for c, t in b.base
    ]


def _factors(stride: Expr) -> tuple[int, Counter[Expr]]:
    """The number and the expressions that a stride is the product of."""
    number, found = 1, Counter[Expr]()
    for factor in factors(stride):
        if factor.constant is None:
            found[factor] += 1
        else:
            number *= factor.constant
    return number, found


def reach(interval: Interval) -> Expr:
    """How far an interval moves while the loops outside run."""
    return total(c * (term.stride * (term_reach(term) - 1)) for c, term in interval.base)


def _rebind(block: BlockNode, domains: dict[IterNode, Interval]) -> list[LoopNode]:
    """New loops for a block, one per variable, and its variables bound to them."""
    loops: list[LoopNode] = []
    replaced: dict[LoopNode, tuple[list[DigitNode], Expr]] = {}
    seen: dict[LoopNode, tuple[list[DigitNode], Expr]] = {}
    for number, it in enumerate(block.real_iters):
        interval = domains.get(it, Interval((), as_expr(0), it.extent))
        extent, offset, covers = _clipped(interval, it)
        block.dynamic = block.dynamic.joined(interval.dynamic)
        it.stays_inside = interval.is_inside
        loop = LoopNode(f"ax{number}", extent)
        terms = [*_scaled(interval.base), plain(loop)]
        # Where the whole domain is covered, TVM's binding mentions no loop outside any more.
        keep = negate(covers)
        seen_terms = [*(replace(t, stride=t.stride * keep) for t in terms[:-1]), terms[-1]]
        source = it.terms[0].plain_loop if len(it.terms) == 1 else None
        if source is not None and it.terms[0].stride.constant == 1:
            replaced[source] = _as_digits(terms), offset
            seen[source] = _as_digits(seen_terms), offset
        it.terms, it.offset = terms, offset
        it.seen_terms = None if covers.constant == 0 else seen_terms
        loops.append(loop)
    for it in block.iters:
        if it.is_virtual:
            it.seen_terms = [t for term in it.terms for t in _moved(term, seen, block)[0]]
            moved = [_moved(term, replaced, block) for term in it.terms]
            it.terms = [term for terms, _ in moved for term in terms]
            it.offset = total([it.offset, *(start for _, start in moved)])
    return loops


def _scaled(base: tuple[tuple[int, TermNode], ...]) -> list[TermNode]:
    return [replace(term, stride=term.stride * c) for c, term in base]


def _as_digits(terms: list[TermNode]) -> list[DigitNode]:
    """Terms as a flat sum of digits; empty if one of them is a quotient of a sum."""
    digits: list[DigitNode] = []
    for term in terms:
        if len(term.over) != 1:
            return []
        digit = term.over[0]
        if term.plain_loop is not None:
            digits.append(DigitNode(digit.loop, term.stride, digit.divisor, digit.modulus))
        elif digit.is_whole and digit.flat_stride.constant == 1:
            digits.append(DigitNode(digit.loop, term.stride, term.divisor, term.modulus))
        elif term.divisor.constant == 1 and digit.flat_stride.constant == 1:
            digits.append(DigitNode(digit.loop, term.stride, digit.divisor, digit.modulus))
        else:
            return []
    return digits


def _moved(
    term: TermNode, replaced: dict[LoopNode, tuple[list[DigitNode], Expr]], block: BlockNode
) -> tuple[list[TermNode], Expr]:
    """A virtual variable's term over the loops that took the place of those it was over, and a constant."""
    over: list[DigitNode] = []
    start = term.start
    for digit in term.over:
        new, offset = replaced.get(digit.loop, ([], as_expr(0)))
        if not new or not digit.is_whole:
            raise NotInterpretedError(f"block {block.name!r}: a quotient of a variable that is needed in part")
        over.extend(DigitNode(d.loop, digit.flat_stride * d.flat_stride, d.divisor, d.modulus) for d in new)
        start = start + digit.flat_stride * offset
    if term.plain_loop is None:
        return [replace(term, over=tuple(over), start=start)], as_expr(0)
    one = as_expr(1)
    terms = [
        plain(d.loop, term.stride * d.flat_stride)
        if d.is_whole
        else TermNode(term.stride * d.flat_stride, (DigitNode(d.loop, one, d.divisor, d.modulus),), one, d.modulus)
        for d in over
    ]
    return terms, term.stride * start


def _clipped(interval: Interval, it: IterNode) -> tuple[Expr, Expr, Expr]:
    """The loop's extent, the variable's start, and 1 where the whole domain is covered.

    TVM cuts the interval to the domain where it can prove that it may. It keeps one that lies in the domain,
    takes the domain if that lies in the interval, cuts where the interval does not move (no loop outside that it
    depends on runs), else keeps it under a predicate.
    """
    domain = it.extent
    moves = reach(interval)
    low, high = interval.low, interval.extent + (interval.low - 1)
    if interval.is_inside:
        return interval.extent, low, ZERO
    lies_in = both(as_expr(0).le(low), (high + moves).lt(domain))
    covers = both((low + moves).le(0), domain.le(high + 1))
    cut = minimum(high, domain - 1) - maximum(low, 0) + 1
    is_cut = both(negate(lies_in), either(covers, moves.eq(0)))
    extent = where(is_cut, where(covers, domain, cut), interval.extent)
    return extent, where(is_cut, where(covers, 0, maximum(low, 0)), low), both(is_cut, covers)
