"""The candidates of a space one after the other, or drawn from all of them alike."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from prune_engine.candidates import CandidateBatch
from prune_engine.space import DesignSpace, Int32Array, Sketch

#: Candidates of a batch: few enough that their columns take little memory.
BATCH_SIZE = 1 << 16


def all_batches(space: DesignSpace, batch_size: int = BATCH_SIZE) -> Iterator[CandidateBatch]:
    """Every candidate of a space once, sketch by sketch, in batches of at most ``batch_size``."""
    for sketch in space.sketches:
        for start in range(0, sketch.size, batch_size):
            numbers = np.arange(start, min(start + batch_size, sketch.size), dtype=np.int64)
            yield CandidateBatch(space, sketch, numbered(sketch, numbers))


def drawn_batches(
    space: DesignSpace, n: int, rng: np.random.Generator, batch_size: int = BATCH_SIZE
) -> Iterator[CandidateBatch]:
    """``n`` candidates drawn with replacement from all of a space alike; nothing if it is empty."""
    total = space.size
    if not total:
        return
    shares = [sketch.size / total for sketch in space.sketches]
    for sketch, n_here in zip(space.sketches, rng.multinomial(n, shares), strict=True):
        for start in range(0, int(n_here), batch_size):
            size = min(batch_size, int(n_here) - start)
            yield CandidateBatch(space, sketch, drawn(sketch, size, rng))


def numbered(sketch: Sketch, numbers: NDArray[np.int64]) -> Int32Array:
    """The candidates of these numbers below the sketch's size, int32 (n, v); the last variable runs fastest."""
    indices = np.empty((len(numbers), len(sketch.variables)), dtype=np.int32)
    left = numbers
    for v in reversed(range(len(sketch.variables))):
        left, position = np.divmod(left, sketch.variables[v].size)
        indices[:, v] = sketch.variables[v].rows[position]
    return indices


def drawn(sketch: Sketch, n: int, rng: np.random.Generator) -> Int32Array:
    """``n`` candidates of a sketch drawn with replacement, int32 (n, v)."""
    indices = np.empty((n, len(sketch.variables)), dtype=np.int32)
    for v, variable in enumerate(sketch.variables):
        indices[:, v] = variable.rows[rng.integers(variable.size, size=n)]
    return indices
