"""When to skip a candidate, and how sure to be."""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np
import pytest
from prune_engine_lightgbm.foresight import (
    DEGRADATION_MARGIN,
    START_SKIP_ABOVE,
    Foresight,
    normal_cdf,
    skip_threshold,
)


@pytest.mark.parametrize("n", [0, 8])
def test_below_nine_good_ones_the_start_holds(n: int) -> None:
    """n >= 1 / alpha - 1."""
    threshold, basis = skip_threshold([0.6] * n)
    assert threshold == START_SKIP_ABOVE
    assert f"n = {n}" in basis


def test_the_threshold_is_the_order_statistic() -> None:
    probs = np.linspace(0.5, 0.95, 29).tolist()  # floor(0.1 * 30) = 3: the third highest
    threshold, basis = skip_threshold(probs)
    assert threshold == pytest.approx(sorted(probs)[-3])
    assert "n = 29, alpha = 0.1" in basis


def test_new_good_ones_are_skipped_no_more_often_than_said() -> None:
    rng = np.random.default_rng(0)
    skipped = []
    for _ in range(400):
        probs = 0.5 + rng.random(31) / 2
        skipped.append(probs[-1] > skip_threshold(probs[:-1].tolist())[0])
    assert np.mean(skipped) <= 0.1 + 3 * math.sqrt(0.09 / 400)


def test_the_threshold_never_falls_below_a_half() -> None:
    """Only what was selected is measured, so low probabilities of good ones confirm themselves."""
    assert skip_threshold([0.01] * 50)[0] == 0.5


def test_the_spread_is_that_of_the_newest_errors() -> None:
    foresight, rng = Foresight(), np.random.default_rng(0)
    assert foresight.spread == (0.0, 1.0)
    for sigma in (2.0, 0.3):
        errors = rng.normal(0.1, sigma, 200)
        foresight.add(np.zeros(200), np.zeros(200), errors)
    bias, spread = foresight.spread
    assert bias == pytest.approx(0.1, abs=0.1)
    assert spread == pytest.approx(0.3, abs=0.1)


def test_the_probability_is_that_of_being_slower_by_a_tenth() -> None:
    foresight, rng = Foresight(), np.random.default_rng(1)
    foresight.add(np.zeros(300), np.zeros(300), rng.normal(0, 0.5, 300))
    predicted = np.array([-2.0, DEGRADATION_MARGIN, 2.0])
    low, even, high = foresight.degradation_prob(predicted, best_log_secs=0.0)
    assert low < 0.05
    assert even == pytest.approx(0.5, abs=0.1)
    assert high > 0.95


def test_good_is_within_a_tenth_of_the_best_known_now() -> None:
    foresight = Foresight()
    foresight.add(np.zeros(3), np.array([0.1, 0.2, 0.3]), np.log2([1.0, 1.09, 1.2]))
    assert foresight.good_probs(0.0) == [0.1, 0.2]
    assert foresight.good_probs(math.log2(0.5)) == []


def test_the_normal_distribution_is_near_enough() -> None:
    x = np.linspace(-6, 6, 301)
    np.testing.assert_allclose(normal_cdf(x), [NormalDist().cdf(v) for v in x], atol=3e-4)
    assert ((normal_cdf(x) >= 0) & (normal_cdf(x) <= 1)).all()
