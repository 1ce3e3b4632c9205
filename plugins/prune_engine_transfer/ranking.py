"""Which re-fitted candidates are worth measuring first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from prune_engine.candidates import CandidateBatch
from prune_engine.space import DesignSpace, Int32Array
from prune_engine.strategies import Fitness
from prune_engine.verdicts import BoolArray, Float64Array
from prune_engine_transfer.donors import Donor

#: The policy that takes a schedule of this very kernel as it is.
COPY = "copy"
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

    Schedules of this very kernel come first, then those of this device; within these groups the fitness counts,
    less what the source's shape and rank are off. A schedule that was measured on this very kernel and device is
    kept whatever the rules say.
    """
    owners, rows = _distinct(refits)
    sketches = np.array([refits[owner].sketch_index for owner in owners], dtype=np.int64)
    judged = np.zeros(len(rows))
    for index in np.unique(sketches):
        here = np.flatnonzero(sketches == index)
        judged[here] = fitness(CandidateBatch(space, space.sketches[index], np.stack([rows[i] for i in here])))
    donors = [refits[owner].donor for owner in owners]
    is_known: BoolArray = np.array([_is_known(refits[owner]) for owner in owners], dtype=np.bool_)
    keep = (judged > 0) | is_known
    expected = np.log(np.maximum(judged, np.finfo(np.float64).tiny)) - _penalties(donors)
    # Of this kernel's own schedules the source has measured which is best, so that nothing has to be guessed.
    expected[is_known] = [-donors[i].entry.rank for i in np.flatnonzero(is_known).tolist()]
    expected = np.concatenate([expected[keep], _of_rewrites(rewrites, donors, expected, keep)])
    found: list[Refitted | Rewrite] = [
        *(Refitted(refits[owners[i]], rows[i]) for i in np.flatnonzero(keep)),
        *rewrites,
    ]
    far = np.array([not _donor(one).is_here for one in found], dtype=np.bool_)
    guessed = np.concatenate([~is_known[keep], np.ones(len(rewrites), dtype=np.bool_)])
    order = np.lexsort((-expected, far, guessed))[:limit]
    return Ranking(tuple(found[i] for i in order), len(rows) - int(keep.sum()))


def _is_known(refit: Refit) -> bool:
    return refit.policy == COPY and refit.donor.is_here


def _donor(one: Refitted | Rewrite) -> Donor:
    return one.donor if isinstance(one, Rewrite) else one.refit.donor


def _penalties(donors: Sequence[Donor]) -> Float64Array:
    """What the donors' shapes and ranks cost, in ln(fitness), float64 (n,)."""
    return np.array([_PER_OCTAVE * donor.shape_distance + _PER_RANK * donor.entry.rank for donor in donors])


def _of_rewrites(
    rewrites: Sequence[Rewrite], donors: Sequence[Donor], expected: Float64Array, keep: BoolArray
) -> Float64Array:
    """What is expected of rewritten traces, float64 (n,): what is of the donor's best candidate, less the waste."""
    best: dict[str, float] = {}
    for i in np.flatnonzero(keep).tolist():
        identity = donors[i].entry.entry_id
        best[identity] = max(best.get(identity, -np.inf), float(expected[i]))
    lowest = min(best.values(), default=0.0)
    return np.array([best.get(r.donor.entry.entry_id, lowest) + np.log(r.useful_share) for r in rewrites])


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
