"""Random draws from a sketch's choice tables, aligned choices first."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from prune_engine.candidates import CandidateBatch
from prune_engine.space import DesignSpace, Int32Array, Sketch, Variable, VariableKind
from prune_engine_explore.structures import Structures

#: Symbol of candidates whose decisions are those that run; others are repaired into ones that may be drawn anyway.
CANONICAL = "is_canonical"
#: Structures in one draw: each costs as much as some hundred candidates, every time.
FEW_STRUCTURES = 3
#: Share of draws that takes its aligned choices only.
_ALIGNED_SHARE = 0.5
#: Tiles whose innermost factors are multiples of up to this power of two fill vectors of every width there is.
_LANES = 16


def drawn_rows(
    sketch: Sketch, structures: Structures, n: int, rng: np.random.Generator, *, n_structures: int = FEW_STRUCTURES
) -> Int32Array:
    """``n`` candidates drawn with replacement, int32 (n, v), half of them aligned.

    Their structures are at most ``n_structures`` of those that are open.
    """
    n_aligned = int(n * _ALIGNED_SHARE)
    indices = np.empty((n, len(sketch.variables)), dtype=np.int32)
    for v, variable in enumerate(sketch.variables):
        indices[:n_aligned, v] = _draw(aligned_rows(variable), n_aligned, rng)
        indices[n_aligned:, v] = _draw(variable.rows, n - n_aligned, rng)
    structures.impose(indices, rng, n_structures)
    return indices


def aligned_rows(variable: Variable) -> Int32Array:
    """The allowed choices that use vectors and cache lines whole, int32 (r,); all where that means nothing."""
    subject = variable.subject
    if variable.kind is not VariableKind.TILE or subject is None or not subject.is_contiguous:
        return variable.rows
    innermost = variable.table[variable.rows, -1]
    powers = np.minimum(innermost & -innermost, _LANES)  # the largest power of two that divides it
    rows: Int32Array = variable.rows[powers == powers.max()]
    return rows


def that_run(space: DesignSpace, sketch: Sketch, indices: Int32Array) -> Int32Array:
    """Those candidates whose decisions are the ones that run; all where that cannot be told."""
    batch = CandidateBatch(space, sketch, indices)
    if batch.is_opaque or CANONICAL not in space.symbols:
        return indices
    return np.ascontiguousarray(indices[batch.symbol(CANONICAL) != 0])


def _draw(rows: Int32Array, n: int, rng: np.random.Generator) -> NDArray[np.int32]:
    return rows[rng.integers(len(rows), size=n)]
