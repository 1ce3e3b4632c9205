"""How well a model foresaw what was then measured: the spread of its errors, and when to skip a candidate."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Float64Array = NDArray[np.float64]

#: Being slower than the incumbent by more than this (log2) is a degradation.
DEGRADATION_MARGIN = math.log2(1.1)
#: Candidates within this (log2) of the best of their task are those that must not be skipped.
_GOOD_MARGIN = math.log2(1.1)
#: The threshold as long as too few good candidates are known, and the lowest it may fall to.
START_SKIP_ABOVE, _LOWEST_SKIP_ABOVE = 0.85, 0.5
#: Share of good candidates that may be skipped.
SKIP_ALPHA = 0.1
#: Before any error is known it is taken as so large (log2), which counts as that many errors seen.
_START_SIGMA, _START_ERRORS, _LEAST_SIGMA = 1.0, 1.0, 0.05
_NEWEST = 96


@dataclass(slots=True)
class Foresight:
    """Predictions of one task that were made before the rows were learnt, in the order of measuring.

    ``predicted`` and ``log_secs`` are log2 seconds; ``probs`` the degradation probabilities given then.
    """

    predicted: list[float] = field(default_factory=list)
    log_secs: list[float] = field(default_factory=list)
    probs: list[float] = field(default_factory=list)

    def add(self, predicted: Float64Array, probs: Float64Array, log_secs: Float64Array) -> None:
        """Take in what was foreseen of rows that ran to the end, each float64 (n,)."""
        self.predicted += predicted.tolist()
        self.log_secs += log_secs.tolist()
        self.probs += probs.tolist()

    @property
    def spread(self) -> tuple[float, float]:
        """Mean and standard deviation of the newest errors, log2; unsure as long as few are known."""
        errors = np.array(self.log_secs[-_NEWEST:]) - np.array(self.predicted[-_NEWEST:])
        weight = len(errors) + _START_ERRORS
        bias = float(errors.sum()) / weight
        squares = float(np.square(errors - bias).sum()) + _START_ERRORS * _START_SIGMA**2
        return bias, max(math.sqrt(squares / weight), _LEAST_SIGMA)

    def degradation_prob(self, predicted: Float64Array, best_log_secs: float) -> Float64Array:
        """P(slower than the best by the margin), float64 (n,), taking errors as normally distributed."""
        bias, sigma = self.spread
        return normal_cdf((predicted + bias - best_log_secs - DEGRADATION_MARGIN) / sigma)

    def good_probs(self, best_log_secs: float) -> list[float]:
        """The probabilities that were given to candidates which turned out good."""
        return [
            prob
            for prob, log_secs in zip(self.probs, self.log_secs, strict=True)
            if log_secs <= best_log_secs + _GOOD_MARGIN
        ]


def skip_threshold(good_probs: Sequence[float], alpha: float = SKIP_ALPHA) -> tuple[float, str]:
    """The probability above which to skip, and what it rests on.

    Winner recall: of n good candidates foreseen before they were learnt, all but the floor(alpha (n + 1)) with
    the highest probability stay below the threshold. A new good one, exchangeable with them, is skipped with
    probability at most alpha. That takes n >= 1 / alpha - 1.
    """
    n = len(good_probs)
    needed = math.ceil(1 / alpha - 1 - 1e-9)
    if n < needed:
        return START_SKIP_ABOVE, f"{START_SKIP_ABOVE} until {needed} good candidates were foreseen (n = {n})"
    rank = math.floor(alpha * (n + 1) + 1e-9)
    found = max(sorted(good_probs, reverse=True)[rank - 1], _LOWEST_SKIP_ABOVE)
    return (
        found,
        f"at most {alpha:g} of the candidates within 1.1 of the best lie above it (n = {n}, alpha = {alpha:g})",
    )


def normal_cdf(x: Float64Array) -> Float64Array:
    """The standard normal distribution function to within 2e-4 (Page's tanh approximation)."""
    inner = math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)
    return np.asarray(0.5 * (1 + np.tanh(inner)), dtype=np.float64)
