"""Walks through TIR in Python: TVM 0.27 offers no visitor for statements and expressions here.

Node types are told by name, so nothing is imported; both walks are without recursion, because unrolled and
vectorised bodies are long.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

_BINARY = frozenset(
    "Add Sub Mul Div Mod FloorDiv FloorMod Min Max EQ NE LT LE GT GE And Or".split()  # noqa: SIM905 (a table)
)
_FIELDS = {
    "Not": ("a",),
    "Cast": ("value",),
    "Select": ("condition", "true_value", "false_value"),
    "Ramp": ("base", "stride"),
    "Broadcast": ("value",),
    "Let": ("value", "body"),
}
#: What reads an element of a buffer is called.
LOADS = ("BufferLoad", "TensorLoad")
_SEQUENCES = {**dict.fromkeys(LOADS, ("indices",)), "Call": ("args",), "Shuffle": ("vectors", "indices")}


def statements(root: Any) -> Iterator[Any]:
    """All statements under ``root`` and itself, in pre-order; a block realisation stands for its block."""
    stack = [root]
    while stack:
        statement = stack.pop()
        yield statement
        stack.extend(reversed(children(statement, type(statement).__name__)))


def children(statement: Any, kind: str) -> list[Any]:
    """The statements directly inside one whose type is called ``kind``; a block's init comes before its body."""
    if kind == "SeqStmt":
        return list(statement.seq)
    if kind == "SBlockRealize":
        block = statement.block
        return [block.body] if block.init is None else [block.init, block.body]
    if kind == "IfThenElse":
        return [part for part in (statement.then_case, statement.else_case) if part is not None]
    return [statement.body] if kind in ("For", "AttrStmt", "While") else []


def expressions_of(statement: Any, kind: str) -> list[Any]:
    """The expressions directly inside a statement whose type is called ``kind``."""
    if kind == "BufferStore":
        return [statement.value, *statement.indices]
    if kind in ("Evaluate", "Bind"):
        return [statement.value]
    return [statement.condition] if kind in ("IfThenElse", "While") else []


def walk(root: Any) -> Iterator[Any]:
    """All expressions under ``root`` and itself, in pre-order."""
    stack = [root]
    while stack:
        expression = stack.pop()
        yield expression
        kind = type(expression).__name__
        if kind in _BINARY:
            stack += (expression.b, expression.a)
        elif kind in _FIELDS:
            stack.extend(getattr(expression, name) for name in reversed(_FIELDS[kind]))
        elif kind in _SEQUENCES:
            for name in reversed(_SEQUENCES[kind]):
                stack.extend(reversed(list(getattr(expression, name))))
