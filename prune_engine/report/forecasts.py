"""How well draft and verifier foresaw what was then measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from prune_engine.report.records import Trial
from prune_engine.verdicts import Float64Array

#: Fewer pairs say nothing about an order.
_MIN_PAIRS = 4


@dataclass(frozen=True, slots=True)
class Forecast:
    """The trials of which something was foreseen, and what. ``rho`` is Spearman's rank correlation with speed.

    1 is a perfect order, 0 is none; None for fewer than four trials, or where all are alike.
    """

    trials: tuple[Trial, ...]
    foreseen: tuple[float, ...]
    rho: float | None
    is_latency: bool = True


def draft_forecast(trials: Sequence[Trial]) -> Forecast:
    """Latencies in seconds that the draft foresaw."""
    pairs = [(t, t.draft_secs) for t in trials if _is_told(t) and t.draft_secs is not None]
    return _forecast(pairs, is_latency=True)


def verifier_forecast(trials: Sequence[Trial]) -> Forecast:
    """Latencies in seconds that the verifier foresaw, where recorded; else its scores, higher is faster."""
    latencies = [(t, t.verifier_secs) for t in trials if _is_told(t) and t.verifier_secs is not None]
    if latencies:
        return _forecast(latencies, is_latency=True)
    pairs = [(t, t.verifier_score) for t in trials if _is_told(t) and t.verifier_score is not None]
    return _forecast(pairs, is_latency=False)


def _is_told(trial: Trial) -> bool:
    return trial.latency_secs is not None and not trial.is_censored


def _forecast(pairs: Sequence[tuple[Trial, float]], *, is_latency: bool) -> Forecast:
    trials, foreseen = tuple(t for t, _ in pairs), tuple(f for _, f in pairs)
    rho = None
    if len(pairs) >= _MIN_PAIRS:
        secs = np.array([t.latency_secs for t in trials], dtype=np.float64)
        rho = _rank_correlation(np.array(foreseen, dtype=np.float64), secs if is_latency else -secs)
    return Forecast(trials, foreseen, rho, is_latency)


def _rank_correlation(a: Float64Array, b: Float64Array) -> float | None:
    """Spearman's correlation of two columns (n,); None if one is constant.

    Importing SciPy's takes as long as making a page.
    """
    ranks_a, ranks_b = _ranks(a), _ranks(b)
    if np.ptp(ranks_a) == 0 or np.ptp(ranks_b) == 0:
        return None
    return float(np.corrcoef(ranks_a, ranks_b)[0, 1])


def _ranks(values: Float64Array) -> Float64Array:
    """Ranks from 1; what is equal shares the mean of its ranks."""
    _, places, counts = np.unique(values, return_inverse=True, return_counts=True)
    shared: Float64Array = np.cumsum(counts) - (counts - 1) / 2
    return shared[places]
