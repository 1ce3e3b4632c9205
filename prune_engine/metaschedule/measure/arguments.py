"""Deterministic arguments for a kernel: the same for the default schedule and every candidate."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


def make_arguments(
    shapes: Sequence[Sequence[int]], dtypes: Sequence[str], seed: int, *, is_positive: bool
) -> list[Array]:
    """One array per argument, outputs included: what a kernel fails to write is then seen as a difference.

    Floats are uniform in [-1, 1), or in [0.1, 1) if ``is_positive`` (for kernels that take a root or a
    logarithm). Integers are small and not negative, so that they are valid indices of the other arguments,
    except 8-bit ones, which are data. Raises TypeError for a dtype numpy cannot hold.
    """
    bound = index_bound(shapes)
    return [
        _make(tuple(shape), numpy_dtype(dtype), bound, np.random.default_rng([seed, position]), is_positive)
        for position, (shape, dtype) in enumerate(zip(shapes, dtypes, strict=True))
    ]


def numpy_dtype(name: str) -> np.dtype[Any]:
    """The numpy dtype of a TVM dtype, with bfloat16 and the 8-bit floats where ml_dtypes is installed."""
    try:
        return np.dtype(name)
    except TypeError:
        extension = importlib.import_module("ml_dtypes")
        if not hasattr(extension, name):
            raise
        found: np.dtype[Any] = np.dtype(getattr(extension, name))
        return found


def is_float(dtype: np.dtype[Any]) -> bool:
    """Whether a dtype is a floating one, extension types included."""
    return dtype.kind == "f" or (dtype.kind == "V" and "float" in dtype.name)


def index_bound(shapes: Sequence[Sequence[int]]) -> int:
    """Integers below it are valid indices along every axis of more than one element."""
    extents = [extent for shape in shapes for extent in shape if extent > 1]
    return max(1, min([8, *extents]))


def _make(
    shape: tuple[int, ...], dtype: np.dtype[Any], index_bound: int, rng: np.random.Generator, is_positive: bool
) -> Array:
    if is_float(dtype):
        values = rng.random(shape, dtype=np.float64 if dtype.itemsize == 8 else np.float32)
        values *= 0.9 if is_positive else 2.0
        values += 0.1 if is_positive else -1.0
        return values.astype(dtype, copy=False)
    if dtype.kind == "b":
        return rng.integers(0, 2, shape, dtype=np.uint8).astype(np.bool_)
    if dtype.kind in "iu":
        bound = 16 if dtype.itemsize == 1 else index_bound
        return rng.integers(0, bound, shape, dtype=np.int64).astype(dtype)
    raise TypeError(f"no test data for arguments of type {dtype.name}")
