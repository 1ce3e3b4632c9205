"""Which elements a statement touches at one point of its loops: as built, and as predicted."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from prune_engine.metaschedule.tir_affine import integer_of
from prune_engine.metaschedule.tir_nest import TirBlock, TirNest
from prune_engine.symbols.loop_nest import Statement

#: First index of a dimension (None: unknown), and how many elements from there.
Dimension = tuple[int | None, int | None]
#: Buffer, whether it is written, and each dimension of an access.
Touch = tuple[str, bool, tuple[Dimension, ...]]
#: The numbers of expressions for one candidate.
Numbers = Callable[..., "list[int]"]


def touched_by_block(nest: TirNest, block: TirBlock, loops: Sequence[int]) -> list[Touch] | None:
    """What a block's signature says it touches while the loops around it have these values.

    None where its predicate says that it does not run.
    """
    values = {_key(lo.node.loop_var): value for lo, value in zip(block.loops, loops, strict=True)}
    for outer in with_parents(nest, block):
        for axis, binding in zip(outer.node.block.iter_vars, outer.node.iter_values, strict=True):
            value = value_of(binding, values)
            assert value is not None, f"the binding of {axis.var.name} cannot be evaluated: {binding}"
            values[_key(axis.var)] = value
        if value_of(outer.node.predicate, values) == 0:
            return None
    signature = block.node.block
    # A reduction with its init reads what it writes, though its signature does not say so.
    reads = (*signature.reads, *(signature.writes if block.has_init else ()))
    return [
        (
            label(str(region.source.name)),
            is_write,
            tuple(
                (_inside(value_of(r.min, values), integer_of(size)), integer_of(r.extent))
                for r, size in zip(region.region, region.source.shape, strict=True)
            ),
        )
        for regions, is_write in ((reads, False), (signature.writes, True))
        for region in regions
    ]


def touched_by_statement(statement: Statement, loops: Sequence[int], numbers: Numbers) -> Iterator[Touch]:
    """What a predicted statement touches while its loops have these values."""
    iterators = []
    for iterator in statement.iterators:
        (value,) = numbers(iterator.start)
        for term in iterator.terms:
            loop_numbers = [number for number, _ in term.over]
            stride, divisor, modulus, *flats = numbers(
                term.stride, term.divisor, term.modulus, *(flat for _, flat in term.over)
            )
            digits = [loops[n] for n in loop_numbers]
            if term.digits:  # of fused loops
                parts = numbers(*(x for digit in term.digits for x in digit))
                digits = [v // d % m for v, d, m in zip(digits, parts[::2], parts[1::2], strict=True)]
            flat_value = sum(digit * flat for digit, flat in zip(digits, flats, strict=True))
            (start,) = numbers(term.start)
            value += stride * ((start + flat_value) // divisor % modulus)
        iterators.append(value)
    for access in statement.accesses:
        where = tuple(
            (
                None if x.coefficients is None else x.offset + sum(c * iterators[i] for i, c in x.coefficients),
                x.width,
            )
            for x in access.indices
        )
        yield label(access.buffer), access.is_write, where


def _inside(index: int | None, size: int | None) -> int | None:
    """An index, None where it is beyond its buffer: a condition keeps such an element from being touched."""
    return index if index is None or size is None or 0 <= index < size else None


def value_of(expression: Any, values: Mapping[int, int]) -> int | None:
    """The value of an index expression, variables by identity; None where it depends on data."""
    kind = type(expression).__name__
    if kind == "IntImm":
        return int(expression.value)
    if kind in ("Var", "PrimVar"):
        return values.get(_key(expression))
    if kind == "Cast":
        return value_of(expression.value, values)
    if kind not in _ARITHMETIC:
        return None
    a, b = value_of(expression.a, values), value_of(expression.b, values)
    return None if a is None or b is None else int(_ARITHMETIC[kind](a, b))


_ARITHMETIC: dict[str, Callable[[int, int], int]] = {
    "Add": operator.add,
    "Sub": operator.sub,
    "Mul": operator.mul,
    "FloorDiv": operator.floordiv,
    "FloorMod": operator.mod,
    "Min": min,
    "Max": max,
    "LT": operator.lt,
    "LE": operator.le,
    "GT": operator.gt,
    "GE": operator.ge,
    "EQ": operator.eq,
    "And": operator.and_,
    "Or": operator.or_,
}


def with_parents(nest: TirNest, block: TirBlock) -> Iterator[TirBlock]:
    if block.parent is not None:
        yield from with_parents(nest, nest.blocks[block.parent])
    yield block


def _key(variable: Any) -> int:
    return int(variable.__chandle__())


def matches(expected: Touch, got: Touch) -> bool:
    """Whether an access is the predicted one; an index that is not known matches any."""
    if expected[:2] != got[:2] or len(expected[2]) != len(got[2]):
        return False
    return all(None in (a[0], b[0]) or a == b for a, b in zip(expected[2], got[2], strict=True))


def label(name: str) -> str:
    """A buffer's name as TVM prints it: ``C.rf`` is shown as ``C_rf``."""
    return name.replace(".", "_")


def listed(touches: Iterable[Touch]) -> list[str]:
    return sorted(f"{'write' if is_write else 'read'} {name}{list(where)}" for name, is_write, where in touches)
