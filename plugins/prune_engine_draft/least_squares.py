"""Non-negative least squares for a few unknowns: importing scipy's takes longer than a task's first round."""

from __future__ import annotations

import numpy as np

from prune_engine_draft.terms import Float64Array

#: Relative to the largest gradient at the start; what is below it is rounding.
_TOLERANCE = 1e-12


def nnls(matrix: Float64Array, wanted: Float64Array) -> Float64Array:
    """The x >= 0, float64 (k,), that minimises ``|matrix @ x - wanted|``.

    ``matrix`` is float64 (n, k) of full column rank, so that there is one. Source: the active set method of Lawson
    and Hanson, Solving Least Squares Problems (1974), chapter 23, on the normal equations.
    """
    gram, target = matrix.T @ matrix, matrix.T @ wanted
    n = len(target)
    x = np.zeros(n)
    is_free = np.zeros(n, dtype=np.bool_)
    floor = _TOLERANCE * float(np.abs(target).max(initial=0.0))
    for _ in range(3 * n):  # each turn frees one unknown; more turns than this are rounding going in circles
        gradient = target - gram @ x
        gradient[is_free] = -np.inf
        if not n or gradient.max() <= floor:
            break
        is_free[gradient.argmax()] = True
        x = _feasible(gram, target, x, is_free)
    return x


def _feasible(
    gram: Float64Array, target: Float64Array, x: Float64Array, is_free: np.ndarray[tuple[int], np.dtype[np.bool_]]
) -> Float64Array:
    """The best point with the unknowns that are not free at 0, those that would be negative fixed on the way."""
    while True:
        solved = np.zeros(len(x))
        at = np.flatnonzero(is_free)
        solved[at] = np.linalg.solve(gram[np.ix_(at, at)], target[at])
        negative = at[solved[at] <= 0]
        if not len(negative):
            return solved
        step = float((x[negative] / (x[negative] - solved[negative])).min())
        x = np.maximum(x + step * (solved - x), 0.0)
        is_free &= x > 0
        x[~is_free] = 0.0
