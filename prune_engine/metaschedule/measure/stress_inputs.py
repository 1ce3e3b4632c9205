"""Inputs that are hard on numbers: what rounds, cancels, overflows or is lost in another order of a sum."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from prune_engine.metaschedule.measure.arguments import Array, index_bound, is_float, numpy_dtype
from prune_engine.metaschedule.measure.error_bounds import format_of

#: What outputs hold before the call: a result that is not written stays so.
_UNWRITTEN = 77


@dataclass(frozen=True, slots=True)
class Signature:
    """What inputs are made for.

    ``index_arguments`` are the numbers of the arguments that say where something is: they stay small in every
    case. ``output_arguments`` are those that the kernel writes: they begin as something it would not write.
    ``n_sum`` is the length of the longest sum. ``max_integer`` is the largest magnitude of integers under which no
    accumulator of the untuned kernel can overflow, where that is known.
    """

    shapes: tuple[tuple[int, ...], ...]
    dtypes: tuple[str, ...]
    index_arguments: tuple[int, ...]
    output_arguments: tuple[int, ...]
    n_sum: int
    max_integer: int | None = None


@dataclass(frozen=True, slots=True)
class _Wanted:
    """One argument to be made."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    position: int
    signature: Signature
    rng: np.random.Generator


@dataclass(frozen=True, slots=True)
class Case:
    """A kind of input.

    Errors of a case that ``is_random`` are as good as random; so are not those of others. Sums of one that
    ``may_overflow`` do so in one order and not in another.
    """

    name: str
    is_random: bool
    make: Callable[[_Wanted], Array]
    may_overflow: bool = False


def make_inputs(case: Case, signature: Signature, seed: int) -> list[Array]:
    """One array per argument, outputs included; the same for the same seed."""
    small = index_bound(signature.shapes)
    made = []
    for position, (shape, dtype) in enumerate(zip(signature.shapes, signature.dtypes, strict=True)):
        rng = np.random.default_rng([seed, position])
        if position in signature.output_arguments:
            made.append(np.full(shape, _UNWRITTEN).astype(numpy_dtype(dtype)))
        elif position in signature.index_arguments:
            made.append(rng.integers(0, small, shape).astype(numpy_dtype(dtype)))
        else:
            made.append(case.make(_Wanted(shape, numpy_dtype(dtype), position, signature, rng)))
    return made


def integer_range(dtype: np.dtype[Any], signature: Signature) -> tuple[int, int]:
    """The least and the largest integer of the cases.

    Those of 8 and 16 bits are data and take their whole range; wider ones are kept so small that the sums of their
    products fit. Neither exceeds ``max_integer``.
    """
    if dtype.kind == "b":
        return 0, 1
    info = np.iinfo(dtype)
    limit = min(info.max, 1 << 20 if dtype.itemsize >= 4 else info.max)
    if dtype.itemsize >= 4:
        limit = max(1, min(limit, int(math.sqrt(2.0**30 / signature.n_sum))))
    if signature.max_integer is not None:
        limit = min(limit, signature.max_integer)
    return (max(info.min, -limit - (limit == info.max)), limit) if dtype.kind == "i" else (0, min(info.max, limit))


def _random(wanted: _Wanted) -> Array:
    if is_float(wanted.dtype):
        return (wanted.rng.random(wanted.shape) * 2 - 1).astype(wanted.dtype)
    return _integers(wanted)


def _positive(wanted: _Wanted) -> Array:
    if is_float(wanted.dtype):
        return (wanted.rng.random(wanted.shape) * 0.9 + 0.1).astype(wanted.dtype)
    return _integers(wanted)


def _cancelling(wanted: _Wanted) -> Array:
    """Pairs of nearly opposite large numbers in the first argument, in both directions of a matrix."""
    if not is_float(wanted.dtype):
        return _alternating(wanted)
    if wanted.position:
        return (wanted.rng.random(wanted.shape) * 0.1 + 0.9).astype(wanted.dtype)
    values = 256 * (wanted.rng.random(wanted.shape) * 0.01 + 1)
    return (values * _signs(wanted.shape)).astype(wanted.dtype)


