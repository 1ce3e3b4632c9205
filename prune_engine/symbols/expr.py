"""Integer expressions over a sketch's decisions: built once per sketch, evaluated for n candidates at a time.

An extent of a scheduled loop is an expression: a product of tile factors, a hull of the region a consumer
needs, a value out of a categorical. What depends on one variable only is evaluated on its choice table (a few
hundred rows) and gathered; only what joins variables costs an operation per candidate.
"""

from __future__ import annotations

import operator
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, Union

import numpy as np
from numpy.typing import NDArray

Int64Array = NDArray[np.int64]
ExprLike = Union["Expr", int]

#: Equal expressions are one object, so that each is evaluated once per batch.
_INTERNED: weakref.WeakValueDictionary[tuple[object, ...], Expr] = weakref.WeakValueDictionary()


class Expr:
    """One integer expression. Immutable; equal expressions are identical objects.

    ``op`` is ``const`` (``payload`` the number), ``part`` (``payload`` the variable and the part of its
    table), ``rows`` (the variable and the value for each row of its table) or the name of an operation in
    OPERATIONS. Comparisons give 0 or 1.
    """

    __slots__ = ("__weakref__", "args", "constant", "op", "payload", "variables")

    op: str
    args: tuple[Expr, ...]
    payload: tuple[int, ...]
    #: Numbers of the variables it depends on, ascending.
    variables: tuple[int, ...]
    #: The number, if it is the same for all candidates as far as its form tells.
    constant: int | None

    def __new__(cls, op: str, args: tuple[Expr, ...] = (), payload: tuple[int, ...] = ()) -> Expr:
        """The one expression of this form."""
        key = (op, payload, *map(id, args))
        known = _INTERNED.get(key)
        if known is not None:
            return known
        self = object.__new__(cls)
        self.op, self.args, self.payload = op, args, payload
        self.constant = payload[0] if op == "const" else None
        self.variables = payload[:1] if op in ("part", "rows") else _union([arg.variables for arg in args])
        _INTERNED[key] = self
        return self

    def __copy__(self) -> Expr:
        return self

    def __deepcopy__(self, memo: dict[int, object]) -> Expr:
        return self

    def __repr__(self) -> str:
        if self.op == "const":
            return str(self.payload[0])
        if self.op == "part":
            return f"v{self.payload[0]}[{self.payload[1]}]"
        if self.op == "rows":
            return f"rows(v{self.payload[0]})"
        if self.op in _SYMBOLS:
            return "(" + f" {_SYMBOLS[self.op]} ".join(map(repr, self.args)) + ")"
        return f"{self.op}({', '.join(map(repr, self.args))})"

    def __add__(self, other: ExprLike) -> Expr:
        return _fold("add", self, as_expr(other))

    def __sub__(self, other: ExprLike) -> Expr:
        return _fold("sub", self, as_expr(other))

    def __mul__(self, other: ExprLike) -> Expr:
        return _fold("mul", self, as_expr(other))

    def __floordiv__(self, other: ExprLike) -> Expr:
        return _fold("floordiv", self, as_expr(other))

    def __mod__(self, other: ExprLike) -> Expr:
        return _fold("mod", self, as_expr(other))

    __radd__ = __add__
    __rmul__ = __mul__

    # Named, not operators: ``==`` on expressions is identity.
    def eq(self, other: ExprLike) -> Expr:
        """1 where equal."""
        return _fold("eq", self, as_expr(other))

    def lt(self, other: ExprLike) -> Expr:
        """1 where less."""
        return _fold("lt", self, as_expr(other))

    def le(self, other: ExprLike) -> Expr:
        """1 where less or equal."""
        return _fold("le", self, as_expr(other))


def _union(parts: list[tuple[int, ...]]) -> tuple[int, ...]:
    """All numbers of some ascending lists, ascending: mostly that of one of them."""
    longest = max(parts, key=len, default=())
    if all(part is longest or not part or part == longest for part in parts):
        return longest
    return tuple(sorted(set().union(*parts)))


