"""Buffers in the order that an intrinsic wants: by a block's own variables, permuted, and cut into tiles.

After TVM's layout_transformation.cc and reindex (cache_read_write.cc). A buffer that is cut into tiles keeps its
shape and indices here; ``physical`` gives those that TVM has: each dimension a quotient or remainder of one.
"""

from __future__ import annotations

from typing import Any

from prune_engine.metaschedule.interpreter.tree import (
    AccessNode,
    BlockNode,
    BufferNode,
    IndexNode,
    IterNode,
    LayoutDimension,
    LoopNode,
    Node,
    NotInterpretedError,
    TermNode,
    Tree,
    loops_of,
    plain,
)
from prune_engine.symbols.expr import Expr, as_expr, factors, product

_OPERATIONS = {"FloorDiv": "//", "FloorMod": "%", "Mul": "*"}


def read_index_map(index_map: Any, known: dict[int, Any]) -> list[Any]:
    """An index map of TVM as nested lists: ``["//", ["index", 0], 16]``.

    ``known`` are the trace's variables by address; one that occurs is put where it stands. Raises
    NotInterpretedError.
    """
    own = {_key(variable): ["index", k] for k, variable in enumerate(index_map.initial_indices)}
    return [_read(expression, own | known) for expression in index_map.final_indices]


def reindex(tree: Tree, block: BlockNode, number: int, *, is_write: bool) -> BlockNode:
    """The block accesses a buffer by its own variables; a copy before (or after) it moves the real one there."""
    access = (block.writes if is_write else block.reads)[number]
    used = {it for index in access.indices for it, _ in index.coefficients or ()}
    if any(it.is_virtual for it in used) or any(i.coefficients is None or i.width != 1 for i in access.indices):
        raise NotInterpretedError(f"block {block.name!r}: buffer {access.buffer.name!r} is not indexed affinely")
    covered = [it for it in block.real_iters if it in used]
    old = access.buffer
    made = BufferNode(
        f"{old.name}_reindex",
        old.scope,
        old.dtype,
        old.item_bytes,
        tuple(_fixed(it) for it in covered),
        is_argument=False,
    )
    tree.buffers.append(made)
    loops = [LoopNode(f"ax{k}", it.extent) for k, it in enumerate(covered)]
    moved = {it: IterNode(f"v{k}", it.extent, False, [plain(loops[k])]) for k, it in enumerate(covered)}
    real = AccessNode(
        old,
        tuple(IndexNode(tuple((moved[it], c) for it, c in i.coefficients or ()), i.offset) for i in access.indices),
    )
    own = AccessNode(made, tuple(IndexNode(((it, 1),)) for it in moved.values()))
    read, write = (own, real) if is_write else (real, own)
    name = tree.unique_name(f"{write.buffer.name}_reindex")
    copy = BlockNode(name, list(moved.values()), [read], [write], False, 0, is_copy=True)
    by_variables = tuple(IndexNode(((it, 1),)) for it in covered)
    block.reads = [AccessNode(made, by_variables, a.count) if a.buffer is old else a for a in block.reads]
    block.writes = [AccessNode(made, by_variables, a.count) if a.buffer is old else a for a in block.writes]
    around = loops_of(block)
    place = tree.roots.index(around[0] if around else block) + is_write
    tree.insert(chained(loops, copy), None, place)
    return copy


def transform_layout(tree: Tree, buffer: BufferNode, index_map: list[Any]) -> None:
    """Permute a buffer's dimensions, or cut them into tiles. Raises NotInterpretedError for any other map."""
    if buffer.layout is not None:
        raise NotInterpretedError(f"buffer {buffer.name!r} is laid out twice")
    order = _permutation(index_map)
    if order is None:
        buffer.layout = tuple(_dimension(expression, buffer) for expression in index_map)
        _check_is_complete(buffer)
        return
    if sorted(order) != list(range(len(buffer.shape))):
        raise NotInterpretedError(f"buffer {buffer.name!r} is laid out with other dimensions")
    buffer.shape = tuple(buffer.shape[k] for k in order)
    for block in tree.blocks():
        for owner in (block, block.inner):
            if owner is not None:
                owner.reads = [_permuted(a, order) if a.buffer is buffer else a for a in owner.reads]
                owner.writes = [_permuted(a, order) if a.buffer is buffer else a for a in owner.writes]


