"""Trees of their own for each structure: everything copied that schedule primitives change."""

from __future__ import annotations

from typing import Any, TypeVar

from prune_engine.metaschedule.interpreter.tree import (
    AccessNode,
    BlockNode,
    BufferNode,
    DigitNode,
    IndexNode,
    IterNode,
    LoopNode,
    Node,
    TermNode,
    Tree,
)

T = TypeVar("T")


def copied(tree: Tree) -> Tree:
    """A copy of a tree; expressions and indices that name no iterator are shared."""
    return Copier().tree(tree)


class Copier:
    """Copies a tree and what refers to its nodes: one object stays one. A tenth of what copy.deepcopy takes."""

    def __init__(self) -> None:
        self._made: dict[int, Any] = {}
        #: What was copied, kept alive so that no other object gets its address.
        self._originals: list[object] = []

    def tree(self, tree: Tree) -> Tree:
        """A copy of a tree."""
        made = Tree([self._node(root) for root in tree.roots], [self._buffer(b) for b in tree.buffers])
        made.tables = tree.tables
        return made

    def value(self, value: Any) -> Any:
        """What a runner knows by a variable: nodes are copied, also within lists and tuples, all else is shared."""
        if isinstance(value, (LoopNode, BlockNode)):
            return self._node(value)
        if isinstance(value, BufferNode):
            return self._buffer(value)
        if isinstance(value, (list, tuple)):
            return type(value)(map(self.value, value))
        return value

    def _new(self, original: T) -> T:
        """A copy of an object with all that it refers to, noted as such."""
        # What dataclasses.replace does takes several times as long, and is half of what a structure costs.
        made = object.__new__(type(original))
        made.__dict__.update(original.__dict__)
        self._made[id(original)] = made
        self._originals.append(original)
        return made

    def _node(self, node: Node) -> Any:
        found = self._made.get(id(node))
        if found is not None:
            return found
        return self._block(node) if isinstance(node, BlockNode) else self._loop(node)

    def _loop(self, loop: LoopNode) -> LoopNode:
        made = self._new(loop)
        made.annotations = dict(loop.annotations)
        made.parent = None if loop.parent is None else self._node(loop.parent)
        made.children = [self._node(child) for child in loop.children]
        return made

    def _block(self, block: BlockNode) -> BlockNode:
        made = self._new(block)
        made.annotations = dict(block.annotations)
        made.parent = None if block.parent is None else self._node(block.parent)
        made.iters = [self._iter(it) for it in block.iters]
        made.reads = [self._access(access) for access in block.reads]
        made.writes = [self._access(access) for access in block.writes]
        made.inner = None if block.inner is None else self._node(block.inner)
        return made

    def _buffer(self, buffer: BufferNode) -> BufferNode:
        found: BufferNode | None = self._made.get(id(buffer))
        return self._new(buffer) if found is None else found

    def _iter(self, it: IterNode) -> IterNode:
        found: IterNode | None = self._made.get(id(it))
        if found is not None:
            return found
        made = self._new(it)
        made.terms = self._terms(it.terms)
        made.seen_terms = None if it.seen_terms is None else self._terms(it.seen_terms)
        return made

    def _terms(self, terms: list[TermNode]) -> list[TermNode]:
        found: list[TermNode] | None = self._made.get(id(terms))
        if found is None:
            found = self._made[id(terms)] = [self._term(term) for term in terms]
            self._originals.append(terms)
        return found

    def _term(self, term: TermNode) -> TermNode:
        found: TermNode | None = self._made.get(id(term))
        if found is not None:
            return found
        made = self._new(term)
        made.__dict__["over"] = tuple([self._digit(digit) for digit in term.over])
        return made

    def _digit(self, digit: DigitNode) -> DigitNode:
        made = object.__new__(DigitNode)
        made.__dict__.update(digit.__dict__)
        made.__dict__["loop"] = self._node(digit.loop)
        return made

    def _access(self, access: AccessNode) -> AccessNode:
        found: AccessNode | None = self._made.get(id(access))
        if found is not None:
            return found
        made, fields = self._new(access), access.__dict__
        made.__dict__["buffer"] = self._buffer(access.buffer)
        for name in ("indices", "physical"):
            if fields[name] is not None:
                made.__dict__[name] = tuple([self._index(index) for index in fields[name]])
        return made

    def _index(self, index: IndexNode) -> IndexNode:
        if not index.coefficients:
            return index
        made = object.__new__(IndexNode)
        made.__dict__.update(index.__dict__)
        made.__dict__["coefficients"] = tuple([(self._iter(it), c) for it, c in index.coefficients])
        return made
