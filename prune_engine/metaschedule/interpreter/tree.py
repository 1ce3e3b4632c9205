"""The loop tree of a schedule under way: blocks and loops whose extents are expressions of the decisions."""

from __future__ import annotations

from collections.abc import Iterator as Iterable
from dataclasses import dataclass, field, replace
from typing import Any, Final

from prune_engine.symbols.evaluate import TableValues
from prune_engine.symbols.expr import ZERO, Expr, as_expr, both, either, negate, product
from prune_engine.symbols.loop_nest import LoopKind


class NotInterpretedError(Exception):
    """Something in a trace that the interpreter does not know; the sketch stays opaque. The message says what."""


@dataclass(eq=False)
class LoopNode:
    """A loop of the tree."""

    name: str
    extent: Expr
    kind: LoopKind = LoopKind.SERIAL
    annotations: dict[str, Any] = field(default_factory=dict)
    parent: LoopNode | None = None
    children: list[Node] = field(default_factory=list)

    @property
    def is_bound(self) -> bool:
        """Whether it is bound to a thread axis."""
        return self.kind >= LoopKind.BLOCK_X


@dataclass(frozen=True)
class DigitNode:
    """``flat_stride * (loop // divisor % modulus)``: a loop, or one digit of a fused one."""

    loop: LoopNode
    flat_stride: Expr
    divisor: Expr
    modulus: Expr

    @property
    def is_whole(self) -> bool:
        """Whether it is the loop itself."""
        return self.divisor.constant == 1 and self.modulus is self.loop.extent


@dataclass(frozen=True)
class TermNode:
    """A summand of an iterator, as loop_nest.Term: ``stride * (sum of digits // divisor % modulus)``."""

    stride: Expr
    over: tuple[DigitNode, ...]
    divisor: Expr
    modulus: Expr
    #: Constant inside the sum.
    start: Expr = ZERO

    @property
    def plain_loop(self) -> LoopNode | None:
        """The loop, if the term follows one loop directly."""
        if len(self.over) != 1 or self.divisor.constant != 1 or self.start.constant != 0:
            return None
        digit = self.over[0]
        is_plain = digit.is_whole and digit.flat_stride.constant == 1 and self.modulus is digit.loop.extent
        return digit.loop if is_plain else None


def plain(loop: LoopNode, stride: Expr | int = 1) -> TermNode:
    """The term of an iterator that follows a loop directly."""
    return TermNode(as_expr(stride), (whole(loop),), as_expr(1), loop.extent)


def whole(loop: LoopNode, flat_stride: Expr | int = 1) -> DigitNode:
    """A loop as it is, times a stride."""
    return DigitNode(loop, as_expr(flat_stride), as_expr(1), loop.extent)


@dataclass(eq=False)
class IterNode:
    """A block variable: domain [0, extent), and the terms that bind it.

    ``is_virtual`` marks one that only accesses refer to: an rfactor block binds other variables in its place.
    """

    name: str
    extent: Expr
    is_reduction: bool
    terms: list[TermNode] = field(default_factory=list)
    is_virtual: bool = False
    #: A virtual one that could not be followed any further: what it indexes may be anything.
    is_lost: bool = False
    #: The terms that accesses see, where they are others: none of the loops outside where the domain is covered.
    seen_terms: list[TermNode] | None = None
    #: Constant part of its binding.
    offset: Expr = field(default_factory=lambda: as_expr(0))
    #: Whether its terms are known to stay in the domain, whatever the decisions: no split runs beyond it.
    stays_inside: bool = True


@dataclass(frozen=True)
class IndexNode:
    """One dimension of an access: sum of coefficient * iterator, from ``offset``, ``width`` elements.

    ``coefficients`` is None when it is not affine.
    """

    coefficients: tuple[tuple[IterNode, int], ...] | None
    offset: int = 0
    width: int = 1


@dataclass(frozen=True)
class LayoutDimension:
    """A dimension of a buffer cut into tiles: ``index[source] // divisor % modulus``."""

    source: int
    divisor: Expr
    modulus: Expr


@dataclass(eq=False)
class BufferNode:
    """A tensor."""

    name: str
    scope: str
    dtype: str
    item_bytes: int
    shape: tuple[int | Expr, ...]
    is_argument: bool
    #: (dimension, factor, offset) of a storage_align, which pads the stride of that dimension.
    alignment: tuple[int, int, int] | None = None
    #: How its dimensions are cut into those that it has in memory.
    layout: tuple[LayoutDimension, ...] | None = None


