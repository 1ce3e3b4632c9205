"""Where a kernel rounds, read from its unscheduled TIR: what error bounds are made of."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from prune_engine.metaschedule.tir_nest import kernel_of
from prune_engine.metaschedule.tir_walk import LOADS, expressions_of, statements, walk

_FLOAT = re.compile(r"^b?float")
_NARROW = re.compile(r'"(float32|float16|bfloat16)"')
_REDUCTION_AXIS = 2
#: Float operations under which magnitudes add up: |a + b| <= |a| + |b|, |ab| = |a||b|.
_MONOTONE = ("Add", "Mul", "Max", "Cast", "Broadcast", "Ramp", "FloatImm", "IntImm", "StringImm", "Var", *LOADS)
_ARITHMETIC = ("Add", "Sub", "Mul", "Div", "Call")
_CHOICES = ("if_then_else", "likely")
_REINTERPRETING = ("reinterpret", "call_extern", "call_pure_extern", "call_llvm_intrin", "call_llvm_pure_intrin")


@dataclass(frozen=True, slots=True)
class RoundingStep:
    """One statement that rounds: ``n_roundings`` along one result, to ``dtype``."""

    n_roundings: int
    dtype: str


@dataclass(frozen=True, slots=True)
class Rounding:
    """How a kernel rounds.

    It is ``is_linear`` where running it on magnitudes gives the sum of the magnitudes of all that is added up:
    nothing but sums, products and maxima. ``index_arguments`` are the numbers of the arguments that say where
    something is, ``output_arguments`` those of the arguments that it writes. ``can_widen`` says that the kernel
    means the same in another float type. Its sums may be larger than its results: constants make ``shrinks`` times
    less of them, and they are multiplied by elements of ``scaling_arguments``.
    """

    steps: tuple[RoundingStep, ...]
    is_linear: bool
    index_arguments: tuple[int, ...]
    output_arguments: tuple[int, ...]
    can_widen: bool
    shrinks: float = 1.0
    scaling_arguments: tuple[int, ...] = ()

    @property
    def n_sum(self) -> int:
        """The longest chain of roundings of one statement."""
        return max((step.n_roundings for step in self.steps), default=1)


def rounding_of(mod: Any) -> Rounding:
    """Read an unscheduled kernel. Raises SpaceError for a module without one."""
    kernel = kernel_of(mod)
    steps: list[RoundingStep] = []
    is_linear, can_widen = True, True
    n_reduced: int = 1
    indexing: set[int] = set()
    written: set[int] = set()
    scaling: set[int] = set()
    of_sums: set[int] = set()  # buffers of sums, and of what is made of them
    shrinks = 1.0
    for statement in statements(kernel.body):
        kind = type(statement).__name__
        if kind == "SBlockRealize":
            axes = statement.block.iter_vars
            n_reduced = math.prod(int(a.dom.extent) for a in axes if int(a.iter_type) == _REDUCTION_AXIS)
            continue
        for expression in expressions_of(statement, kind):
            for part in walk(expression):
                name = type(part).__name__
                if name in LOADS:
                    indexing.update(_loaded(part.indices))
                can_widen &= not (name == "Call" and _called(part) in _REINTERPRETING)
        if kind == "BufferStore":
            indexing.update(_loaded(statement.indices))
            written.add(_key(statement.buffer))
            dtype = str(statement.buffer.dtype)
            is_linear &= _is_linear(statement.value)
            for part in _float_parts(statement.value):
                shrinks *= max(1.0, _divisor(part))
                if type(part).__name__ == "Mul" and not of_sums.isdisjoint(multiplied := _buffers(part)):
                    scaling.update(multiplied - of_sums)
            read = _buffers(statement.value)
            if not of_sums.isdisjoint(read) or (n_reduced > 1 and _key(statement.buffer) in read):
                of_sums.add(_key(statement.buffer))
            if _FLOAT.match(dtype) and (n := _n_roundings(statement, n_reduced)):
                steps.append(RoundingStep(n, dtype))
    arguments = [_key(parameter) for parameter in kernel.params]

    def numbers(wanted: set[int]) -> tuple[int, ...]:
        return tuple(number for number, key in enumerate(arguments) if key in wanted)

    return Rounding(
        tuple(steps), is_linear, numbers(indexing), numbers(written), can_widen, shrinks, numbers(scaling)
    )


def widened(module_json: str) -> str:
    """The same kernel with every narrower float made float64, as text."""
    return _NARROW.sub('"float64"', module_json)


def _n_roundings(statement: Any, n_reduced: int) -> int:
    """Roundings of one result: those of its own operations, and of adding up where the statement does."""
    value = statement.value
    n_own = sum(
        type(part).__name__ in _ARITHMETIC and not (type(part).__name__ == "Call" and _called(part) in _CHOICES)
        for part in _float_parts(value)
    )
    adds_up = type(value).__name__ not in ("Max", "Min") and any(
        type(part).__name__ in LOADS and part.source.same_as(statement.buffer) for part in walk(value)
    )
    casts = type(value).__name__ == "Cast"
    return n_own + casts + (n_reduced if adds_up else 0)


def _is_linear(value: Any) -> bool:
    is_product = {"Add", "Mul"} & {type(part).__name__ for part in walk(value)}
    for part in _float_parts(value):
        name = type(part).__name__
        if name == "Call":
            if _called(part) not in _CHOICES:
                return False
        elif name == "Div":
            if type(part.b).__name__ != "FloatImm" or float(part.b.value) <= 0:
                return False
        elif name not in _MONOTONE or (name == "FloatImm" and is_product and float(part.value) < 0):
            return False
    return True


def _buffers(value: Any) -> set[int]:
    """The buffers that a value is made of."""
    return {_key(part.source) for part in _float_parts(value) if type(part).__name__ in LOADS}


def _divisor(part: Any) -> float:
    """By what a constant divides, 1 where none does."""
    name = type(part).__name__
    if name == "Div" and type(part.b).__name__ == "FloatImm":
        return abs(float(part.b.value)) or 1.0
    if name == "Mul":
        factors = [abs(float(one.value)) for one in (part.a, part.b) if type(one).__name__ == "FloatImm"]
        return 1 / factors[0] if factors and factors[0] else 1.0
    return 1.0


def _float_parts(value: Any) -> Iterator[Any]:
    """The expressions that make a value; conditions and indices are none of them."""
    stack = [value]
    while stack:
        part = stack.pop()
        yield part
        name = type(part).__name__
        if name in LOADS:
            continue
        if name == "Call":
            arguments = list(part.args)
            if _called(part) in _CHOICES:
                if any(_FLOAT.match(str(_dtype(one))) for one in walk(arguments[0])):
                    yield part.args[0]  # a comparison, which is not monotone
                arguments = arguments[1:]
            stack += arguments
        elif name == "Cast":
            stack.append(part.value)
        elif hasattr(part, "a") and hasattr(part, "b"):
            stack += (part.a, part.b)


def _called(call: Any) -> str:
    """The name of what a call calls, without its namespace."""
    return str(call.op.name).rpartition(".")[2]


def _dtype(expression: Any) -> str:
    return str(getattr(expression, "ty", ""))


def _loaded(indices: Any) -> set[int]:
    return {_key(one.source) for i in indices for one in walk(i) if type(one).__name__ in LOADS}


def _key(variable: Any) -> int:
    """The address of a TVM object: equality of its variables is an expression."""
    return int(variable.__chandle__())