def as_expr(value: ExprLike) -> Expr:
    """A number as an expression; an expression as itself."""
    if isinstance(value, Expr):
        return value
    return _SMALL.get(value) or Expr("const", (), (int(value),))


def part(variable: int, number: int) -> Expr:
    """Part ``number`` of the choice of variable ``variable``."""
    return Expr("part", (), (variable, number))


def per_row(variable: int, values: Sequence[int]) -> Expr:
    """A number for each row of a variable's choice table."""
    if len(set(values)) == 1:
        return as_expr(values[0])
    return Expr("rows", (), (variable, *values))


def ceildiv(a: ExprLike, b: ExprLike) -> Expr:
    """a / b, rounded up; b >= 1."""
    return _fold("ceildiv", as_expr(a), as_expr(b))


def minimum(a: ExprLike, b: ExprLike) -> Expr:
    """The smaller of two."""
    return _fold("min", as_expr(a), as_expr(b))


def maximum(a: ExprLike, b: ExprLike) -> Expr:
    """The larger of two."""
    return _fold("max", as_expr(a), as_expr(b))


def where(condition: ExprLike, then: ExprLike, otherwise: ExprLike) -> Expr:
    """``then`` where the condition is not 0, else ``otherwise``."""
    condition, then, otherwise = as_expr(condition), as_expr(then), as_expr(otherwise)
    if condition.constant is not None:
        return then if condition.constant else otherwise
    return then if then is otherwise else Expr("where", (condition, then, otherwise))


def both(a: ExprLike, b: ExprLike) -> Expr:
    """1 where both conditions hold (each 0 or 1)."""
    return _fold("and", as_expr(a), as_expr(b))


def either(a: ExprLike, b: ExprLike) -> Expr:
    """1 where at least one condition holds (each 0 or 1)."""
    return _fold("or", as_expr(a), as_expr(b))


def negate(a: ExprLike) -> Expr:
    """1 where a condition (0 or 1) does not hold."""
    return as_expr(1) - as_expr(a)


def product(factors: Iterable[ExprLike]) -> Expr:
    """The product; factors of one variable are multiplied first, so that they cost one gather together."""
    by_variables: dict[tuple[int, ...], Expr] = {}
    for factor in map(as_expr, factors):
        known = by_variables.get(factor.variables)
        by_variables[factor.variables] = factor if known is None else known * factor
    result = as_expr(1)
    for key in sorted(by_variables, key=lambda k: (len(k), k)):
        result = result * by_variables[key]
    return result


def total(terms: Iterable[ExprLike]) -> Expr:
    """The sum; terms of one variable are added first, so that they cost one gather together."""
    by_variables: dict[tuple[int, ...], Expr] = {}
    for term in map(as_expr, terms):
        known = by_variables.get(term.variables)
        by_variables[term.variables] = term if known is None else known + term
    result = as_expr(0)
    for key in sorted(by_variables, key=lambda k: (len(k), k)):
        result = result + by_variables[key]
    return result


def factors(expr: Expr) -> list[Expr]:
    """The expressions that it is the product of."""
    return [f for arg in expr.args for f in factors(arg)] if expr.op == "mul" else [expr]


def _select(condition: Int64Array, then: Int64Array, otherwise: Int64Array) -> Int64Array:
    return np.where(condition, then, otherwise)


def _as_int(operation: Callable[..., NDArray[np.bool_]]) -> Callable[..., Int64Array]:
    return lambda a, b: operation(a, b).astype(np.int64)


