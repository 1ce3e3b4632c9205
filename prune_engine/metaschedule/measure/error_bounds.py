"""How far two orders of the same floating-point sum may be apart.

A sum of k terms, or a dot product of length k, computed in any order has an error of at most
``gamma_k * sum |x_i y_i|`` with ``gamma_k = k u / (1 - k u)`` and u the unit roundoff (Higham, Accuracy and
Stability of Numerical Algorithms, 2nd ed., sections 3.1 and 4.2), so that two orders are at most twice that apart.
Where rounding errors are as good as random, ``exp(lambda sqrt(k) u + k u^2 / (1 - u)) - 1`` holds instead with a
probability of at least ``1 - 2 k exp(-lambda^2 (1 - u)^2 / 2)`` (Higham and Mary, A New Approach to Probabilistic
Rounding Error Analysis, SIAM J. Sci. Comput. 41(5), 2019, theorem 2.4).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from prune_engine.metaschedule.measure.arguments import Array, is_float, numpy_dtype
from prune_engine.metaschedule.rounding import RoundingStep

Float64Array = NDArray[np.float64]

#: With it the probabilistic bound fails for one result in 10^9 or less, for any k below 10^5.
_LAMBDA = 8.0
#: Above this share of 1, sums stagnate: the bound for random errors means nothing, the other one little.
_STAGNATION = 0.1
#: A finite difference is of one direction; the worst is some times as large.
_CONDITION_FACTOR = 8.0
#: Subnormal steps that one rounding may cost: half a step in either sum, and the products that follow.
_SUBNORMAL_FACTOR = 4.0

#: (bits of the significand, least exponent of a subnormal, largest finite value) of floats numpy does not know.
_OTHER_FLOATS = {"bfloat16": (8, -133, 3.3895313892515355e38)}


@dataclass(frozen=True, slots=True)
class FloatFormat:
    """What bounds need of a float type: unit roundoff, least positive and largest finite value."""

    unit_roundoff: float
    least: float
    largest: float


def format_of(dtype: str) -> FloatFormat:
    """The numbers of a float type. Raises TypeError for one that is not known."""
    if dtype in _OTHER_FLOATS:
        bits, exponent, largest = _OTHER_FLOATS[dtype]
        return FloatFormat(2.0**-bits, 2.0**exponent, largest)
    found = numpy_dtype(dtype)
    if not is_float(found) or found.kind != "f":
        raise TypeError(f"the rounding of {dtype} is not known")
    info = np.finfo(found)
    return FloatFormat(float(info.eps) / 2, float(info.smallest_subnormal), float(info.max))


def gamma(n_roundings: int, unit_roundoff: float, *, is_random: bool) -> float:
    """The error of ``n_roundings`` in a row, relative to the magnitudes: at most 1."""
    product = n_roundings * unit_roundoff
    if is_random and product < _STAGNATION:
        exponent = _LAMBDA * math.sqrt(n_roundings) * unit_roundoff
        return min(math.expm1(exponent + n_roundings * unit_roundoff**2 / (1 - unit_roundoff)), _sure(product))
    return _sure(product)


def _sure(product: float) -> float:
    return min(1.0, product / (1 - product)) if product < 1 else 1.0


def relative_bound(steps: Sequence[RoundingStep], *, is_random: bool) -> float:
    """How far two orders of a kernel's sums may be apart, relative to the magnitudes that are added up."""
    return 2 * sum(
        gamma(step.n_roundings, format_of(step.dtype).unit_roundoff, is_random=is_random) for step in steps
    )


def absolute_floor(steps: Sequence[RoundingStep], dtype: str) -> float:
    """What is lost where results are subnormal, whose steps are all of one size."""
    least = max([format_of(dtype).least, *(format_of(step.dtype).least for step in steps)])
    return _SUBNORMAL_FACTOR * least * max(1, sum(step.n_roundings for step in steps))


def linear_bound(magnitude: Float64Array, relative: float) -> Float64Array:
    """The bound of every result of a kernel that only adds, multiplies and takes maxima, float64 of its shape.

    ``magnitude`` is what the kernel computes of magnitudes, in float64.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        return magnitude * relative


def normwise_bound(result: Float64Array, changes: Sequence[Float64Array], relative: float) -> Float64Array:
    """One bound for all results of another kernel, float64 of its shape.

    ``result`` is its result in float64; ``changes[i]`` is by how much that changes, per unit, where its inputs
    change relatively by one unit in random directions: the condition of the kernel at this input.
    """
    worst = max((_largest(change) for change in changes), default=0.0)
    return np.full(result.shape, relative * (_CONDITION_FACTOR * worst + _largest(result)))


def _largest(values: Float64Array) -> float:
    finite = np.abs(values[np.isfinite(values)])
    return float(finite.max()) if finite.size else 0.0


@dataclass(frozen=True, slots=True)
class Comparison:
    """The place where a result is furthest beyond its bound, or nearest to it."""

    problem: str | None
    max_error: float | None
    bound: float | None


def compare(got: Array, expected: Array, bound: Float64Array, is_decided: NDArray[np.bool_]) -> Comparison:
    """Compare two float results of one shape where ``is_decided``, bool of that shape.

    Undecided is where another order may overflow, so that anything is right.
    """
    decided = is_decided & np.isfinite(expected.astype(np.float64))
    if not decided.any():
        return Comparison(None, None, None)
    mine, theirs = got.astype(np.float64)[decided], expected.astype(np.float64)[decided]
    limits = bound[decided]
    if n_wild := int(np.count_nonzero(~np.isfinite(mine))):
        return Comparison(f"{n_wild} of {mine.size} values are not finite", None, None)
    errors = np.abs(mine - theirs)
    # What is furthest beyond its bound; a bound of 0 asks for equality.
    excess = errors - limits
    worst = int(excess.argmax())
    error, limit = float(errors[worst]), float(limits[worst])
    if error <= limit:
        largest = int(errors.argmax())
        return Comparison(None, float(errors[largest]), float(limits[largest]))
    n_wrong = int(np.count_nonzero(errors > limits))
    problem = f"{n_wrong} of {mine.size} values are off, one by {error:.3g} where {limit:.3g} is accepted"
    return Comparison(problem, error, limit)
