"""Columns of one statement's loops for n candidates, float32 (n,): extents, kinds, spans at all depths at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from prune_engine.symbols.loop_nest import LoopKind
from prune_engine_draft.cpu_plan import Float32Array, Reach, StatementPlan, Term

BoolArray = NDArray[np.bool_]
Number = TypeVar("Number", np.int64, np.float32)


@dataclass(frozen=True, slots=True)
class LoopColumns:
    """What differs between candidates in one statement's loops.

    ``extents`` float32 (loops, n), ``many`` bool (loops, n) where a loop has more than one turn, ``unroll_steps``
    float32 (n,), ``kinds`` by loop bool (n,), or a plain bool where all candidates agree; ``parallel_turns``
    float32 (n,) of all parallel loops together. ``results_from`` is the plan's, int64 (n,), or the same for all,
    and ``reader_lanes`` float32 (n,) are the lanes by which the results are read: these differ between statements
    that are alike.
    """

    plan: StatementPlan
    extents: Float32Array
    many: BoolArray
    unroll_steps: Float32Array
    is_vector: tuple[BoolArray | bool, ...]
    is_parallel: tuple[BoolArray | bool, ...]
    parallel_turns: Float32Array
    results_from: NDArray[np.int64] | int
    reader_lanes: Float32Array

    @property
    def n(self) -> int:
        """How many candidates there are."""
        return len(self.unroll_steps)


#: A statement's plan, and the columns of its nest's expressions, int64 (n,) each.
Member = tuple[StatementPlan, Sequence[NDArray[np.int64]]]


def loops_of(members: Sequence[Member]) -> LoopColumns:
    """The columns of statements that are alike, those of one structure after the other, as of one statement."""
    plan = members[0][0]
    unroll_steps = _joined(members, [own.unroll_column for own, _ in members]).astype(np.float32)
    extents = np.empty((plan.n_loops, len(unroll_steps)), dtype=np.float32)
    kinds: list[NDArray[np.int64] | None] = []
    for d in range(plan.n_loops):
        extents[d] = _joined(members, [own.extent_columns[d] for own, _ in members])
        is_known = plan.kinds[d] is not None
        kinds.append(None if is_known else _joined(members, [own.kind_columns[d] for own, _ in members]))
    is_parallel = _are(plan, kinds, LoopKind.PARALLEL)
    turns = np.ones(len(unroll_steps), dtype=np.float32)
    for d, found in enumerate(is_parallel):
        if found is not False:
            turns = turns * np.maximum(extents[d] * found, np.float32(1))
    return LoopColumns(
        plan=plan,
        extents=extents,
        many=extents > 1,
        unroll_steps=unroll_steps,
        is_vector=_are(plan, kinds, LoopKind.VECTORIZED),
        is_parallel=is_parallel,
        parallel_turns=turns,
        results_from=_results_from(members),
        reader_lanes=_joined_columns([_reader_lanes(own, columns) for own, columns in members]),
    )


def _results_from(members: Sequence[Member]) -> NDArray[np.int64] | int:
    depths = [own.results_from for own, _ in members]
    if len(set(depths)) == 1:
        return depths[0]
    return np.repeat(
        np.array(depths, dtype=np.int64), [len(columns[own.unroll_column]) for own, columns in members]
    )


def _reader_lanes(plan: StatementPlan, columns: Sequence[NDArray[np.int64]]) -> Float32Array:
    """The widest vectors in which one structure's results are read, 1 where they are not."""
    widest = np.ones(len(columns[plan.unroll_column]), dtype=np.float32)
    for vectors in plan.readers:
        lanes = np.ones_like(widest)
        for extent, kind in vectors:
            is_vector = True if kind is None else columns[kind] == int(LoopKind.VECTORIZED)
            lanes *= np.maximum(columns[extent].astype(np.float32) * is_vector, np.float32(1))
        np.maximum(widest, lanes, out=widest)
    return widest


def _joined(members: Sequence[Member], numbers: Sequence[int]) -> NDArray[np.int64]:
    """One column of each member, by its number there, one after the other."""
    return _joined_columns([columns[number] for (_, columns), number in zip(members, numbers, strict=True)])


def _joined_columns(found: Sequence[NDArray[Number]]) -> NDArray[Number]:
    return found[0] if len(found) == 1 else np.concatenate(found)


def _are(
    plan: StatementPlan, kinds: Sequence[NDArray[np.int64] | None], kind: LoopKind
) -> tuple[BoolArray | bool, ...]:
    """By loop, where it is of a kind: bool (n,), or a plain bool where that is the same for all."""
    return tuple(
        known is kind if column is None else column == int(kind)
        for known, column in zip(plan.kinds, kinds, strict=True)
    )


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


def extent_where(condition: BoolArray | bool, extent: Float32Array) -> Float32Array:
    """The extent (>= 1) where a condition holds, else 1; a quarter of the time of ``np.where``."""
    found: Float32Array = np.maximum(extent * condition, np.float32(1))
    return found


def product(factors: Sequence[Float32Array], one: Float32Array) -> Float32Array:
    """Of columns that may be ``one`` itself, which costs nothing."""
    result = one
    for factor in factors:
        result = factor if result is one else result * factor
    return result
