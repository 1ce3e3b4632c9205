"""Policies: how the decisions of one kernel become candidates of another."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from prune_engine.space import Int32Array, Variable, VariableKind
from prune_engine.verdicts import Float64Array
from prune_engine_transfer.matching import Match
from prune_engine_transfer.rows import extent_of, nearest_choice, nearest_tiles, repaired, spread

REPAIR, NEAREST = "repair", "nearest"

#: Rows taken of each tile: the nearest to the factors, and the nearest to the rescaled ones.
_N_NEAREST = 4
#: Candidates of one entry in one sketch.
_N_COMBINED = 32
#: Rows tried of a variable that the entry says nothing about.
_N_OPEN = 8

#: Rows of one variable with their distances to what was wanted, or why there is none.
_Options = tuple[Int32Array, Float64Array]


@dataclass(frozen=True, slots=True)
class Refitted:
    """Candidates of a sketch, ``rows`` int32 (n, v), nearest first, with their distances, float64 (n,)."""

    rows: Int32Array
    distances: Float64Array


def refitted(match: Match, policy: str) -> Refitted | str:
    """An entry's decisions as candidates of a sketch by one policy, or why that is not possible."""
    tiles = _POLICIES[policy]
    options: list[_Options] = []
    for variable, choice in zip(match.sketch.variables, match.choices, strict=True):
        if not variable.size:
            return "rules leave nothing of the sketch"
        if choice is None:
            rows = spread(variable, _N_OPEN)
            options.append((rows, np.zeros(len(rows))))
        elif variable.kind is VariableKind.TILE:
            found = tiles(variable, choice.values)
            if isinstance(found, str):
                return found
            options.append(found)
        else:
            options.append((np.array([nearest_choice(variable, choice.values)], dtype=np.int32), np.zeros(1)))
    return Refitted(*_combined(options))


def _repair(variable: Variable, factors: tuple[int, ...]) -> _Options | str:
    row = variable.index_of(repaired(factors, extent_of(variable)))
    if row is None:
        return "breaks the limit on innermost factors"
    if row not in variable.rows:
        return "a rule cut the factors"
    return np.array([row], dtype=np.int32), np.zeros(1)


def _nearest(variable: Variable, factors: tuple[int, ...]) -> _Options | str:
    return nearest_tiles(variable, factors, _N_NEAREST)


def _combined(options: Sequence[_Options]) -> tuple[Int32Array, Float64Array]:
    """The combinations with the smallest sums of distances, int32 (n, v), and those sums."""
    rows, sums = np.empty((1, 0), dtype=np.int32), np.zeros(1)
    for choices, distances in options:
        # Distances are not negative, so the best combinations continue the best of the variables before.
        totals = (sums[:, None] + distances[None, :]).ravel()
        best = np.argsort(totals, kind="stable")[:_N_COMBINED]
        before, chosen = np.divmod(best, len(choices))
        rows = np.column_stack([rows[before], choices[chosen]]).astype(np.int32)
        sums = totals[best]
    return rows, sums


_POLICIES: dict[str, Callable[[Variable, tuple[int, ...]], _Options | str]] = {REPAIR: _repair, NEAREST: _nearest}
