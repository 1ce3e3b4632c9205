"""Which of the scored candidates are proposed: the best, and for variety some that are not quite."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from prune_engine.space import BoolArray, Int32Array, Sketch, VariableKind
from prune_engine.verdicts import Float64Array
from prune_engine_explore.keys import row_keys
from prune_engine_explore.search import Field

#: Shares of a proposal that are set aside: for all sketches alike, for steps from incumbents, for variety.
_PER_SKETCH, _DESCENT, _VARIED = 0.25, 0.25, 0.125
#: The most that candidates of one structure may have: fitness errs alike for all of them.
_MOST_OF_STRUCTURE = 0.1875


@dataclass(frozen=True, slots=True)
class _Scored:
    """Candidates of all sketches side by side: candidate i is row ``at[i]`` of ``rows[owners[i]]``."""

    rows: Sequence[Int32Array]
    owners: NDArray[np.int64]
    at: NDArray[np.int64]
    scores: Float64Array
    is_descent: BoolArray
    kinds: NDArray[np.uint64]
    structures: NDArray[np.uint64]


def chosen_rows(fields: Sequence[Field], n: int) -> list[Int32Array]:
    """At most ``n`` candidates not measured yet, int32 (m, v) for each field, best first.

    No structure has more than its share, so that fewer than ``n`` are chosen where few structures are good.
    """
    scored = _joined(fields)
    ranked = np.argsort(-scored.scores, kind="stable")
    share = _MOST_OF_STRUCTURE if len(np.unique(scored.structures)) > 1 else 1.0
    is_free = _places(scored.structures, ranked) < max(1, int(n * share))
    is_chosen = np.zeros(len(ranked), dtype=np.bool_)

    def take(positions: NDArray[np.int64], k: int) -> None:
        room = max(min(k, n - int(is_chosen.sum())), 0)
        is_chosen[positions[~is_chosen[positions]][:room]] = True

    take(ranked[scored.is_descent[ranked]], int(n * _DESCENT))
    free = ranked[is_free[ranked]]
    for number in range(len(fields)):
        take(free[scored.owners[free] == number], int(n * _PER_SKETCH) // len(fields))
    take(free, n - int(is_chosen.sum()) - int(n * _VARIED))
    take(_varied(scored, free), n)
    take(ranked, n // 2 - int(is_chosen.sum()))
    kept = ranked[is_chosen[ranked]]
    return [
        np.ascontiguousarray(rows[scored.at[kept[scored.owners[kept] == number]]])
        for number, rows in enumerate(scored.rows)
    ]


def _varied(scored: _Scored, ranked: NDArray[np.int64]) -> NDArray[np.int64]:
    """Positions by score divided by the number of better candidates of the same coarse kind, plus one.

    After the structural hashing of Adams et al., Learning to Optimize Halide with Tree Search and Random
    Programs (2019): copies of the best make room for others.
    """
    worth = scored.scores / (1 + _places(scored.kinds, ranked))
    found: NDArray[np.int64] = ranked[np.argsort(-worth[ranked], kind="stable")]
    return found


def _places(groups: NDArray[np.uint64], ranked: NDArray[np.int64]) -> NDArray[np.int64]:
    """The place of each candidate in its group, 0 for the best, int64 (n,); 0 for those that are not ranked."""
    _, numbers = np.unique(groups[ranked], return_inverse=True)
    order = np.argsort(numbers, kind="stable")  # by group, best first within it
    counts = np.bincount(numbers)
    places = np.zeros(len(groups), dtype=np.int64)
    places[ranked[order]] = np.arange(len(ranked)) - np.repeat(np.cumsum(counts) - counts, counts)
    return places


def _joined(fields: Sequence[Field]) -> _Scored:
    rows, parts = [], []
    for number, field in enumerate(fields):
        population, descent = field.population, row_keys(field.descent)
        extra = np.flatnonzero(~np.isin(descent, population.keys))  # not good enough for the population
        keys = np.concatenate([population.keys, descent[extra]])
        scores = np.concatenate([population.scores, field.descent_scores[extra]])
        rows.append(np.concatenate([population.rows, field.descent[extra]]))
        at = np.flatnonzero(~field.memory.measured.holds(keys))
        groups = _group_keys(field.sketch, rows[-1][at], number)
        parts.append((np.full(len(at), number), at, scores[at], np.isin(keys[at], descent), *groups))
    return _Scored(rows, *(np.concatenate(column) for column in zip(*parts, strict=True)))


def _group_keys(sketch: Sketch, rows: Int32Array, number: int) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    """What kind candidates are of (structure, outermost and innermost factors), and what structure they have."""
    structure, factors = [np.full(len(rows), number, dtype=np.int32)], []
    for v, variable in enumerate(sketch.variables):
        if variable.kind is VariableKind.TILE:
            factors += [variable.table[rows[:, v], 0], variable.table[rows[:, v], -1]]
        elif variable.kind is VariableKind.LOCATION:
            structure.append(rows[:, v])
    return row_keys(np.stack([*structure, *factors], axis=1)), row_keys(np.stack(structure, axis=1))