@dataclass(frozen=True)
class AccessNode:
    """A region of a buffer that a block reads or writes. ``count`` is how often its body loads it.

    ``physical`` are the indices of a buffer with a layout, where the block has variables of their own for them.
    """

    buffer: BufferNode
    indices: tuple[IndexNode, ...]
    count: int = 1
    physical: tuple[IndexNode, ...] | None = None


@dataclass(eq=False)
class BlockNode:
    """A block. ``has_init`` means a reduction that still holds its start value."""

    name: str
    iters: list[IterNode]
    reads: list[AccessNode]
    writes: list[AccessNode]
    has_init: bool
    flop_count: int
    is_copy: bool = False
    annotations: dict[str, Any] = field(default_factory=dict)
    call_count: int = 0
    parent: LoopNode | None = None
    #: Where TVM finds no constant extent for one of its loops.
    dynamic: Dynamic = field(default_factory=lambda: CONSTANT)
    #: Of a blockized block: what is inside, in loops of its own.
    inner: BlockNode | None = None

    @property
    def real_iters(self) -> list[IterNode]:
        """The block variables that loops bind."""
        return [it for it in self.iters if not it.is_virtual]

    @property
    def is_spatial(self) -> bool:
        """Whether no block variable is a reduction."""
        return not any(it.is_reduction for it in self.real_iters)


@dataclass(frozen=True)
class Dynamic:
    """1 where an extent is no constant for TVM, and 1 where that cannot be told."""

    is_certain: Expr = ZERO
    is_unsure: Expr = ZERO

    def joined(self, other: Dynamic) -> Dynamic:
        """Of two extents together."""
        return Dynamic(either(self.is_certain, other.is_certain), either(self.is_unsure, other.is_unsure))


#: Of an extent that is a constant for TVM.
CONSTANT: Final[Dynamic] = Dynamic()


Node = LoopNode | BlockNode


class Tree:
    """All statements of a kernel: root-level nodes in program order."""

    def __init__(self, roots: list[Node], buffers: list[BufferNode]) -> None:
        self.roots, self.buffers = roots, buffers
        #: The sketch's choice tables, where what is read is to be exact.
        self.tables: TableValues | None = None

    def blocks(self) -> list[BlockNode]:
        """All blocks in program order."""
        return [node for root in self.roots for node in _blocks_of(root)]

    def block(self, name: str) -> BlockNode:
        """The block of that name. Raises NotInterpretedError."""
        found = next((b for b in self.blocks() if b.name == name), None)
        if found is None:
            raise NotInterpretedError(f"no block {name!r}")
        return found

    def siblings(self, node: Node) -> list[Node]:
        """The list that holds a node."""
        return self.roots if node.parent is None else node.parent.children

    def insert(self, node: Node, parent: LoopNode | None, position: int) -> None:
        """Put a node among the children of ``parent`` (None: the root)."""
        node.parent = parent
        (self.roots if parent is None else parent.children).insert(position, node)

    def remove(self, node: Node) -> None:
        """Take a node out, and every loop that has nothing left in it."""
        siblings, parent = self.siblings(node), node.parent
        siblings.remove(node)
        if not siblings and parent is not None:
            self.remove(parent)

    def replace(self, old: Node, new: Node) -> None:
        """Put ``new`` where ``old`` is."""
        siblings = self.siblings(old)
        new.parent = old.parent
        siblings[siblings.index(old)] = new

    def unique_name(self, name: str) -> str:
        """``name``, or the first free one with a number after it, as TVM names blocks."""
        taken = {block.name for block in self.blocks()}
        if name not in taken:
            return name
        number = 1
        while f"{name}_{number}" in taken:
            number += 1
        return f"{name}_{number}"

    def consumers(self, block: BlockNode) -> list[BlockNode]:
        """The blocks that read what a block writes, in program order."""
        written = {access.buffer for access in block.writes}
        return [b for b in self.blocks() if b is not block and any(a.buffer in written for a in b.reads)]

    def producers(self, block: BlockNode) -> list[BlockNode]:
        """The blocks that write what a block reads, in program order."""
        read = {access.buffer for access in block.reads}
        return [b for b in self.blocks() if b is not block and any(a.buffer in read for a in b.writes)]


