"""A tree of its own for each structure: everything copied that schedule primitives change."""

from __future__ import annotations

from dataclasses import replace

from prune_engine.metaschedule.interpreter.tree import (
    AccessNode,
    BlockNode,
    DigitNode,
    IndexNode,
    IterNode,
    LoopNode,
    Node,
    TermNode,
    Tree,
)


def copied(tree: Tree) -> Tree:
    """A copy of a tree; expressions and indices that name no iterator are shared."""
    return _Copier(tree).made


class _Copier:
    """Copies a tree node by node: a tenth of what copy.deepcopy takes."""

    def __init__(self, tree: Tree) -> None:
        self._buffers = {b: replace(b) for b in tree.buffers}
        self._loops: dict[LoopNode, LoopNode] = {}
        self._iters: dict[IterNode, IterNode] = {}
        self.made = Tree([self._node(root, None) for root in tree.roots], [self._buffers[b] for b in tree.buffers])

    def _node(self, node: Node, parent: LoopNode | None) -> Node:
        if isinstance(node, BlockNode):
            return self._block(node, parent)
        made = LoopNode(node.name, node.extent, node.kind, dict(node.annotations), parent)
        self._loops[node] = made
        made.children = [self._node(child, made) for child in node.children]
        return made

    def _block(self, block: BlockNode, parent: LoopNode | None) -> BlockNode:
        for it in block.iters:
            self._iters[it] = replace(it, terms=[self._term(term) for term in it.terms])
        return replace(
            block,
            iters=[self._iters[it] for it in block.iters],
            reads=[self._access(a) for a in block.reads],
            writes=[self._access(a) for a in block.writes],
            annotations=dict(block.annotations),
            parent=parent,
            inner=None if block.inner is None else self._block(block.inner, None),
        )

    def _term(self, term: TermNode) -> TermNode:
        over = tuple(DigitNode(self._loops[d.loop], d.flat_stride, d.divisor, d.modulus) for d in term.over)
        return replace(term, over=over)

    def _access(self, access: AccessNode) -> AccessNode:
        return AccessNode(self._buffers[access.buffer], tuple(map(self._index, access.indices)), access.count)

    def _index(self, index: IndexNode) -> IndexNode:
        if index.coefficients is None:
            return index
        return IndexNode(tuple((self._iters[it], c) for it, c in index.coefficients), index.offset, index.width)
