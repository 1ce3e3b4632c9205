"""Decisions of other kernels as rows of a variable's choice table."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from prune_engine.candidates import Decision
from prune_engine.space import Int32Array, Variable, VariableKind
from prune_engine.verdicts import Float64Array

#: How much more than other factors the vectorised one must stay what it was.
_VECTOR_WEIGHT = 3.0


def repaired(factors: Sequence[int], extent: int) -> Decision:
    """Factors of another extent as TVM makes them fit on replay.

    From the innermost outwards, a factor that does not divide what is left becomes all of it; the outermost is what
    is left in the end (apache/tvm, SamplePerfectTile with a decision in sampling.cc). The limit on the innermost
    factor is not looked at.
    """
    left, fitted = extent, []
    for factor in reversed(factors[1:]):
        part = factor if left % factor == 0 else left
        fitted.append(part)
        left //= part
    return (left, *reversed(fitted))


def extent_of(variable: Variable) -> int:
    """What a tile variable splits."""
    return int(np.prod(variable.table[0], dtype=np.int64))


def nearest_tiles(variable: Variable, factors: Decision, n: int) -> tuple[Int32Array, Float64Array]:
    """Allowed rows near a tile of another extent, int32 (k,), with their distances, float64 (k,), nearest first.

    The ``n`` nearest to the factors as they are, and the ``n`` nearest to them rescaled to this extent. The
    distance is the sum of |ln| of the ratios of all factors but the outermost, which follows from the others; the
    innermost of a contiguous axis, which is vectorised, counts ``_VECTOR_WEIGHT`` times.
    """
    weights = np.ones(len(factors) - 1)
    if variable.subject is not None and variable.subject.is_contiguous:
        weights[-1:] = _VECTOR_WEIGHT
    inner = np.log(variable.table[variable.rows, 1:])
    ratio = extent_of(variable) / float(np.prod(np.array(factors, dtype=np.float64)))
    own = np.array(factors[1:], dtype=np.float64)
    found: dict[int, float] = {}
    for wanted in (own, np.maximum(own * ratio ** (1 / len(factors)), 1.0)):
        distances = np.abs(inner - np.log(wanted)) @ weights
        for at in np.argsort(distances, kind="stable")[:n].tolist():
            found[at] = min(found.get(at, np.inf), float(distances[at]))
    order = sorted(found, key=lambda at: (found[at], at))
    return variable.rows[order], np.array([found[at] for at in order])


def nearest_choice(variable: Variable, values: Decision) -> int:
    """The allowed row of a categorical or location that comes nearest to a value.

    A location that does not exist becomes the next one outwards that does.
    """
    offered = variable.table[variable.rows, 0]
    if variable.kind is VariableKind.LOCATION:
        outwards = np.flatnonzero(offered <= values[0])
        return int(variable.rows[outwards[-1] if len(outwards) else 0])
    distance = np.abs(np.log1p(np.maximum(offered, 0)) - np.log1p(max(values[0], 0)))
    return int(variable.rows[np.argmin(distance)])


def spread(variable: Variable, n: int) -> Int32Array:
    """At most ``n`` allowed rows, spread evenly over the table."""
    picks = np.unique(np.linspace(0, variable.size - 1, min(n, variable.size)).round().astype(np.int64))
    rows: Int32Array = variable.rows[picks]
    return rows
