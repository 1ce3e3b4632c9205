"""A kernel's blocks as TVM holds them before scheduling, read into a tree."""

from __future__ import annotations

import re
from typing import Any

from prune_engine.metaschedule.interpreter.tree import (
    AccessNode,
    BlockNode,
    BufferNode,
    DigitNode,
    IndexNode,
    IterNode,
    LoopNode,
    Node,
    NotInterpretedError,
    TermNode,
    Tree,
    plain,
)
from prune_engine.metaschedule.tir_affine import integer_of
from prune_engine.metaschedule.tir_nest import TirBlock, TirNest, buffer_of, kernel_of, read_nest
from prune_engine.metaschedule.tir_walk import LOADS, walk
from prune_engine.symbols.expr import as_expr

#: Nodes of a block's body that count as one operation per instance (TVM's per-store features count the same).
_OPERATIONS = frozenset(("Add", "Sub", "Mul", "Div", "Min", "Max"))
#: Calls that are an instruction, or none at all: all others (exp, tanh, erf, pow) run a function's worth of them.
_INSTRUCTIONS = frozenset(
    [
        "if_then_else",
        "likely",
        "sqrt",
        "rsqrt",
        "fabs",
        "floor",
        "ceil",
        "trunc",
        "round",
        "nearbyint",
        "fma",
        "reinterpret",
        "shift_left",
        "shift_right",
        "bitwise_and",
        "bitwise_or",
        "bitwise_xor",
        "bitwise_not",
    ]
)
#: What an element read from a buffer is called, in one version of TVM or another.


def read_tree(mod: Any) -> Tree:
    """Read an unscheduled module of one kernel. Raises NotInterpretedError for what has no loop per variable."""
    nest = read_nest(mod)
    buffers = _Buffers()
    for variable in kernel_of(mod).params:
        if hasattr(variable.ty, "storage_scope"):
            buffers.of(variable, is_argument=True)
    roots: list[Node] = []
    for block in nest.blocks:
        if block.parent is not None:
            raise NotInterpretedError(f"block {block.name!r} is nested in another")
        roots.append(_own_nest(block, buffers))
    _check_own_loops(nest)
    return Tree(roots, buffers.all)


