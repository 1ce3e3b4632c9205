"""Which re-fitted candidates are worth measuring first."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from prune_engine.candidates import CandidateBatch
from prune_engine.space import DesignSpace, Int32Array
from prune_engine.strategies import Fitness
from prune_engine.verdicts import BoolArray, Float64Array
from prune_engine_transfer.ceiling import CEIL
from prune_engine_transfer.donors import Donor
from prune_engine_transfer.padding import PAD

#: The policy that takes a schedule of this very kernel as it is.
COPY = "copy"
#: How many candidates of the space there are for each rewritten trace.
_PERIODS = {PAD: 1, CEIL: 7}
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
class Rewrite:
    """A trace rewritten for this kernel. ``useful_share`` of what it computes is wanted."""

    donor: Donor
    policy: str
    trace_json: str
    useful_share: float


@dataclass(frozen=True, slots=True)
class Refitted:
    """One of the candidates of ``refit``: ``row`` int32 (v,)."""

    refit: Refit
    row: Int32Array


@dataclass(frozen=True, slots=True)
class Ranking:
    """What is worth measuring, best first, and how many distinct candidates a rule drops."""

    order: tuple[Refitted | Rewrite, ...]
    n_dropped: int


def ranked(
    refits: Sequence[Refit], rewrites: Sequence[Rewrite], space: DesignSpace, fitness: Fitness, limit: int
) -> Ranking:
    """The best ``limit``. Of equal candidates the first has the credit.

    Schedules of this very kernel come first, whatever the rules say of them: they were measured. Candidates of the
    space are ordered by fitness, less what the source's shape and rank are off, those of this device before others;
    rewritten traces, which nothing can judge, by what the source reached times the useful share.
    """
    candidates, n_known, n_dropped = _of_the_space(refits, space, fitness)
    return Ranking(_interleaved(candidates, n_known, _of_rewrites(rewrites))[:limit], n_dropped)


def _of_the_space(refits: Sequence[Refit], space: DesignSpace, fitness: Fitness) -> tuple[list[Refitted], int, int]:
    """Candidates of the space, best first; how many were measured on this very kernel, and how many are dropped."""
    owners, rows = _distinct(refits)
    sketches = np.array([refits[owner].sketch_index for owner in owners], dtype=np.int64)
    judged = np.zeros(len(rows))
    for index in np.unique(sketches):
        here = np.flatnonzero(sketches == index)
        judged[here] = fitness(CandidateBatch(space, space.sketches[index], np.stack([rows[i] for i in here])))
    donors = [refits[owner].donor for owner in owners]
    is_known: BoolArray = np.array([_is_known(refits[owner]) for owner in owners], dtype=np.bool_)
    keep: BoolArray = (judged > 0) | is_known
    expected = np.log(np.maximum(judged, np.finfo(np.float64).tiny)) - _penalties(donors)
    # Of this kernel's own schedules the source has measured which is best, so that nothing has to be guessed.
    expected[is_known] = [-donors[i].entry.rank for i in np.flatnonzero(is_known).tolist()]
    is_far: BoolArray = np.array([not donor.is_here for donor in donors], dtype=np.bool_)
    order = [i for i in np.lexsort((-expected, is_far, ~is_known)).tolist() if keep[i]]
    return [Refitted(refits[owners[i]], rows[i]) for i in order], int(is_known.sum()), len(rows) - len(order)


def _of_rewrites(rewrites: Sequence[Rewrite]) -> list[Rewrite]:
    """Distinct rewritten traces, best first."""
    distinct = list({rewrite.trace_json: rewrite for rewrite in reversed(rewrites)}.values())
    penalties = _penalties([rewrite.donor for rewrite in distinct])
    reached = np.array([rewrite.donor.entry.flop_per_sec * rewrite.useful_share for rewrite in distinct])
    is_far = np.array([not rewrite.donor.is_here for rewrite in distinct], dtype=np.bool_)
    expected = np.log(np.maximum(reached, 1.0)) - penalties
    return [distinct[i] for i in np.lexsort((-expected, is_far)).tolist()]


def _interleaved(
    candidates: Sequence[Refitted], n_known: int, rewrites: Sequence[Rewrite]
) -> tuple[Refitted | Rewrite, ...]:
    """What was measured on this kernel, then candidates with rewritten traces in between.

    A trace is padded only where the space has nothing like it, and then is mostly better than all of the space:
    every other place is one. Rounding up rarely wins: every eighth place.
    """
    rest: list[tuple[float, Refitted | Rewrite]] = [(float(n), one) for n, one in enumerate(candidates[n_known:])]
    for policy, period in _PERIODS.items():
        places = (period * n - 0.5 if policy == PAD else period * (n + 1) - 0.5 for n in itertools.count())
        rest += zip(places, (one for one in rewrites if one.policy == policy), strict=False)
    rest.sort(key=lambda placed: placed[0])
    return (*candidates[:n_known], *(one for _, one in rest))


def _is_known(refit: Refit) -> bool:
    return refit.policy == COPY and refit.donor.is_here


def _penalties(donors: Sequence[Donor]) -> Float64Array:
    """What the donors' shapes and ranks cost, in ln(fitness), float64 (n,)."""
    return np.array([_PER_OCTAVE * donor.shape_distance + _PER_RANK * donor.entry.rank for donor in donors])


def _distinct(refits: Sequence[Refit]) -> tuple[list[int], list[Int32Array]]:
    """The first of equal candidates: the number of its refit, and its row."""
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
    return owners, rows
