"""Where a kernel's integers may not fit their type: intervals of all values, from its arguments to its results.

An accumulator holds its first value and as many terms as its reduction has steps; what the interval says of it is
exact for a sum of independent terms and too wide for others, so a kernel that passes cannot overflow.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from prune_engine.metaschedule._compat import import_tvm
from prune_engine.metaschedule.tir_nest import kernel_of
from prune_engine.metaschedule.tir_walk import LOADS, children, walk

_INTEGER = re.compile(r"(u?)int(\d+)")
_REDUCTION_AXIS = 2
#: Sums of two products of bytes that are kept in 16 bits, by part of the instruction's name.
_PAIRS_OF_BYTES = "pmaddubs"


@dataclass(frozen=True, slots=True)
class Interval:
    """All integers from ``low`` to ``high``."""

    low: int
    high: int

    def joined(self, other: Interval) -> Interval:
        """The least interval that holds both."""
        return Interval(min(self.low, other.low), max(self.high, other.high))

    def fits(self, other: Interval) -> bool:
        """Whether it lies within another."""
        return other.low <= self.low and self.high <= other.high


@dataclass(frozen=True, slots=True)
class Overflow:
    """A value that may not fit: in what, of which type, and the values it may take."""

    where: str
    dtype: str
    low: int
    high: int

    def __str__(self) -> str:
        return f"{self.where} is {self.dtype} and may have to hold {self.low} to {self.high}"


def overflows(mod: Any, ranges: Mapping[int, Interval] | None = None) -> tuple[Overflow, ...]:
    """What of a kernel's integers may overflow, scheduled or not; each place once, in program order.

    ``ranges`` are the values of arguments by number, where they are known better than by their type. Raises
    SpaceError for a module without a kernel.
    """
    kernel = kernel_of(mod)
    reader = _Reader()
    for number, parameter in enumerate(kernel.params):
        whole = _whole(_dtype(parameter))
        if whole is not None:
            reader.known[_key(parameter)] = (ranges or {}).get(number, whole)
    reader.read(kernel.body, {}, 1)
    return tuple(reader.found.values())


def has_narrow_integers(dtypes: Sequence[str]) -> bool:
    """Whether arguments of these types include integers of 8 or 16 bits: those whose sums overflow."""
    return any((match := _INTEGER.fullmatch(dtype)) and int(match[2]) <= 16 for dtype in dtypes)


@dataclass(slots=True)
class _Reader:
    #: Values of each buffer so far, by address; None for what is no integer.
    known: dict[int, Interval] = field(default_factory=dict)
    written: set[int] = field(default_factory=set)
    found: dict[tuple[str, str], Overflow] = field(default_factory=dict)

    def read(self, statement: Any, loops: dict[int, int], n_steps: int) -> None:
        """Take in a statement inside ``loops`` (extent by variable) whose block adds ``n_steps`` terms."""
        kind = type(statement).__name__
        if kind == "For":
            loops = loops | {_key(statement.loop_var): _extent(statement.extent)}
        elif kind == "SBlockRealize":
            n_steps = max(1, n_steps * _n_steps(statement, loops))
        elif kind == "BufferStore":
            self._store(statement, n_steps)
        elif kind == "Evaluate":
            self._value(statement.value, "an instruction")
        for child in children(statement, kind):
            self.read(child, loops, n_steps)

    def _store(self, statement: Any, n_steps: int) -> None:
        name, dtype = str(statement.buffer.name), _dtype(statement.buffer)
        whole = _whole(dtype)
        if whole is None:
            self._value(statement.value, name)
            return
        key = _key(statement.buffer)
        term = _added(statement.value, key)
        if term is not None:
            step, first = self._value(term, name), self.known.get(key, Interval(0, 0))
            if _has_instruction(term):  # of which only the type is known
                step = _ANY
            value = Interval(first.low + n_steps * min(0, step.low), first.high + n_steps * max(0, step.high))
        else:
            value = self._value(statement.value, name)
        held = self._held(value, dtype, name)
        # What an argument or a buffer held before its first value is gone.
        self.known[key] = held.joined(self.known[key]) if key in self.written else held
        self.written.add(key)

    def _value(self, expression: Any, where: str) -> Interval:
        """The values of an expression; what does not fit its type is noted."""
        kind, dtype = type(expression).__name__, _dtype(expression)
        whole = _whole(dtype)
        if kind == "IntImm":
            return Interval(int(expression.value), int(expression.value))
        if kind in LOADS:
            return self.known.get(_key(expression.source), whole or _ANY)
        if kind in ("Add", "Sub", "Mul", "Max", "Min"):
            a, b = self._value(expression.a, where), self._value(expression.b, where)
            return self._held(_combined(kind, a, b), dtype, where)
        if kind == "Cast":
            inner = self._value(expression.value, where)
            is_integer = _whole(_dtype(expression.value)) is not None
            return self._held(inner, dtype, where) if is_integer else whole or _ANY
        if kind == "Call":
            self._call(expression, where)
            name = str(expression.op.name).rpartition(".")[2]
            if name == "if_then_else":
                then, other = (self._value(one, where) for one in list(expression.args)[1:])
                return then.joined(other)
            for argument in expression.args:
                self._value(argument, where)
        elif kind == "Select":
            return self._value(expression.true_value, where).joined(self._value(expression.false_value, where))
        elif kind in ("Broadcast", "Ramp"):
            return self._value(expression.value if kind == "Broadcast" else expression.base, where)
        return whole or _ANY

    def _call(self, call: Any, where: str) -> None:
        names = [_instruction(one) for one in call.args if type(one).__name__ == "IntImm"][:1]
        if any(_PAIRS_OF_BYTES in name for name in names):
            self._held(Interval(2 * 255 * -128, 2 * 255 * 127), "int16", f"{where} ({names[0]})")

    def _held(self, value: Interval, dtype: str, where: str) -> Interval:
        """A value as its type holds it: all of the type where it does not fit."""
        whole = _whole(dtype)
        if whole is None or value.fits(whole):
            return value
        self.found.setdefault((where, dtype), Overflow(where, dtype, value.low, value.high))
        return whole


#: Of what is no integer.
_ANY = Interval(0, 0)


def _combined(kind: str, a: Interval, b: Interval) -> Interval:
    if kind == "Add":
        return Interval(a.low + b.low, a.high + b.high)
    if kind == "Sub":
        return Interval(a.low - b.high, a.high - b.low)
    if kind == "Mul":
        ends = [x * y for x in (a.low, a.high) for y in (b.low, b.high)]
        return Interval(min(ends), max(ends))
    choose = max if kind == "Max" else min
    return Interval(choose(a.low, b.low), choose(a.high, b.high))


def _added(value: Any, buffer: int) -> Any | None:
    """What a statement adds to the element that it writes, None if it does something else."""
    if type(value).__name__ != "Add":
        return None
    for own, other in ((value.a, value.b), (value.b, value.a)):
        if type(own).__name__ in LOADS and _key(own.source) == buffer:
            return other
    return None


def _has_instruction(term: Any) -> bool:
    return any(type(one).__name__ == "Call" and "llvm" in str(one.op.name) for one in walk(term))


def _n_steps(realize: Any, loops: Mapping[int, int]) -> int:
    """How many terms a block adds to one element: the turns of loops that move reduction axes only."""
    reducing: set[int] = set()
    others: set[int] = set()
    domain = 1
    for axis, value in zip(realize.block.iter_vars, realize.iter_values, strict=True):
        is_reduction = int(axis.iter_type) == _REDUCTION_AXIS
        domain *= _extent(axis.dom.extent) if is_reduction else 1
        (reducing if is_reduction else others).update(_variables(value))
    turns = [loops[key] for key in reducing - others if key in loops]
    return min(domain, math.prod(turns)) if turns else (1 if reducing else domain)


def _variables(value: Any) -> Iterator[int]:
    return (_key(one) for one in walk(value) if type(one).__name__ == "Var")


def _extent(value: Any) -> int:
    return int(value.value) if type(value).__name__ == "IntImm" else int(value)


def _whole(dtype: str) -> Interval | None:
    """All values of an integer type, None for another. Lanes do not matter."""
    match = _INTEGER.match(dtype)
    if match is None:
        return None
    bits = int(match[2])
    return Interval(0, 2**bits - 1) if match[1] else Interval(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


def _dtype(expression: Any) -> str:
    found = getattr(expression, "dtype", None)
    return str(found if found is not None else getattr(expression, "ty", ""))


def _instruction(number: Any) -> str:
    """The name of an instruction of LLVM's, empty if the number is none."""
    tvm = import_tvm()
    try:
        return str(tvm.target.codegen.llvm_get_intrinsic_name(int(number.value)))
    except (RuntimeError, ValueError):
        return ""


def _key(variable: Any) -> int:
    return int(variable.__chandle__())
