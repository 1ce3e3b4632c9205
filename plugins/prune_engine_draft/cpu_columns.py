"""Columns of one statement's loops for n candidates, float32 (n,): extents, kinds, spans at all depths at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from prune_engine.symbols.loop_nest import LoopKind
from prune_engine_draft.cpu_plan import Float32Array, NestPlan, Reach, StatementPlan, Term

BoolArray = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class LoopColumns:
    """What differs between candidates in one statement's loops.

    ``extents`` float32 (loops, n), ``many`` bool (loops, n) where a loop has more than one turn, ``unroll_steps``
    float32 (n,), ``kinds`` by loop bool (n,), or a plain bool where all candidates agree; ``parallel_turns``
    float32 (n,) of all parallel loops together.
    """

    plan: StatementPlan
    extents: Float32Array
    many: BoolArray
    unroll_steps: Float32Array
    is_vector: tuple[BoolArray | bool, ...]
    is_parallel: tuple[BoolArray | bool, ...]
    parallel_turns: Float32Array

    @property
    def n(self) -> int:
        """How many candidates there are."""
        return len(self.unroll_steps)


class NestColumns:
    """The columns of a nest's statements: what they have in common is converted once."""

    def __init__(self, plan: NestPlan, columns: Sequence[NDArray[np.int64]]) -> None:
        """``columns`` are those of the plan's expressions, int64 (n,) each."""
        self._plan, self._columns = plan, columns
        self._turns: dict[tuple[int, ...], Float32Array] = {}
        self._masks: dict[tuple[int, LoopKind], BoolArray] = {}

    def loops_of(self, plan: StatementPlan) -> LoopColumns:
        """Those of one statement."""
        n = len(self._columns[0])
        extents = np.empty((plan.n_loops, n), dtype=np.float32)
        for d, column in enumerate(plan.extent_columns):
            extents[d] = self._columns[column]
        is_parallel = tuple(self._is(plan, d, LoopKind.PARALLEL) for d in range(plan.n_loops))
        return LoopColumns(
            plan=plan,
            extents=extents,
            many=extents > 1,
            unroll_steps=self._columns[plan.unroll_column].astype(np.float32),
            is_vector=tuple(self._is(plan, d, LoopKind.VECTORIZED) for d in range(plan.n_loops)),
            is_parallel=is_parallel,
            parallel_turns=self._parallel_turns(plan, extents, is_parallel),
        )

    def _is(self, plan: StatementPlan, loop: int, kind: LoopKind) -> BoolArray | bool:
        known = plan.kinds[loop]
        if known is not None:
            return known is kind
        key = plan.kind_columns[loop], kind
        if key not in self._masks:
            self._masks[key] = self._columns[key[0]] == int(kind)
        return self._masks[key]

    def _parallel_turns(
        self, plan: StatementPlan, extents: Float32Array, is_parallel: Sequence[BoolArray | bool]
    ) -> Float32Array:
        loops = [d for d, found in enumerate(is_parallel) if found is not False]
        key = tuple(plan.extent_columns[d] for d in loops) + tuple(plan.kind_columns.get(d, -1) for d in loops)
        if key not in self._turns:
            turns = np.ones(extents.shape[1], dtype=np.float32)
            for d in loops:
                turns = turns * np.maximum(extents[d] * is_parallel[d], np.float32(1))
            self._turns[key] = turns
        return self._turns[key]


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


def reach(dimension: Reach, taken: Sequence[Float32Array]) -> Float32Array:
    """Elements along a dimension between the first and the last that is touched, given values per iterator."""
    if not dimension.is_affine:
        return np.full((1, 1), dimension.size, dtype=np.float32)
    if len(dimension.iterators) == 1 and dimension.iterators[0][1] == 1 and dimension.width == 1:
        return taken[dimension.iterators[0][0]]
    if not dimension.iterators:
        return np.full((1, 1), dimension.width, dtype=np.float32)
    total: Float32Array = np.full_like(taken[0], dimension.width)
    for iterator, step in dimension.iterators:
        total += np.float32(step) * (taken[iterator] - np.float32(1))
    np.minimum(total, np.float32(dimension.size), out=total)
    return total
