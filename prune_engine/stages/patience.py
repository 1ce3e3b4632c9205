"""How much of a score is left once it is held against what building the candidate costs."""

from __future__ import annotations

import numpy as np

from prune_engine.candidates import CandidateBatch
from prune_engine.verdicts import Float64Array

#: Instances of the innermost statement that a compiler builds in no time worth speaking of.
FREE_INSTANCES = 32
_SYMBOL = "unrolled_body_instances"
#: The most that a candidate can lose: what is far ahead is built whatever it costs.
_LEAST = 0.25


def patience(batch: CandidateBatch, build_aversion: float) -> Float64Array:
    """A factor in (0, 1] for the scores of a batch, float64 (n,).

    ``1 - build_aversion * log2(1 + u / 32)`` with u the unrolled instances of the innermost statement, on which the
    seconds of a build depend most: between candidates that promise the same, those that are built in a tenth of
    the time come first. 1 where the loops could not be read.
    """
    if batch.is_opaque or not build_aversion or _SYMBOL not in batch.space.symbols:
        return np.ones(len(batch))
    instances = batch.symbol(_SYMBOL).astype(np.float64)
    return np.maximum(1.0 - build_aversion * np.log2(1.0 + instances / FREE_INSTANCES), _LEAST)
