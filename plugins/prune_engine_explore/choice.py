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


@dataclass(frozen=True, slots=True)
class _Scored:
    """Candidates of all sketches side by side: candidate i is row ``at[i]`` of ``rows[owners[i]]``."""

    rows: Sequence[Int32Array]
    owners: NDArray[np.int64]
    at: NDArray[np.int64]
    scores: Float64Array
    is_descent: BoolArray
    coarse: NDArray[np.uint64]


def chosen_rows(fields: Sequence[Field], n: int) -> list[Int32Array]:
    """At most ``n`` candidates not measured yet, int32 (m, v) for each field, best first."""
    scored = _joined(fields)
    ranked = np.argsort(-scored.scores, kind="stable")
    is_chosen = np.zeros(len(ranked), dtype=np.bool_)

    def take(positions: NDArray[np.int64], k: int) -> None:
        room = max(min(k, n - int(is_chosen.sum())), 0)
        is_chosen[positions[~is_chosen[positions]][:room]] = True

    for number in range(len(fields)):
        take(ranked[scored.owners[ranked] == number], int(n * _PER_SKETCH) // len(fields))
    take(ranked[scored.is_descent[ranked]], int(n * _DESCENT))
    take(ranked, n - int(is_chosen.sum()) - int(n * _VARIED))
    take(_varied(scored, ranked), n)
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
    _, kinds = np.unique(scored.coarse[ranked], return_inverse=True)
    order = np.argsort(kinds, kind="stable")  # by kind, best first within it
    counts = np.bincount(kinds)
    place = np.empty(len(ranked), dtype=np.int64)
    place[order] = np.arange(len(ranked)) - np.repeat(np.cumsum(counts) - counts, counts)
    found: NDArray[np.int64] = ranked[np.argsort(-scored.scores[ranked] / (1 + place), kind="stable")]
    return found


def _joined(fields: Sequence[Field]) -> _Scored:
    rows, parts = [], []
    for number, field in enumerate(fields):
        population, descent = field.population, row_keys(field.descent)
        extra = np.flatnonzero(~np.isin(descent, population.keys))  # not good enough for the population
        keys = np.concatenate([population.keys, descent[extra]])
        scores = np.concatenate([population.scores, field.descent_scores[extra]])
        rows.append(np.concatenate([population.rows, field.descent[extra]]))
        at = np.flatnonzero(~field.memory.measured.holds(keys))
        coarse = _coarse_keys(field.sketch, rows[-1][at], number)
        parts.append((np.full(len(at), number), at, scores[at], np.isin(keys[at], descent), coarse))
    return _Scored(rows, *(np.concatenate(column) for column in zip(*parts, strict=True)))


def _coarse_keys(sketch: Sketch, rows: Int32Array, number: int) -> NDArray[np.uint64]:
    """The same for candidates of a sketch that agree in outermost and innermost factors and in locations."""
    columns = [np.full(len(rows), number, dtype=np.int32)]
    for v, variable in enumerate(sketch.variables):
        values = variable.table[rows[:, v]]
        if variable.kind is VariableKind.TILE:
            columns += [values[:, 0], values[:, -1]]
        elif variable.kind is VariableKind.LOCATION:
            columns.append(values[:, 0] + 2)  # locations start at -2
    return row_keys(np.stack(columns, axis=1))