def transform_block_layout(tree: Tree, block: BlockNode, index_map: list[Any]) -> None:
    """Permute a block's variables and its loops with them. Raises NotInterpretedError for any other map."""
    order, real = _permutation(index_map), block.real_iters
    loops = [it.terms[0].plain_loop if len(it.terms) == 1 else None for it in real]
    around = loops_of(block)
    if (
        order is None
        or sorted(order) != list(range(len(real)))
        or any(loop is None or len(loop.children) > 1 for loop in loops)
        or set(around) != set(loops)
    ):
        raise NotInterpretedError(f"block {block.name!r} gets variables that are not its own in another order")
    block.iters = [real[k] for k in order] + [it for it in block.iters if it.is_virtual]
    for number, k in enumerate(order):
        real[k].name = f"v{number}"
    siblings, parent = tree.siblings(around[0]), around[0].parent
    place = siblings.index(around[0])
    siblings.pop(place)
    ordered = [loop for k in order if (loop := loops[k]) is not None]
    tree.insert(chained(ordered, block), parent, place)


def chained(loops: list[LoopNode], block: BlockNode) -> Node:
    """The block inside these loops; the outermost."""
    nodes: list[Node] = [*loops[1:], block]
    for outer, inner in zip(loops, nodes, strict=False):
        outer.children = [inner]
        inner.parent = outer
    return loops[0] if loops else block


def physical_shape(buffer: BufferNode) -> tuple[Expr, ...]:
    """The dimensions that TVM has for a buffer."""
    if buffer.layout is None:
        return tuple(as_expr(size) for size in buffer.shape)
    return tuple(dimension.modulus for dimension in buffer.layout)


def physical(access: AccessNode) -> tuple[IndexNode, ...]:
    """An access by the dimensions that TVM has. Raises NotInterpretedError where tiles are touched in part."""
    if access.physical is not None or access.buffer.layout is None:
        return access.physical or access.indices
    return tuple(_digit(access, dimension) for dimension in access.buffer.layout)


def logical(buffer: BufferNode, iters: list[IterNode]) -> list[IterNode]:
    """Variables along a buffer's own dimensions, from one for each dimension that TVM has."""
    assert buffer.layout is not None
    found: list[IterNode] = []
    for number, size in enumerate(buffer.shape):
        terms = [
            TermNode(term.stride * dimension.divisor, term.over, term.divisor, term.modulus)
            for dimension, it in zip(buffer.layout, iters, strict=True)
            if dimension.source == number
            for term in it.terms
        ]
        found.append(IterNode(f"i{number}", as_expr(size), False, terms, is_virtual=True))
    return found


