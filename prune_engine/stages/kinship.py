"""Which candidates are alike by their decisions: for selectors, as long as no verifier knows better."""

from __future__ import annotations

import numpy as np

from prune_engine.candidates import CandidateBatch
from prune_engine.space import Int32Array
from prune_engine.stages.pool import Pool

#: Rows that a choice table has at most, so that classes of different sketches differ.
_MOST_ROWS = 1 << 20


def decision_kinship(pool: Pool) -> Int32Array | None:
    """Classes of each candidate, int32 (n, 1 + v): its sketch, and what each variable of the sketch decides.

    Candidates of different sketches share none. None where a table is too long to be told apart.
    """
    variables = [variable for batch in pool.batches for variable in batch.sketch.variables]
    if not len(pool) or any(len(variable.table) > _MOST_ROWS for variable in variables):
        return None
    width = 1 + max(len(batch.sketch.variables) for batch in pool.batches)
    return pool.column([_classes(batch, width) for batch in pool.batches])


def _classes(batch: CandidateBatch, width: int) -> Int32Array:
    # What a sketch has no variable for, none of its candidates share: a number of its own for each.
    classes = np.repeat(-1 - np.arange(len(batch), dtype=np.int32)[:, None], width, axis=1)
    classes[:, 0] = batch.sketch.index
    classes[:, 1 : 1 + batch.indices.shape[1]] = batch.indices + np.int32(batch.sketch.index * _MOST_ROWS)
    return classes
