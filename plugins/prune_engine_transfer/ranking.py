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
#: After how many candidates of the space the first rewritten trace comes, and each further one.
_PLACES = {PAD: (0, 1), CEIL: (7, 7)}
#: What it costs in ln(fitness) to be off the source's tiles (sum of |ln|), and what an octave of difference in
#: shape and a place in the source's own ranking do. By replay on matrix products and convolutions.
_PER_DISTANCE, _PER_OCTAVE, _PER_RANK = 0.2, 0.02, 0.02


@dataclass(frozen=True, slots=True)
class Refit:
    """Candidates of one sketch that come of one entry by one policy: ``rows`` int32 (n, v).

    ``distances`` float64 (n,): how far their tiles are from what the policy wants.
    """

    donor: Donor
    sketch_index: int
    policy: str
    rows: Int32Array
    distances: Float64Array


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

    Schedules of this very kernel come first, whatever the rules say of them: they were measured. Then those of this
    device, of others with the same instructions, and last of the rest. Candidates of the space are ordered by
    fitness, less what tiles and shape are off the source's; rewritten traces, which nothing can judge, by what the
    source reached times the useful share.
    """
    known, candidates, n_dropped = _of_the_space(refits, space, fitness)
    traces = _of_rewrites(rewrites)
    order: list[Refitted | Rewrite] = list(known)
    for strangeness in range(3):
        order += _interleaved(
            [one for one in candidates if one.refit.donor.strangeness == strangeness],
            [one for one in traces if one.donor.strangeness == strangeness],
        )
    return Ranking(tuple(order[:limit]), n_dropped)


def _of_the_space(
    refits: Sequence[Refit], space: DesignSpace, fitness: Fitness
) -> tuple[list[Refitted], list[Refitted], int]:
    """What was measured on this very kernel, other candidates of the space, best first; how many are dropped."""
    owners, rows, distances = _distinct(refits)
    sketches = np.array([refits[owner].sketch_index for owner in owners], dtype=np.int64)
    judged = np.zeros(len(rows))
    for index in np.unique(sketches):
        here = np.flatnonzero(sketches == index)
        judged[here] = fitness(CandidateBatch(space, space.sketches[index], np.stack([rows[i] for i in here])))
    donors = [refits[owner].donor for owner in owners]
    is_known: BoolArray = np.array([_is_known(refits[owner]) for owner in owners], dtype=np.bool_)
    expected = np.log(np.maximum(judged, np.finfo(np.float64).tiny))
    expected -= _penalties(donors) + _PER_DISTANCE * distances
    # Of this kernel's own schedules the source has measured which is best, so that nothing has to be guessed.
    known = sorted(np.flatnonzero(is_known).tolist(), key=lambda i: donors[i].entry.rank)
    others = [i for i in np.argsort(-expected, kind="stable").tolist() if judged[i] > 0 and not is_known[i]]
    first, then = ([Refitted(refits[owners[i]], rows[i]) for i in which] for which in (known, others))
    return first, then, len(rows) - len(first) - len(then)


def _of_rewrites(rewrites: Sequence[Rewrite]) -> list[Rewrite]:
    """Distinct rewritten traces, best first; of equal ones the first has the credit."""
    distinct = list({rewrite.trace_json: rewrite for rewrite in reversed(rewrites)}.values())[::-1]
    reached = np.array([rewrite.donor.entry.flop_per_sec * rewrite.useful_share for rewrite in distinct])
    expected = np.log(np.maximum(reached, 1.0)) - _penalties([rewrite.donor for rewrite in distinct])
    return [distinct[i] for i in np.argsort(-expected, kind="stable").tolist()]


def _interleaved(candidates: Sequence[Refitted], rewrites: Sequence[Rewrite]) -> list[Refitted | Rewrite]:
    """Candidates with rewritten traces in between.

    A trace is padded only where the space has nothing like it, and then is mostly better than all of the space:
    every other place is one. Rounding up rarely wins: every eighth place.
    """
    placed: list[tuple[float, Refitted | Rewrite]] = [(float(n), one) for n, one in enumerate(candidates)]
    for policy, (first, period) in _PLACES.items():
        places = (first + period * n - 0.5 for n in itertools.count())
        placed += zip(places, (one for one in rewrites if one.policy == policy), strict=False)
    placed.sort(key=lambda one: one[0])
    return [one for _, one in placed]


def _is_known(refit: Refit) -> bool:
    return refit.policy == COPY and refit.donor.is_here


def _penalties(donors: Sequence[Donor]) -> Float64Array:
    """What the donors' shapes and ranks cost, in ln(fitness), float64 (n,)."""
    return np.array([_PER_OCTAVE * donor.shape_distance + _PER_RANK * donor.entry.rank for donor in donors])


def _distinct(refits: Sequence[Refit]) -> tuple[list[int], list[Int32Array], Float64Array]:
    """The first of equal candidates: the number of its refit, its row, its distance."""
    seen: set[tuple[int, bytes]] = set()
    owners: list[int] = []
    rows: list[Int32Array] = []
    distances: list[float] = []
    for number, refit in enumerate(refits):
        for row, distance in zip(np.ascontiguousarray(refit.rows), refit.distances.tolist(), strict=True):
            key = refit.sketch_index, row.tobytes()
            if key not in seen:
                seen.add(key)
                owners.append(number)
                rows.append(row)
                distances.append(distance)
    return owners, rows, np.array(distances, dtype=np.float64)
