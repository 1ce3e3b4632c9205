"""Weights of the draft's terms, fitted to what was measured: non-negative, and no further from one than labels say.

The terms are seconds, so a task's labels correct them by one factor each. With few labels a factor stays where it
was: what it may move is weighed against a ridge towards its old value. Factors are found by non-negative least
squares on relative errors, each row divided by its latency, so that a label much too slow counts for one at most.
Rows are weighed anew a few times, so that one much too fast counts for no more.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from prune_engine_draft.least_squares import nnls
from prune_engine_draft.terms import Float64Array

#: Labels below which nothing is fitted, and below which no two sets of weights are compared.
MIN_LABELS, MIN_COMPARED = 16, 8
#: How much a factor's distance from one weighs, in labels.
_RIDGE = 1.0
_ROUNDS, _FOLDS = 5, 4


@dataclass(frozen=True, slots=True)
class Labels:
    """What is known of a task: ``terms`` float64 (n, t) and ``latency_secs`` float64 (n,), finite and > 0.

    ``is_censored`` bool (n,) marks measurements that were stopped: those are at least as slow as the label says.
    """

    terms: Float64Array
    latency_secs: Float64Array
    is_censored: np.ndarray[tuple[int], np.dtype[np.bool_]]

    def __len__(self) -> int:
        return len(self.latency_secs)

    def take(self, rows: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> Labels:
        """The labels where ``rows``, bool (n,), is True."""
        return Labels(self.terms[rows], self.latency_secs[rows], self.is_censored[rows])


def fitted(labels: Labels, prior: Float64Array, ridge: float = _RIDGE) -> Float64Array:
    """Weights of the terms, float64 (t,), >= 0, from ``prior``, the weights so far.

    A censored label pulls only where the prediction is below it. Labels that carry nothing leave the prior.
    """
    predicted = labels.terms @ prior
    usable = predicted > 0
    if not usable.any():
        return prior
    scale = float(np.median(labels.latency_secs[usable] / predicted[usable]))
    rows = scale * prior * labels.terms / labels.latency_secs[:, None]
    factors = np.ones(len(prior))
    for _ in range(_ROUNDS):
        ratio = np.maximum(rows @ factors, 1e-9)
        weights = 1.0 / np.maximum(ratio, 1.0)
        weights[labels.is_censored & (ratio >= 1.0)] = 0.0
        stiff = np.full(len(factors), np.sqrt(ridge))
        matrix = np.concatenate([rows * weights[:, None], np.diag(stiff)])
        factors = nnls(matrix, np.concatenate([weights, stiff]))
    found: Float64Array = scale * prior * factors
    return found if found.any() else prior


def agreement(labels: Labels, weights: Float64Array) -> float:
    """Rank correlation of predictions with the labels, -1 to 1; 0 where either is all the same."""
    return _correlation(_ranks(labels.terms @ weights), _ranks(labels.latency_secs))


def held_out_agreement(labels: Labels, prior: Float64Array) -> float:
    """Rank correlation of each fold's labels with what the other folds' labels predict for them."""
    fold = np.arange(len(labels)) % _FOLDS
    predicted = np.empty(len(labels))
    for number in range(_FOLDS):
        inside = fold == number
        predicted[inside] = labels.terms[inside] @ fitted(labels.take(~inside), prior)
    return _correlation(_ranks(predicted), _ranks(labels.latency_secs))


def _ranks(values: Float64Array) -> Float64Array:
    """Ranks from 0, equal values sharing their mean."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    ranks: Float64Array = (ends - (counts + 1) / 2)[inverse.reshape(-1)]
    return ranks


def _correlation(a: Float64Array, b: Float64Array) -> float:
    a, b = a - a.mean(), b - b.mean()
    size = float(np.sqrt((a @ a) * (b @ b)))
    return float(a @ b) / size if size > 0 else 0.0
