"""Configurations that are one step from the best that were measured: where a local search would look."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from prune_engine.verdicts import BoolArray

#: Of so many of the best at most the neighbours are looked at: beyond them it is no longer near the best.
_MAX_CENTRES = 8


def near_the_best(
    indices: NDArray[np.int32],
    is_open: BoolArray,
    measured: NDArray[np.int64],
    run_secs: NDArray[np.float64],
    n: int,
) -> BoolArray:
    """Open configurations that differ in one parameter from one of the best measured, bool (m,).

    ``indices`` is int32 (m, v): a position per parameter. ``is_open`` bool (m,) are those that may be measured.
    ``measured`` are positions, ``run_secs`` their times, NaN for failures. Those around the best come first, then
    those around the second best if there are fewer than ``n``, and so on to the eighth: the result has fewer than
    ``n`` if no more are near those, and none if nothing ran.
    """
    near = np.zeros(len(indices), dtype=np.bool_)
    ran = ~np.isnan(run_secs)
    best_first = measured[ran][np.argsort(run_secs[ran], kind="stable")]
    for centre in best_first[:_MAX_CENTRES]:
        if near.sum() >= n:
            break
        near |= is_open & ((indices != indices[centre]).sum(axis=1) == 1)
    return near
