"""What is known before any tree: the draft and a source model, weighed by the rows of the task."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Float64Array = NDArray[np.float64]

#: Weights of draft and source model as long as no row speaks against them. Found by replay on recorded spaces.
_BOTH, _ALONE = (0.3, 0.7), 1.0
_MOST_WEIGHT = 1.5
#: The prior weights count as much as that many rows whose draft is off by a factor of 2 from the mean.
_PRIOR_ROWS = 20.0


@dataclass(frozen=True, slots=True)
class Offset:
    """A level (log2 seconds) and a weighted sum of what is known, each held against its mean."""

    level: float
    means: Float64Array
    weights: Float64Array

    def of(self, known: Float64Array) -> Float64Array:
        """log2 seconds, float64 (n,), of ``known``, float64 (n, k), NaN where something has nothing to say."""
        apart = np.where(np.isnan(known), 0.0, known - self.means)
        found: Float64Array = self.level + apart @ self.weights
        return found


def prior_weights(is_told: NDArray[np.bool_]) -> Float64Array:
    """The weights before anything was measured, float64 (k,), k <= 2: of draft and source, where told."""
    if is_told.sum() == len(_BOTH):
        return np.array(_BOTH)
    return np.where(is_told, _ALONE, 0.0)


def unmeasured_offset(known: Float64Array) -> Offset:
    """The offset as long as nothing was measured: its level means nothing then."""
    n_known = known.shape[1]
    return Offset(0.0, np.zeros(n_known), prior_weights(np.asarray(~np.isnan(known).all(axis=0))))


def fit_offset(known: Float64Array, labels: Float64Array) -> Offset:
    """Ridge regression towards the prior weights, which are kept between 0 and 1.5.

    ``known`` is float64 (n, k), k <= 2, n >= 1, ``labels`` float64 (n,), log2 seconds. A few rows of a narrow range
    move the weights little, many rows decide them.
    """
    is_told = ~np.isnan(known)
    means = np.nansum(known, axis=0) / np.maximum(is_told.sum(axis=0), 1)
    apart = np.where(is_told, known - means, 0.0)
    level = float(labels.mean())
    prior = prior_weights(np.asarray(is_told.any(axis=0)))
    gram = apart.T @ apart + _PRIOR_ROWS * np.eye(known.shape[1])
    weights = np.linalg.solve(gram, apart.T @ (labels - level) + _PRIOR_ROWS * prior)
    return Offset(level, means, np.clip(weights, 0.0, _MOST_WEIGHT))