def loops_of(node: Node) -> list[LoopNode]:
    """The loops around a node, outermost first."""
    found: list[LoopNode] = []
    parent = node.parent
    while parent is not None:
        found.append(parent)
        parent = parent.parent
    return found[::-1]


def blocks_under(node: Node) -> list[BlockNode]:
    """The blocks in a subtree, in program order."""
    return _blocks_of(node)


def _blocks_of(node: Node) -> list[BlockNode]:
    # Without recursion: nests are deep chains, and this is asked for all the time.
    found: list[BlockNode] = []
    waiting = [node]
    while waiting:
        node = waiting.pop()
        if isinstance(node, BlockNode):
            found.append(node)
        else:
            waiting.extend(reversed(node.children))
    return found


def uses(it: IterNode, loop: LoopNode) -> Expr:
    """1 where the binding of an iterator mentions the loop.

    TVM keeps unit loops in bindings; it drops a fused loop from those iterators whose digit is always 0.
    """
    answer = as_expr(0)
    for term in it.terms:
        for digit in term.over:
            if digit.loop is loop:
                if digit.is_whole and term.divisor.constant == 1:
                    return as_expr(1)
                answer = either(answer, both(as_expr(1).lt(digit.modulus), as_expr(1).lt(term.modulus)))
    return answer


def is_data_parallel(loop: LoopNode) -> Expr:
    """1 where no reduction iterator under the loop depends on it (TVM's GetLoopIterType is kDataPar)."""
    answer = as_expr(1)
    for block in blocks_under(loop):
        for it in block.real_iters:
            if it.is_reduction:
                answer = both(answer, negate(uses(it, loop)))
    return answer


def split_in_bindings(under: Node, old: LoopNode, new: list[tuple[LoopNode, Expr]], is_perfect: bool) -> None:
    """Replace a loop by a weighted sum of loops, outermost first, in every binding under ``under``.

    ``is_perfect`` says that the parts are a factorisation of the extent, so that nothing runs beyond it.
    """
    for it in _iters_under(under):
        it.seen_terms = None
        if not is_perfect and any(d.loop is old for term in it.terms for d in term.over):
            it.stays_inside = False
        try:
            it.terms = [t for term in it.terms for t in _substituted(term, old, new, is_perfect)]
        except NotInterpretedError:
            if not it.is_virtual:
                raise
            it.is_lost = True


def fuse_in_bindings(under: Node, old: list[LoopNode], fused: LoopNode) -> None:
    """Replace loops by digits of their fusion, in every binding under ``under``."""
    inner = [product(loop.extent for loop in old[k + 1 :]) for k in range(len(old))]
    for it in _iters_under(under):
        it.seen_terms = None
        it.terms = [_fused(term, old, inner, fused) for term in it.terms]


def _iters_under(node: Node) -> Iterable[IterNode]:
    for block in blocks_under(node):
        for nested in _with_inner(block):
            yield from nested.iters


def _fused(term: TermNode, old: list[LoopNode], inner: list[Expr], fused: LoopNode) -> TermNode:
    if all(digit.loop not in old for digit in term.over):
        return term
    over = tuple(
        DigitNode(fused, d.flat_stride, d.divisor * inner[old.index(d.loop)], d.modulus) if d.loop in old else d
        for d in term.over
    )
    return replace(term, over=over)


def _with_inner(block: BlockNode) -> Iterable[BlockNode]:
    yield block
    if block.inner is not None:
        yield from _with_inner(block.inner)


def _substituted(
    term: TermNode, old: LoopNode, new: list[tuple[LoopNode, Expr]], is_perfect: bool
) -> list[TermNode]:
    if all(digit.loop is not old for digit in term.over):
        return [term]
    if term.plain_loop is old and is_perfect:
        return [plain(loop, term.stride * stride) for loop, stride in new]
    over: list[DigitNode] = []
    for digit in term.over:
        if digit.loop is not old:
            over.append(digit)
        elif digit.is_whole:
            over.extend(whole(loop, digit.flat_stride * stride) for loop, stride in new)
        elif len(term.over) == 1 and term.divisor.constant == 1 and digit.flat_stride.constant == 1:
            # A digit of a fused loop that is split again: the split loops make up the fused one.
            inner = tuple(whole(loop, stride) for loop, stride in new)
            return [replace(term, over=inner, divisor=digit.divisor, modulus=digit.modulus)]
        else:
            raise NotInterpretedError("a fused loop is split inside a sum of digits")
    return [replace(term, over=tuple(over))]
