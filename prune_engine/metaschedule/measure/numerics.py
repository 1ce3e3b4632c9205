"""Whether a candidate computed what the default schedule computed."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from prune_engine.metaschedule.measure.arguments import Array, is_float

_INDEX = "reference.json"

#: Largest accepted difference relative to the largest magnitude in the reference. Another order of summation
#: moves a sum of k terms by about sqrt(k) roundings: with k = 10^4 a hundredth of these bounds in float32.
_RELATIVE_TOLERANCE = {"float64": 1e-9, "float32": 3e-4, "float16": 2e-2, "bfloat16": 1e-1}
_COARSE_TOLERANCE = 0.25


@dataclass(frozen=True, slots=True)
class Reference:
    """The default schedule's effect on its arguments: the arrays it changed, by position."""

    is_positive: bool
    outputs: dict[int, Array]


def save_reference(folder: Path, is_positive: bool, before: list[Array], after: list[Array]) -> None:
    """Keep the arguments that a call changed; ``folder`` is made. Raises OSError."""
    folder.mkdir(parents=True, exist_ok=True)
    changed = [i for i, (old, new) in enumerate(zip(before, after, strict=True)) if not _same_bytes(old, new)]
    for position in changed:
        after[position].tofile(folder / f"{position}.bin")
    # Written last and moved into place, so that a reference is whole if it can be found.
    partial = folder / f"{_INDEX}.part"
    partial.write_text(json.dumps({"is_positive": is_positive, "outputs": changed}))
    partial.replace(folder / _INDEX)


def load_index(folder: Path) -> tuple[bool, list[int]]:
    """Whether the inputs are positive, and which arguments are outputs. Raises OSError."""
    index = json.loads((folder / _INDEX).read_text())
    return bool(index["is_positive"]), [int(position) for position in index["outputs"]]


def find_difference(
    folder: Path, before: list[Array], after: list[Array], tolerance: float | None = None
) -> str | None:
    """Say in one clause how the arguments after one call differ from the reference, or None. Raises OSError.

    ``tolerance`` is as in ``compare_arrays``.
    """
    _, outputs = load_index(folder)
    for position, (old, new) in enumerate(zip(before, after, strict=True)):
        if position not in outputs:
            if not _same_bytes(old, new):
                return f"argument {position} ({new.dtype.name}) is an input and was overwritten"
            continue
        expected = np.fromfile(folder / f"{position}.bin", dtype=new.dtype).reshape(new.shape)
        problem = compare_arrays(new, expected, tolerance)
        if problem is not None:
            return f"output argument {position} ({new.dtype.name} {list(new.shape)}): {problem}"
    return None


def accepted_difference(dtype: str, tolerance: float | None = None) -> float:
    """The largest accepted difference relative to the largest magnitude: ``tolerance``, by default the dtype's."""
    return _RELATIVE_TOLERANCE.get(dtype, _COARSE_TOLERANCE) if tolerance is None else tolerance


def compare_arrays(got: Array, expected: Array, tolerance: float | None = None) -> str | None:
    """Compare exactly for integers, within ``accepted_difference`` for floats; NaN and infinities must agree."""
    if not is_float(expected.dtype):
        n_wrong = int(np.count_nonzero(got != expected))
        return f"{n_wrong} of {expected.size} values differ" if n_wrong else None
    if expected.dtype.itemsize < 4:
        got, expected, name = got.astype(np.float32), expected.astype(np.float32), expected.dtype.name
    else:
        name = expected.dtype.name
    is_finite = np.isfinite(expected)
    if is_finite.all():
        finite_got, finite_expected = got, expected
        if not np.isfinite(got).all():
            return f"{int(np.count_nonzero(~np.isfinite(got)))} of {expected.size} values are not finite"
    else:
        others_agree = np.array_equal(got[~is_finite], expected[~is_finite], equal_nan=True)
        if not (others_agree and np.isfinite(got[is_finite]).all()):
            return "NaN or infinities are in other places"
        finite_got, finite_expected = got[is_finite], expected[is_finite]
    if not finite_expected.size:
        return None
    scale = float(np.abs(finite_expected).max())
    error = float(np.abs(finite_got - finite_expected).max())
    accepted = accepted_difference(name, tolerance)
    if error <= accepted * scale:
        return None
    return f"off by {error:.3g} where values reach {scale:.3g}; {accepted:g} of that is accepted"


def _same_bytes(left: Array, right: Array) -> bool:
    # Bytes, not values: NaN equals itself here.
    return bool(np.array_equal(_as_bytes(left), _as_bytes(right)))


def _as_bytes(array: Array) -> np.ndarray[Any, np.dtype[np.uint8]]:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)
