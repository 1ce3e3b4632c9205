"""Which re-fitted candidates are worth measuring first."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from prune_engine.candidates import CandidateBatch
from prune_engine.space import DesignSpace, Int32Array
from prune_engine.strategies import Fitness
from prune_engine.verdicts import BoolArray, Float64Array
from prune_engine_transfer.donors import Donor

#: What one octave of difference in shape, and one place in the source's own ranking, cost in ln(fitness).
_PER_OCTAVE, _PER_RANK = 0.05, 0.05


@dataclass(frozen=True, slots=True)
class Refit:
    """Candidates of one sketch that come of one entry by one policy: ``rows`` int32 (n, v)."""

    donor: Donor
    sketch_index: int
    policy: str
    rows: Int32Array


@dataclass(frozen=True, slots=True)
class Ranked:
    """Distinct candidates of all sketches, best first.

    Position i is row ``rows[i]`` of sketch ``sketches[i]``, of ``refits[origins[i]]``. ``fitness`` float64 (n,).
    """

    sketches: NDArray[np.int64]
    rows: tuple[Int32Array, ...]
    origins: NDArray[np.int64]
    fitness: Float64Array

    def __len__(self) -> int:
        return len(self.rows)


def ranked(refits: list[Refit], space: DesignSpace, fitness: Fitness) -> tuple[Ranked, int]:
    """Rank candidates by what is expected of them; also say how many were left out because a rule drops them.

    Of equal candidates the first counts, so the order of ``refits`` says which source and policy have the credit.
    Schedules of this very kernel come first, then those of this device; within these groups the fitness counts,
    less what the source's shape and rank are off. A schedule that was measured on this very kernel and device is
    kept whatever the rules say.
    """
    owners, rows = _distinct(refits)
    judged = np.zeros(len(rows))
    sketches = np.array([refits[owner].sketch_index for owner in owners], dtype=np.int64)
    for index in np.unique(sketches):
        here = np.flatnonzero(sketches == index)
        batch = CandidateBatch(space, space.sketches[index], np.stack([rows[i] for i in here]))
        judged[here] = fitness(batch)
    donors = [refits[owner].donor for owner in owners]
    is_known: BoolArray = np.array([d.is_same_kernel and d.is_here for d in donors], dtype=np.bool_)
    keep = np.flatnonzero((judged > 0) | is_known)
    penalty = np.array([_PER_OCTAVE * d.shape_distance + _PER_RANK * d.entry.rank for d in donors])
    expected = np.log(np.maximum(judged, np.finfo(np.float64).tiny)) - penalty
    is_here = np.array([d.is_here for d in donors], dtype=np.bool_)
    ranks = np.array([d.entry.rank for d in donors])
    # A copy of this kernel's own schedules is not to be judged by guesses: the source measured which is best.
    expected[is_known] = -ranks[is_known]
    order = keep[np.lexsort((-expected[keep], ~is_here[keep], ~is_known[keep]))]
    ranking = Ranked(sketches[order], tuple(rows[i] for i in order), owners[order], judged[order])
    return ranking, len(rows) - len(keep)


def _distinct(refits: list[Refit]) -> tuple[NDArray[np.int64], list[Int32Array]]:
    seen: set[tuple[int, bytes]] = set()
    owners: list[int] = []
    rows: list[Int32Array] = []
    for number, refit in enumerate(refits):
        for row in np.ascontiguousarray(refit.rows):
            key = refit.sketch_index, row.tobytes()
            if key not in seen:
                seen.add(key)
                owners.append(number)
                rows.append(row)
    return np.array(owners, dtype=np.int64), rows
