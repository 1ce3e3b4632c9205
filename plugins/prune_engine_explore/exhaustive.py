"""Small spaces: every candidate is scored in every round."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from prune_engine.enumeration import BATCH_SIZE, numbered
from prune_engine.space import DesignSpace, Sketch, VariableKind
from prune_engine_explore.search import Field, score_first

#: Candidates of known structure that can be scored in the time that reading one more structure takes.
_CANDIDATES_PER_STRUCTURE = 1000


def scoring_cost(space: DesignSpace) -> int:
    """What it costs to score a whole space, in candidates: structures have to be read besides."""
    return sum(sketch.size + _CANDIDATES_PER_STRUCTURE * _n_structures(sketch) for sketch in space.sketches)


def score_all(fields: Sequence[Field]) -> None:
    """Score every candidate of these sketches; each population keeps as many of the best as it has room for."""
    for field in fields:
        score_first(field, field.descent)
        for start in range(0, field.sketch.size, BATCH_SIZE):
            numbers = np.arange(start, min(start + BATCH_SIZE, field.sketch.size), dtype=np.int64)
            field.population.add(numbered(field.sketch, numbers))


def _n_structures(sketch: Sketch) -> int:
    if sketch.nests is None or not sketch.size:
        return 0
    return math.prod(v.size for v in sketch.variables if v.kind is VariableKind.LOCATION)