def _alternating(wanted: _Wanted) -> Array:
    """1 and -1, or the ends of an integer's range, in turns along every axis."""
    if is_float(wanted.dtype):
        return _signs(wanted.shape).astype(wanted.dtype)
    low, high = integer_range(wanted.dtype, wanted.signature)
    return np.where(_signs(wanted.shape) > 0, high, low).astype(wanted.dtype)


def _extreme(wanted: _Wanted) -> Array:
    """A few numbers of the largest magnitude in the first argument; integers all at one end of their range."""
    if not is_float(wanted.dtype):
        low, high = integer_range(wanted.dtype, wanted.signature)
        # All of one sign in both factors makes the largest sums; the lower end is the longer one.
        return np.full(wanted.shape, low if low < 0 else high).astype(wanted.dtype)
    values = wanted.rng.random(wanted.shape) * 2 - 1
    if wanted.position == 0:
        largest = format_of(wanted.dtype.name).largest
        is_one = wanted.rng.random(wanted.shape) < 1 / max(8, wanted.signature.n_sum)
        values = np.where(is_one, np.where(values < 0, -largest, largest), values)
    return values.astype(wanted.dtype)


def _large(wanted: _Wanted) -> Array:
    """So large that sums of products only just fit; a narrower accumulator overflows."""
    if not is_float(wanted.dtype):
        return np.full(wanted.shape, integer_range(wanted.dtype, wanted.signature)[1]).astype(wanted.dtype)
    scale = math.sqrt(format_of(wanted.dtype.name).largest / (4 * wanted.signature.n_sum))
    return ((wanted.rng.random(wanted.shape) * 2 - 1) * scale).astype(wanted.dtype)


def _subnormal(wanted: _Wanted) -> Array:
    """Numbers below the normal ones in the first argument and half of each other one, whose rest is about 1."""
    if not is_float(wanted.dtype):
        return _integers(wanted)
    form = format_of(wanted.dtype.name)
    # Half of the least normal number is the largest power of two that is subnormal.
    largest_subnormal = form.least / (2 * form.unit_roundoff) / 2
    tiny = (wanted.rng.random(wanted.shape) * 2 - 1) * largest_subnormal
    if wanted.position:
        tiny = np.where(wanted.rng.random(wanted.shape) < 0.5, tiny, wanted.rng.random(wanted.shape) * 0.5 + 0.5)
    return tiny.astype(wanted.dtype)


def _zeros(wanted: _Wanted) -> Array:
    return np.zeros(wanted.shape, wanted.dtype)


def _one_hot(last: bool) -> Callable[[_Wanted], Array]:
    def make(wanted: _Wanted) -> Array:
        """1 at one corner of every argument, so that one term of every sum is all there is."""
        values = np.zeros(wanted.shape, wanted.dtype)
        if values.size:
            values.reshape(-1)[-1 if last else 0] = 1
        return values

    return make


def _integers(wanted: _Wanted) -> Array:
    if wanted.dtype.kind not in "iub":
        raise TypeError(f"no test data for arguments of type {wanted.dtype.name}")
    low, high = integer_range(wanted.dtype, wanted.signature)
    return wanted.rng.integers(low, high, wanted.shape, endpoint=True, dtype=np.int64).astype(wanted.dtype)


def _signs(shape: tuple[int, ...]) -> Array:
    if not shape:
        return np.ones(())
    return 1.0 - 2.0 * (np.indices(shape, sparse=True)[-1] + sum(np.indices(shape, sparse=True)[:-1])) % 2


#: The most telling first: where a kernel is slow, not all of them are tried.
CASES = (
    Case("random", True, _random),
    Case("last of a sum", False, _one_hot(last=True)),
    Case("cancelling", False, _cancelling),
    Case("large", False, _large),
    Case("subnormal", False, _subnormal),
    Case("extreme", False, _extreme, may_overflow=True),
    Case("alternating", False, _alternating),
    Case("first of a sum", False, _one_hot(last=False)),
    Case("zeros", False, _zeros),
    Case("positive", True, _positive),
)
