"""TIR statements as text in which no number and no name occurs: equal for what differs in extents alone.

An iterator is called by its position, a buffer by its first appearance and its type. Of an index stays which
iterators it is made of, not their coefficients: stride, dilation and padding are numbers like any other.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from prune_engine.metaschedule.tir_affine import integer_of
from prune_engine.metaschedule.tir_walk import LOADS, children, expressions_of, walk

_VARIABLES = ("Var", "PrimVar")
_CONSTANTS = ("IntImm", "FloatImm", "StringImm")
_PAIRS = frozenset(("Add", "Sub", "Mul", "Div", "Mod", "FloorDiv", "FloorMod", "Min", "Max"))
_COMPARISONS = frozenset(("EQ", "NE", "LT", "LE", "GT", "GE", "And", "Or"))
_SUMS = ("Add", "Sub")
_CHOICES = ("if_then_else", "likely")


class BufferNames:
    """Calls buffers by the order in which they are met; those in ``arguments`` are told apart from temporaries."""

    def __init__(self, arguments: Sequence[Any] = ()) -> None:
        self._arguments = {_key(variable) for variable in arguments}
        self._names: dict[int, str] = {}

    def of(self, buffer: Any) -> str:
        """Name a buffer variable: ``a0:float32`` for an argument, else ``t0:float32``."""
        key = _key(buffer)
        if key not in self._names:
            letter = "a" if key in self._arguments else "t"
            self._names[key] = f"{letter}{len(self._names)}:{buffer.ty.dtype.dtype}"
        return self._names[key]


def statement_text(root: Any, iterators: Sequence[Any], buffers: BufferNames) -> str:
    """A block's body as text, nested statements in pre-order."""
    writer = _Writer({_key(variable): f"i{k}" for k, variable in enumerate(iterators)}, buffers)
    parts: list[str] = []
    stack = [root]
    while stack:
        statement = stack.pop()
        kind = type(statement).__name__
        if kind == "BufferStore":
            stored = writer.element(statement.buffer, statement.indices)
            parts.append(f"{stored}={writer.value(statement.value)}")
        else:
            held = " ".join(writer.value(expression) for expression in expressions_of(statement, kind))
            parts.append(f"{kind}({held})" if held else kind)
        stack.extend(reversed(children(statement, kind)))
    return " ".join(parts)


class _Writer:
    """Expressions of one block as text."""

    def __init__(self, iterators: dict[int, str], buffers: BufferNames) -> None:
        self._iterators, self._buffers = iterators, buffers

    def value(self, root: Any) -> str:
        """An expression in prefix form; without recursion, as unrolled sums are long."""
        parts: list[str] = []
        stack = [root]
        while stack:
            node = stack.pop()
            kind = type(node).__name__
            if kind in LOADS:
                parts.append(self.element(node.source, node.indices))
            elif kind in _CONSTANTS:
                parts.append("#")
            elif kind in _VARIABLES:
                parts.append(self._variable(node))
            elif kind in _PAIRS or kind in _COMPARISONS:
                parts.append(kind)
                stack += (node.b, node.a)
            elif kind == "Call":
                name = str(getattr(node.op, "name", type(node.op).__name__)).rpartition(".")[2]
                arguments = list(node.args)
                parts.append(f"{name}/{len(arguments)}")
                stack.extend(reversed(arguments[1:] if self._is_bound(name, arguments) else arguments))
            elif kind == "Select":
                parts.append("select")
                hidden = self._is_position(node.condition)
                stack += (node.false_value, node.true_value, *(() if hidden else (node.condition,)))
            elif kind == "Cast":
                parts.append(f"Cast:{node.ty.dtype}")
                stack.append(node.value)
            elif kind == "Not":
                parts.append(kind)
                stack.append(node.a)
            elif kind == "Let":
                parts.append(kind)
                stack += (node.body, node.value)
            else:
                parts.append(kind)
        return " ".join(parts)

    def element(self, buffer: Any, indices: Sequence[Any]) -> str:
        """An element read or written: ``t0:float32[i0,i1+i2]``."""
        place = ",".join("+".join(sorted(self._terms(index))) for index in indices)
        return f"{self._buffers.of(buffer)}[{place}]"

    def _terms(self, index: Any) -> set[str]:
        """What an index is a sum of, coefficients and constants left out."""
        kind = type(index).__name__
        if kind in _VARIABLES:
            return {self._variable(index)}
        if kind in _CONSTANTS:
            return set()
        if kind in _SUMS:
            return self._terms(index.a) | self._terms(index.b)
        if kind == "Mul" and (integer_of(index.a) is not None or integer_of(index.b) is not None):
            return self._terms(index.a) | self._terms(index.b)
        if kind == "Cast":
            return self._terms(index.value)
        if kind in LOADS:
            return {self.element(index.source, index.indices)}
        if kind in _PAIRS:
            inside = [self._terms(index.a), self._terms(index.b)]
            # A quotient of a constant is one: which of them are left depends on extents.
            return {f"{kind}({','.join('+'.join(sorted(side)) for side in inside)})"} if any(inside) else set()
        return {f"({self.value(index)})"}

    def _variable(self, variable: Any) -> str:
        return self._iterators.get(_key(variable), "x")

    def _is_bound(self, name: str, arguments: Sequence[Any]) -> bool:
        return name in _CHOICES and len(arguments) > 1 and self._is_position(arguments[0])

    def _is_position(self, condition: Any) -> bool:
        """Whether a condition asks where in the tensor we are, as that of padding does: its form follows sizes."""
        return not any(type(node).__name__ in LOADS for node in walk(condition))


def _key(variable: Any) -> int:
    """The address of a TVM object: ``==`` on its expressions builds an expression."""
    return int(variable.__chandle__())
