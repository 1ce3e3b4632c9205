"""Uniform draws from the choice tables."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from prune_engine.candidates import CandidateBatch
from prune_engine.enumeration import drawn, numbered
from prune_engine.space import DesignSpace, Int32Array, Sketch
from prune_engine.strategies import Explorer, Fitness

#: Up to so many candidates, and so many times those wanted, a sketch is drawn from without replacement.
_COUNTABLE, _COUNTABLE_RATIO = 1 << 16, 4
#: Draws with replacement from larger sketches, where few collide, before fewer than wanted are fine.
_MAX_DRAWS = 4


class UniformExplorer(Explorer):
    """Draws every decision uniformly from the rows still allowed, the same number from every sketch.

    A sketch no larger than its share is proposed completely.
    """

    name = "explore.uniform"

    def propose(
        self,
        space: DesignSpace,
        n: int,
        fitness: Fitness | None,  # noqa: ARG002 - a uniform draw climbs on nothing
        rng: np.random.Generator,
    ) -> Sequence[CandidateBatch]:
        """Draw about ``n`` distinct candidates."""
        sketches = sorted((s for s in space.sketches if s.size), key=lambda s: s.size)
        batches: list[CandidateBatch] = []
        left = n
        for number, sketch in enumerate(sketches):  # small ones first: what they leave goes to the others
            share = -(-left // (len(sketches) - number))
            indices = _draw(sketch, min(share, sketch.size), rng)
            left -= len(indices)
            batches.append(CandidateBatch(space, sketch, indices))
        return sorted(batches, key=lambda b: b.sketch.index)


def _draw(sketch: Sketch, n: int, rng: np.random.Generator) -> Int32Array:
    """``n`` distinct candidates of a sketch that has as many, in random order, int32 (<= n, v)."""
    if sketch.size <= max(_COUNTABLE, _COUNTABLE_RATIO * n):
        return numbered(sketch, rng.permutation(sketch.size)[:n])
    rows = np.empty((0, len(sketch.variables)), dtype=np.int32)
    for _ in range(_MAX_DRAWS):
        missing = n - len(rows)
        if missing <= 0:
            break
        rows = np.concatenate([rows, drawn(sketch, missing, rng)])
        _, first = np.unique(rows, axis=0, return_index=True)
        rows = rows[np.sort(first)]
    return np.ascontiguousarray(rows)