def item_bytes(dtype: str) -> int:
    """Bytes of one element: of ``float16`` 2, of ``int8x4`` 4, of ``bool`` 1."""
    bits = re.search(r"(\d+)(?:x(\d+))?$", dtype)
    if bits is None:
        return 1
    return max(1, int(bits[1]) * int(bits[2] or 1) // 8)


class _Buffers:
    """Buffers by identity: two of one name are common."""

    def __init__(self) -> None:
        self.all: list[BufferNode] = []
        self._known: dict[int, BufferNode] = {}

    def of(self, variable: Any, *, is_argument: bool = False) -> BufferNode:
        key = int(variable.__chandle__())
        if key not in self._known:
            buffer = buffer_of(variable)
            self._known[key] = BufferNode(
                buffer.name, buffer.scope, buffer.dtype, item_bytes(buffer.dtype), buffer.shape, is_argument
            )
            self.all.append(self._known[key])
        return self._known[key]


def _own_nest(block: TirBlock, buffers: _Buffers) -> Node:
    """The block inside its own loops, each of which carries one or no block variable."""
    loops = [LoopNode(loop.var, as_expr(loop.extent)) for loop in block.loops]
    by_name = {loop.name: loop for loop in loops}
    iters: list[IterNode] = []
    for it, binding in zip(block.iters, block.node.iter_values, strict=True):
        if it.kind not in ("S", "R"):
            raise NotInterpretedError(
                f"block {block.name!r} has a variable that is neither spatial nor a reduction"
            )
        node = IterNode(it.name, as_expr(it.extent), it.kind == "R")
        name = getattr(binding, "name", None)
        if name is not None and str(name) in by_name:
            node.terms.append(plain(by_name[str(name)]))
        elif it.extent != 1:
            raise NotInterpretedError(f"block {block.name!r}: variable {it.name} does not follow one loop")
        iters.append(node)
    flop_count, call_count, loads = _operations(block)
    node_block = BlockNode(
        block.name,
        iters,
        [_access(region, iters, buffers, loads) for region in block.node.block.reads],
        [_access(region, iters, buffers, {}) for region in block.node.block.writes],
        block.has_init,
        flop_count,
        is_copy=flop_count == 0 and not block.has_init and _is_copy(block),
        annotations=dict(block.annotations),
        call_count=call_count,
    )
    inner: Node = node_block
    for loop in reversed(loops):
        loop.children.append(inner)
        inner.parent = loop
        inner = loop
    return inner


def _check_own_loops(nest: TirNest) -> None:
    """Every block must stand alone in its loops, as TE makes it: names of loops may repeat, trees may not mix."""
    for block in nest.blocks:
        if block.has_predicate:
            raise NotInterpretedError(f"block {block.name!r} has a predicate")
        if any(loop.kind != "serial" for loop in block.loops):
            raise NotInterpretedError(f"block {block.name!r} is scheduled already")


def _access(region: Any, iters: list[IterNode], buffers: _Buffers, loads: dict[int, int]) -> AccessNode:
    indices = []
    for dimension in region.region:
        extent = integer_of(dimension.extent)
        indices.append(IndexNode(None) if extent is None else _index(dimension.min, extent, iters))
    count = loads.get(int(region.source.__chandle__()), 1)
    return AccessNode(buffers.of(region.source), tuple(indices), count)


def _index(expression: Any, width: int, iters: list[IterNode]) -> IndexNode:
    """Read an index: a sum of iterators, and of quotients and remainders of such sums, which become iterators."""
    found: dict[IterNode, int] = {}
    constant = _collect(expression, 1, found, iters)
    if constant is None:
        return IndexNode(None)
    return IndexNode(tuple((it, c) for it, c in found.items() if c), constant, width)


def _collect(expression: Any, factor: int, found: dict[IterNode, int], iters: list[IterNode]) -> int | None:
    """Add ``factor * expression`` to ``found``; return its constant part, None for what is not understood."""
    kind = type(expression).__name__
    if (number := integer_of(expression)) is not None:
        return factor * number
    if kind in ("Add", "Sub"):
        left = _collect(expression.a, factor, found, iters)
        right = _collect(expression.b, factor if kind == "Add" else -factor, found, iters)
        return None if left is None or right is None else left + right
    if kind == "Mul":
        for scale, other in ((expression.b, expression.a), (expression.a, expression.b)):
            if (number := integer_of(scale)) is not None:
                return _collect(other, factor * number, found, iters)
        return None
    if kind == "Cast":
        return _collect(expression.value, factor, found, iters)
    it = _iterator(expression, kind, iters)
    if it is None:
        return None
    found[it] = found.get(it, 0) + factor
    return 0


def _iterator(expression: Any, kind: str, iters: list[IterNode]) -> IterNode | None:
    """The iterator an expression is, or a virtual one for a quotient or remainder (made once per block)."""
    if kind in ("Var", "PrimVar"):
        return next((it for it in iters if it.name == str(expression.name)), None)
    if kind not in ("FloorDiv", "FloorMod") or (number := integer_of(expression.b)) is None:
        return None
    name = str(expression)
    known = next((it for it in iters if it.name == name), None)
    if known is not None:
        return known
    inside: dict[IterNode, int] = {}
    if _collect(expression.a, 1, inside, iters) != 0 or any(c < 0 for c in inside.values()):
        return None
    size = 1 + sum(c * ((it.extent.constant or 0) - 1) for it, c in inside.items())
    digits: list[DigitNode] = []
    divisor, modulus = (number, -(-size // number)) if kind == "FloorDiv" else (1, min(number, size))
    for it, c in inside.items():
        if len(it.terms) != 1 or not it.terms[0].over:
            return None
        term = it.terms[0]
        if term.divisor.constant != 1 and len(inside) > 1:
            return None
        if len(inside) == 1 and it.is_virtual:  # x // a // b, x // a % b
            d = (term.divisor.constant or 1) * divisor
            made = IterNode(name, as_expr(modulus), it.is_reduction, [], is_virtual=True)
            made.terms.append(TermNode(as_expr(1), term.over, as_expr(d), as_expr(modulus)))
            iters.append(made)
            return made
        digits.extend(DigitNode(x.loop, x.flat_stride * c, x.divisor, x.modulus) for x in term.over)
    made = IterNode(name, as_expr(modulus), any(it.is_reduction for it in inside), [], is_virtual=True)
    made.terms.append(TermNode(as_expr(1), tuple(digits), as_expr(divisor), as_expr(modulus)))
    iters.append(made)
    return made


def _operations(block: TirBlock) -> tuple[int, int, dict[int, int]]:
    """Arithmetic operations of one instance, how many of them call a function, how often each buffer is loaded."""
    body = block.node.block.body
    if type(body).__name__ != "BufferStore":
        raise NotInterpretedError(f"block {block.name!r} holds more than one store")
    flop_count, call_count, loads = 0, 0, dict[int, int]()
    stack = [body.value]
    while stack:
        root = stack.pop()
        for node in walk(root):
            kind = type(node).__name__
            if kind in LOADS:
                key = int(node.source.__chandle__())
                loads[key] = loads.get(key, 0) + 1
            elif kind == "Call":
                name = str(getattr(node.op, "name", "")).rpartition(".")[2]
                flop_count += name != "if_then_else"
                call_count += name not in _INSTRUCTIONS
            elif kind in _OPERATIONS and not _is_index(node):
                flop_count += 1
    return flop_count, call_count, loads


def _is_index(node: Any) -> bool:
    """Whether an arithmetic node computes an index (int32/int64 of plain variables) rather than a value."""
    return not any(type(n).__name__ in (*LOADS, "Cast", "FloatImm") for n in walk(node))


def _is_copy(block: TirBlock) -> bool:
    return type(block.node.block.body.value).__name__ in LOADS
