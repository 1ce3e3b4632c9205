"""Inputs to run a model on when the user gives none."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

#: Scalars that are settings rather than data: any other value makes such a model refuse its input.
_USUAL_SCALARS = {"sr": 16000, "sample_rate": 16000, "sampling_rate": 16000}


class _Described(Protocol):
    @property
    def name(self) -> str: ...
    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def dtype(self) -> str: ...


def random_inputs(inputs: Iterable[_Described], seed: int) -> dict[str, NDArray[Any]]:
    """One random array per input, by name; the same for the same seed.

    Floats are standard normal. Integers are 0 or 1, which is valid as a token, an index and a mask alike.
    """
    rng = np.random.default_rng(seed)
    return {tensor.name: _random(tensor, rng) for tensor in inputs}


def _random(tensor: _Described, rng: np.random.Generator) -> NDArray[Any]:
    dtype = _dtype(tensor.dtype)
    if not tensor.shape and tensor.name.lower() in _USUAL_SCALARS:
        return np.asarray(_USUAL_SCALARS[tensor.name.lower()]).astype(dtype)
    if dtype.kind in "iub":
        return np.asarray(rng.integers(0, 2, size=tensor.shape)).astype(dtype)
    return np.asarray(rng.standard_normal(tensor.shape)).astype(dtype)


def _dtype(name: str) -> np.dtype[Any]:
    try:
        return np.dtype(name)
    except TypeError:
        # bfloat16 and the 8-bit floats; the package is one of TVM's and onnx's dependencies.
        import ml_dtypes

        extended: np.dtype[Any] = np.dtype(getattr(ml_dtypes, name))
        return extended
