"""Columns of one statement's loops for n candidates, float32 (n,): extents, kinds, spans at all depths at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from prune_engine.symbols.loop_nest import LoopKind
from prune_engine_draft.cpu_plan import Float32Array, Reach, StatementPlan, Term


@dataclass(frozen=True, slots=True)
class LoopColumns:
    """``extents`` float32 (loops, n), ``unroll_steps`` float32 (n,), ``kinds`` int64 (n,) of loops that differ in it."""

    plan: StatementPlan
    extents: Float32Array
    unroll_steps: Float32Array
    kinds: dict[int, NDArray[np.int64]]

    @property
    def n(self) -> int:
        """How many candidates there are."""
        return self.extents.shape[1]

    def is_kind(self, loop: int, *kinds: LoopKind) -> NDArray[np.bool_] | bool:
        """Whether a loop is of one of these kinds."""
        known = self.plan.kinds[loop]
        if known is not None:
            return known in kinds
        column = self.kinds[loop]
        found = column == kinds[0]
        for kind in kinds[1:]:
            found |= column == kind
        return found


def loop_columns(plan: StatementPlan, columns: Sequence[NDArray[np.int64]]) -> LoopColumns:
    """Take a statement's columns out of those of its nest."""
    mine = columns[plan.first_column :]
    n = len(mine[0])
    extents = np.empty((plan.n_loops, n), dtype=np.float32)
    for d in range(plan.n_loops):
        extents[d] = mine[1 + d]
    kinds = {d: mine[at] for d, at in plan.kind_columns.items()}
    return LoopColumns(plan, extents, mine[0].astype(np.float32), kinds)


def spans(loops: LoopColumns) -> list[Float32Array]:
    """Values that each iterator takes from each depth inwards, float32 (loops + 1, n) per iterator."""
    n_depths = loops.plan.n_loops + 1
    found = []
    for terms, extent in zip(loops.plan.terms, loops.plan.extents, strict=True):
        span = np.ones((n_depths, loops.n), dtype=np.float32)
        for term in terms:
            if term.modulus is None:
                for d in term.loops:
                    span[: d + 1] *= loops.extents[d]
            else:
                span *= _digits(term, loops, n_depths)
                if extent is not None:
                    np.minimum(span, extent, out=span)
        found.append(span)
    return found


def _digits(term: Term, loops: LoopColumns, n_depths: int) -> Float32Array:
    window = np.ones((n_depths, loops.n), dtype=np.float32)
    for d in term.loops:
        window[: d + 1] *= loops.extents[d]
    if term.divisor != 1:
        window = np.ceil(window / np.float32(term.divisor))
    if term.modulus is not None:
        np.minimum(window, np.float32(term.modulus), out=window)
    return window


def reach(dimension: Reach, taken: Sequence[Float32Array]) -> Float32Array | np.float32:
    """Elements along a dimension between the first and the last that is touched, given values per iterator."""
    if not dimension.is_affine:
        return np.float32(dimension.size)
    if len(dimension.iterators) == 1 and dimension.iterators[0][1] == 1 and dimension.width == 1:
        return taken[dimension.iterators[0][0]]
    total: Float32Array | np.float32 = np.float32(dimension.width)
    for iterator, step in dimension.iterators:
        total = total + np.float32(step) * (taken[iterator] - np.float32(1))
    return np.minimum(total, np.float32(dimension.size)) if dimension.iterators else total