def _digit(access: AccessNode, dimension: LayoutDimension) -> IndexNode:
    index = access.indices[dimension.source]
    if index.coefficients is None or index.offset or any(c < 0 for _, c in index.coefficients):
        raise NotInterpretedError(f"buffer {access.buffer.name!r} is laid out and accessed at an offset")
    if any(not it.stays_inside for it, _ in index.coefficients):
        raise NotInterpretedError(f"buffer {access.buffer.name!r} is laid out and accessed beyond its end")
    divisor, limit = dimension.divisor, dimension.divisor * dimension.modulus
    terms = [
        TermNode(term.stride * c // divisor, term.over, term.divisor, term.modulus)
        for it, c in index.coefficients
        for term in it.terms
        if ((term.stride * c) % divisor).constant == 0 and ((term.stride * c) % limit).constant != 0
    ]
    width = index.width if divisor.constant == 1 else 1
    if not _fills([*(term.modulus for term in terms), as_expr(width)], dimension.modulus):
        raise NotInterpretedError(f"buffer {access.buffer.name!r} is laid out in tiles that do not fit its loops")
    it = IterNode(f"i{dimension.source}", dimension.modulus, False, terms, is_virtual=True)
    return IndexNode(((it, 1),) if terms else (), 0, width)


def _fills(extents: list[Expr], modulus: Expr) -> bool:
    """Whether digits of these extents make up a dimension, as far as their form tells."""
    if modulus.op == "floordiv":  # the outermost: what is left of the whole dimension
        return True
    ours = sorted(id(f) for e in extents for f in factors(e) if f.constant != 1)
    theirs = sorted(id(f) for f in factors(modulus) if f.constant != 1)
    return ours == theirs


def _dimension(expression: Any, buffer: BufferNode) -> LayoutDimension:
    """One dimension of a layout: an index divided, and its remainder taken, any number of times."""
    if not isinstance(expression, list):
        raise NotInterpretedError(f"buffer {buffer.name!r} is laid out with a dimension of its own")
    if expression[0] == "index":
        source = int(expression[1])
        return LayoutDimension(source, as_expr(1), as_expr(buffer.shape[source]))
    if expression[0] not in ("//", "%"):
        raise NotInterpretedError(f"buffer {buffer.name!r} is laid out with a sum or product of its indices")
    inner, by = _dimension(expression[1], buffer), _number(expression[2], buffer)
    if expression[0] == "//":
        return LayoutDimension(inner.source, inner.divisor * by, inner.modulus // by)
    return LayoutDimension(inner.source, inner.divisor, by)


def _number(expression: Any, buffer: BufferNode) -> Expr:
    if isinstance(expression, (int, Expr)):
        return as_expr(expression)
    if isinstance(expression, list) and expression[0] == "*":
        return product(_number(e, buffer) for e in expression[1:])
    raise NotInterpretedError(f"buffer {buffer.name!r} is laid out in tiles of no known size")


def _check_is_complete(buffer: BufferNode) -> None:
    """Every index must be cut into parts that make it up: each begins where the one below ends."""
    assert buffer.layout is not None
    for number in range(len(buffer.shape)):
        parts = [d for d in buffer.layout if d.source == number]
        below = as_expr(1)
        while parts:
            part = next((d for d in parts if sorted(map(id, factors(d.divisor))) == _ids(below)), None)
            if part is None:
                raise NotInterpretedError(f"buffer {buffer.name!r} is laid out in tiles with gaps")
            parts.remove(part)
            below = part.divisor * part.modulus


def _ids(expr: Expr) -> list[int]:
    return sorted(map(id, factors(expr)))


def _permutation(index_map: list[Any]) -> list[int] | None:
    if all(isinstance(e, list) and e[0] == "index" for e in index_map):
        return [int(e[1]) for e in index_map]
    return None


def _permuted(access: AccessNode, order: list[int]) -> AccessNode:
    return AccessNode(access.buffer, tuple(access.indices[k] for k in order), access.count)


def _read(expression: Any, known: dict[int, Any]) -> Any:
    kind = type(expression).__name__
    if kind == "IntImm":
        return int(expression.value)
    if kind in _OPERATIONS:
        return [_OPERATIONS[kind], _read(expression.a, known), _read(expression.b, known)]
    if _key(expression) in known:
        return known[_key(expression)]
    raise NotInterpretedError(f"an index map with {kind} {expression}")


def _key(variable: Any) -> int:
    return int(variable.__chandle__())


def _fixed(it: IterNode) -> int:
    if it.extent.constant is None:
        raise NotInterpretedError(f"variable {it.name} is reindexed and of no fixed extent")
    return it.extent.constant
