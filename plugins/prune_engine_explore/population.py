"""The candidates of one sketch that one round has scored."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from prune_engine.candidates import CandidateBatch
from prune_engine.space import BoolArray, DesignSpace, Int32Array, Sketch
from prune_engine.strategies import Fitness
from prune_engine.verdicts import Float64Array
from prune_engine_explore.keys import KeySet, row_keys


class Population:
    """The best candidates by fitness, best first, never more than ``capacity``; none is scored twice.

    ``rows`` int32 (p, v), ``scores`` float64 (p,) > 0, ``keys`` uint64 (p,).
    """

    def __init__(self, space: DesignSpace, sketch: Sketch, fitness: Fitness, capacity: int) -> None:
        self.sketch = sketch
        self.rows: Int32Array = np.empty((0, len(sketch.variables)), dtype=np.int32)
        self.scores: Float64Array = np.empty(0)
        self.keys = row_keys(self.rows)
        self.n_scored = 0
        self._is_expanded: BoolArray = np.empty(0, dtype=np.bool_)
        self._space, self._fitness, self._capacity = space, fitness, capacity
        self._known = KeySet()

    def __len__(self) -> int:
        return len(self.rows)

    def add(self, rows: Int32Array) -> tuple[Int32Array, Float64Array]:
        """Score those of ``rows``, int32 (n, v), that were not scored before; those of fitness 0 are let go.

        Returns the others with their scores, int32 (m, v) and float64 (m,), also where they are not kept.
        """
        keys = row_keys(rows)
        fresh = self._known.add(keys)
        if not len(fresh):
            return self.rows[:0], self.scores[:0]
        batch = CandidateBatch(self._space, self.sketch, np.ascontiguousarray(rows[fresh]))
        scores = np.asarray(self._fitness(batch), dtype=np.float64)
        self.n_scored += len(fresh)
        good = np.flatnonzero(scores > 0)
        self._merge(batch.indices[good], scores[good], keys[fresh[good]])
        return batch.indices[good], scores[good]

    def unexpanded(self, n: int, among: BoolArray) -> Int32Array:
        """The best ``n`` where ``among``, bool (p,), that this did not return before, int32 (<= n, v)."""
        at = np.flatnonzero(~self._is_expanded & among)[:n]
        self._is_expanded[at] = True
        return self.rows[at]

    def _merge(self, rows: Int32Array, scores: Float64Array, keys: NDArray[np.uint64]) -> None:
        all_scores = np.concatenate([self.scores, scores])
        order = np.argsort(-all_scores, kind="stable")[: self._capacity]
        self.scores = all_scores[order]
        self.rows = np.concatenate([self.rows, rows])[order]
        self.keys = np.concatenate([self.keys, keys])[order]
        self._is_expanded = np.concatenate([self._is_expanded, np.zeros(len(rows), dtype=np.bool_)])[order]


def drawn_parents(rows: Int32Array, n: int, rng: np.random.Generator) -> Int32Array:
    """``n`` of candidates that are in order, drawn with replacement, the better the more often, int32 (n, v)."""
    # The square of a uniform number: half of the draws come from the best quarter.
    at: NDArray[np.int64] = (len(rows) * rng.random(n) ** 2).astype(np.int64)
    return rows[at]
