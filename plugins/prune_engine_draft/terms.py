"""What every form of the draft returns: seconds per cause and penalties, per candidate."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Float64Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class DraftTerms:
    """Latency of n candidates and what it is made of.

    ``latency_secs`` float64 (n,), > 0, finite. ``terms`` (name -> float64 (n,), seconds, >= 0) are the physical
    causes that a calibration may weigh by non-negative coefficients. ``penalties`` (name -> float64 (n,), in
    (0, 1]) are what the peaks were multiplied by, ``symbols`` (name -> (n,)) what was read. ``fits`` bool (n,)
    is False where a tile is larger than a scratchpad that it must lie in: such a candidate scores 0. None: all fit.
    """

    latency_secs: Float64Array
    terms: Mapping[str, Float64Array] = field(default_factory=dict)
    penalties: Mapping[str, Float64Array] = field(default_factory=dict)
    symbols: Mapping[str, Float64Array] = field(default_factory=dict)
    fits: NDArray[np.bool_] | None = None
