"""Uniform draws from the choice tables."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from prune_engine.candidates import CandidateBatch
from prune_engine.space import DesignSpace, Int32Array, Sketch
from prune_engine.strategies import Explorer, Fitness

#: Draws per wanted candidate before a sketch is given up as nearly exhausted.
_MAX_OVERDRAW = 4


class UniformExplorer(Explorer):
    """Draws every decision uniformly from the rows still allowed, the same number from every sketch.

    A sketch no larger than its share is enumerated instead, so a small space is proposed completely.
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
            indices = _enumerate(sketch) if sketch.size <= share else _draw(sketch, share, rng)
            left -= len(indices)
            batches.append(CandidateBatch(space, sketch, indices))
        return sorted(batches, key=lambda b: b.sketch.index)


def _enumerate(sketch: Sketch) -> Int32Array:
    """All candidates of a sketch, int32 (size, v)."""
    if not sketch.variables:
        return np.empty((1, 0), dtype=np.int32)
    grid = np.meshgrid(*(v.rows for v in sketch.variables), indexing="ij")
    return np.ascontiguousarray(np.stack([axis.ravel() for axis in grid], axis=1), dtype=np.int32)


def _draw(sketch: Sketch, n: int, rng: np.random.Generator) -> Int32Array:
    """``n`` distinct candidates, fewer only if draws keep colliding, int32 (<= n, v)."""
    rows = np.empty((0, len(sketch.variables)), dtype=np.int32)
    for _ in range(_MAX_OVERDRAW):
        missing = n - len(rows)
        if missing <= 0:
            break
        drawn = [v.rows[rng.integers(v.size, size=missing)] for v in sketch.variables]
        rows = np.concatenate([rows, np.stack(drawn, axis=1)])
        _, first = np.unique(rows, axis=0, return_index=True)
        rows = rows[np.sort(first)]
    return np.ascontiguousarray(rows)
