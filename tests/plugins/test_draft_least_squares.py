"""Non-negative least squares: the same answer as scipy's."""

from __future__ import annotations

import numpy as np
import pytest
from prune_engine_draft.least_squares import nnls
from scipy.optimize import nnls as reference


def test_finds_what_scipy_finds() -> None:
    rng = np.random.default_rng(0)
    n_at_the_edge = 0
    for number in range(200):
        n, k = int(rng.integers(1, 60)), int(rng.integers(1, 12))
        rows = rng.normal(size=(n, k)) * rng.lognormal(0, 2, k) if number % 2 else rng.random((n, k))
        matrix = np.concatenate([rows, np.eye(k)])
        wanted = np.concatenate([rng.normal(size=n), rng.random(k)])
        expected = reference(matrix, wanted)[0]
        n_at_the_edge += int((expected == 0).sum())
        assert np.allclose(nnls(matrix, wanted), expected, rtol=1e-8, atol=1e-10)
    assert n_at_the_edge > 100


def test_an_unknown_that_would_be_negative_is_zero() -> None:
    # Without the edge the best is (2, -1).
    matrix = np.array([[1.0, 1.0], [1.0, 2.0]])
    assert nnls(matrix, np.array([1.0, 0.0])).tolist() == pytest.approx([0.5, 0.0])


def test_an_unknown_is_given_up_again() -> None:
    # The first one freed is the second one, which alone explains most; with both others there it is negative.
    matrix = np.array([[1.0, 1.0, 0.0], [0.0, 1.0, 1.0], [0.1, 0.0, 0.1]])
    wanted = np.array([1.0, 1.0, 0.3])
    assert np.allclose(nnls(matrix, wanted), reference(matrix, wanted)[0])


def test_nothing_wanted_gives_nothing() -> None:
    assert nnls(np.eye(3), np.zeros(3)).tolist() == [0, 0, 0]
    assert nnls(np.eye(3), -np.ones(3)).tolist() == [0, 0, 0]
