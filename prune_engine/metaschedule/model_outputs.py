"""Whether two runs of a model computed the same, as far as their dtypes allow."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

#: Largest accepted difference, as a share of the largest magnitude in the reference output. A whole model
#: adds up the rounding of all its layers, and two libraries use different approximations of exp and erf:
#: correct float32 models were seen to differ by up to 2e-3.
_TOLERANCE = {"float64": 1e-6, "float32": 5e-3, "float16": 5e-2, "bfloat16": 1e-1}
_COARSE_TOLERANCE = 0.25

#: Quantised outputs may round to the neighbouring step; other integers are counts and indices.
_STEP_TOLERANCE = {"int8": 1.0, "uint8": 1.0}


@dataclass(frozen=True, slots=True)
class OutputDifference:
    """One output against a reference.

    ``max_abs`` is the largest absolute difference and ``max_rel`` that over the largest magnitude of the
    reference; both None if shapes, dtypes or the places of NaN and infinity differ, as ``problem`` then says.
    ``tolerance`` bounds ``max_rel`` of floats and ``max_abs`` of integers.
    """

    output: str
    reference: str
    max_abs: float | None
    max_rel: float | None
    tolerance: float
    is_within: bool
    problem: str | None = None

    def as_json(self) -> dict[str, object]:
        """As JSON values."""
        return asdict(self)


def compare_outputs(
    names: Sequence[str], got: Sequence[NDArray[Any]], expected: Sequence[NDArray[Any]], reference: str
) -> list[OutputDifference]:
    """Compare all outputs of one run with those of ``reference``, in order."""
    return [_compare(n, g, e, reference) for n, g, e in zip(names, got, expected, strict=True)]


def _compare(name: str, got: NDArray[Any], expected: NDArray[Any], reference: str) -> OutputDifference:
    is_exact = expected.dtype.kind in "iub"
    if is_exact:
        tolerance = _STEP_TOLERANCE.get(expected.dtype.name, 0.0)
    else:
        tolerance = _TOLERANCE.get(expected.dtype.name, _COARSE_TOLERANCE)
    if got.shape != expected.shape or got.dtype != expected.dtype:
        problem = f"{got.dtype} {got.shape} instead of {expected.dtype} {expected.shape}"
        return OutputDifference(name, reference, None, None, tolerance, False, problem)
    wide_got, wide_expected = got.astype(np.float64), expected.astype(np.float64)
    is_finite = np.isfinite(wide_expected)
    others_agree = np.array_equal(wide_got[~is_finite], wide_expected[~is_finite], equal_nan=True)
    if not (others_agree and np.isfinite(wide_got[is_finite]).all()):
        problem = "NaN or infinities are in other places"
        return OutputDifference(name, reference, None, None, tolerance, False, problem)
    max_abs = float(np.abs(wide_got[is_finite] - wide_expected[is_finite]).max(initial=0.0))
    scale = float(np.abs(wide_expected[is_finite]).max(initial=0.0))
    max_rel = max_abs / scale if scale else max_abs
    return OutputDifference(
        name, reference, max_abs, max_rel, tolerance, (max_abs if is_exact else max_rel) <= tolerance
    )