#: What each operation does to int64 arrays (or scalars).
OPERATIONS: Final[Mapping[str, Callable[..., Int64Array]]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "floordiv": np.floor_divide,
    "mod": np.mod,
    "ceildiv": lambda a, b: -np.floor_divide(-a, b),
    "min": np.minimum,
    "max": np.maximum,
    "eq": _as_int(np.equal),
    "lt": _as_int(np.less),
    "le": _as_int(np.less_equal),
    "and": np.multiply,
    "or": np.maximum,
    "where": _select,
}
#: The same on Python's numbers, for what is known when an expression is made.
ON_NUMBERS: Final[Mapping[str, Callable[[int, int], int]]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "floordiv": operator.floordiv,
    "mod": operator.mod,
    "ceildiv": lambda a, b: -(-a // b),
    "min": min,
    "max": max,
    "eq": lambda a, b: int(a == b),
    "lt": lambda a, b: int(a < b),
    "le": lambda a, b: int(a <= b),
    "and": operator.mul,
    "or": max,
}
_SYMBOLS: Final = {
    "add": "+",
    "sub": "-",
    "mul": "*",
    "floordiv": "//",
    "mod": "%",
    "eq": "==",
    "lt": "<",
    "le": "<=",
}
#: Operations that give 0 or 1 (``and`` and ``or`` of such).
CONDITIONS: Final = frozenset({"eq", "lt", "le", "and", "or"})
#: The number on the right that changes nothing; and the operations whose sides may be swapped.
_NEUTRAL: Final = {"add": 0, "sub": 0, "mul": 1, "floordiv": 1, "ceildiv": 1, "and": 1, "or": 0}
_COMMUTES: Final = frozenset({"add", "mul", "and", "or", "min", "max", "eq"})


def _fold(op: str, a: Expr, b: Expr) -> Expr:
    """An operation on two expressions, with what is known at once worked out."""
    if a.constant is not None and b.constant is not None:
        return as_expr(ON_NUMBERS[op](a.constant, b.constant))
    if op in _COMMUTES and a.constant is not None:
        a, b = b, a  # constants to the right
    if op in _NEUTRAL and b.constant == _NEUTRAL[op]:
        return a
    if op in ("mul", "and") and b.constant == 0:
        return b
    if op == "or" and b.constant == 1:
        return b
    if op in ("min", "max") and a is b:
        return a
    if op in ("eq", "le") and a is b:
        return as_expr(1)
    if op == "eq" and b.constant is not None and a.op == "where" and (known := _chosen(a, b)) is not None:
        return known
    if op in ("add", "sub") and b.constant is not None:
        return _plus(a, b.constant if op == "add" else -b.constant)
    if op in ("floordiv", "ceildiv", "mod") and (quotient := _divided(a, b)) is not None:
        return as_expr(0) if op == "mod" else quotient
    return Expr(op, (a, b))


def _chosen(choice: Expr, value: Expr) -> Expr | None:
    """Whether a choice between two numbers is one of them: the condition of the choice, or its opposite."""
    condition, then, otherwise = choice.args
    if then.constant is None or otherwise.constant is None or condition.op not in CONDITIONS:
        return None
    if (then is value) == (otherwise is value):
        return as_expr(int(then is value))
    return condition if then is value else as_expr(1) - condition


def _plus(a: Expr, number: int) -> Expr:
    """A sum with a number, joined with one that is there already: extents less 1 are often put back."""
    if a.op in ("add", "sub") and (there := a.args[1].constant) is not None:
        return _plus(a.args[0], number + (there if a.op == "add" else -there))
    if number == 0:
        return a
    return Expr("add", (a, as_expr(number))) if number > 0 else Expr("sub", (a, as_expr(-number)))


def _divided(a: Expr, b: Expr) -> Expr | None:
    """a / b where b's factors (>= 1, as all divisors are) are among those of a; None if they are not."""
    left, number = [], 1
    for factor in factors(a):
        if factor.constant is None:
            left.append(factor)
        else:
            number *= factor.constant
    for factor in factors(b):
        if factor.constant is not None:
            if not factor.constant or number % factor.constant:
                return None
            number //= factor.constant
        elif factor in left:
            left.remove(factor)
        else:
            return None
    return product([*left, number])


#: Numbers met all the time, kept alive.
_SMALL: Final = {number: Expr("const", (), (number,)) for number in range(-2, 1025)}
ZERO: Final = _SMALL[0]
