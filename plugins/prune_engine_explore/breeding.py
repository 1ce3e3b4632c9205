"""New candidates out of good ones: small steps, re-draws, crossover."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from prune_engine.space import Int32Array, Sketch
from prune_engine_explore.neighbours import Neighbours
from prune_engine_explore.structures import Structures

#: Share of mutations that draw the variable anew; the others go one step.
_REDRAWN = 0.25
#: Share of offspring of two parents.
_CROSSED = 0.3
#: Chance that a mutant is mutated in one more variable, each time.
_AGAIN = 0.5
_MAX_MUTATIONS = 3


def offspring(
    sketch: Sketch,
    mothers: Int32Array,
    fathers: Int32Array,
    steps: Sequence[Neighbours],
    structures: Structures,
    rng: np.random.Generator,
) -> Int32Array:
    """A child of each pair, int32 (n, v): of both for some, and mutated where it is not.

    Its compute locations are a combination that is open, else its mother's.
    """
    n, n_variables = mothers.shape
    children: Int32Array = mothers.copy()
    is_crossed = rng.random(n) < _CROSSED
    take = rng.random((n, n_variables)) < 0.5
    take[~is_crossed] = False
    children[take] = fathers[take]
    movable = np.array([v for v, variable in enumerate(sketch.variables) if variable.size > 1], dtype=np.int64)
    if len(movable):
        pending = np.flatnonzero(~is_crossed | (rng.random(n) < 0.5))
        for _ in range(_MAX_MUTATIONS):
            _mutate(children, pending, movable[rng.integers(len(movable), size=len(pending))], sketch, steps, rng)
            pending = pending[rng.random(len(pending)) < _AGAIN]
    structures.clamp(children, mothers)
    return children


def _mutate(
    children: Int32Array,
    which: np.ndarray,
    variables: np.ndarray,
    sketch: Sketch,
    steps: Sequence[Neighbours],
    rng: np.random.Generator,
) -> None:
    """Change variable ``variables[i]`` of child ``which[i]``, in place."""
    for v in np.unique(variables):
        at = which[variables == v]
        choices = sketch.variables[v].rows
        stepped = steps[v].drawn(children[at, v], rng)
        anew = choices[rng.integers(len(choices), size=len(at))]
        children[at, v] = np.where(rng.random(len(at)) < _REDRAWN, anew, stepped)
