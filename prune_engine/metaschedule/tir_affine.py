"""Index expressions of TIR as affine forms: {variable: coefficient} plus a constant, where they are that."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Affine:
    """``sum(coefficient * variable) + constant``; zero coefficients are left out, names are sorted."""

    coefficients: tuple[tuple[str, int], ...]
    constant: int

    def value(self, variables: Mapping[str, int]) -> int:
        """The number it is where the variables have these values. Raises KeyError for one without a value."""
        return self.constant + sum(c * variables[name] for name, c in self.coefficients)

    def __str__(self) -> str:
        terms = [name if c == 1 else f"{c}*{name}" for name, c in self.coefficients]
        return " + ".join([*terms, *([str(self.constant)] if self.constant or not terms else [])])


def affine_of(expression: Any) -> Affine | None:
    """Read an index expression of variables, constants, ``+``, ``-`` and ``*``; None for any other."""
    kind = type(expression).__name__
    if kind in ("Var", "PrimVar"):  # most indices are a plain variable
        return Affine(((str(expression.name), 1),), 0)
    if kind == "IntImm":
        return Affine((), int(expression.value))
    terms: dict[str, int] = {}
    constant = _collect(expression, 1, terms)
    if constant is None:
        return None
    return Affine(tuple(sorted((name, c) for name, c in terms.items() if c)), constant)


def integer_of(expression: Any) -> int | None:
    """The value of a constant expression; None for any other."""
    if isinstance(expression, int):
        return expression
    return int(expression.value) if type(expression).__name__ == "IntImm" else None


def _collect(expression: Any, factor: int, terms: dict[str, int]) -> int | None:
    """Add ``factor * expression`` to the terms; return its constant part, None if it is not affine."""
    kind = type(expression).__name__
    if kind == "IntImm":
        return factor * int(expression.value)
    if kind in ("Var", "PrimVar"):
        name = str(expression.name)
        terms[name] = terms.get(name, 0) + factor
        return 0
    if kind in ("Add", "Sub"):
        left = _collect(expression.a, factor, terms)
        right = _collect(expression.b, factor if kind == "Add" else -factor, terms)
        return None if left is None or right is None else left + right
    if kind == "Mul":
        for number, other in ((expression.b, expression.a), (expression.a, expression.b)):
            if (scale := integer_of(number)) is not None:
                return _collect(other, factor * scale, terms)
        return None
    if kind == "Cast":  # widened index types
        return _collect(expression.value, factor, terms)
    return None
