"""Candidates that only the compiler can judge are shown to it before they take a place in a batch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from prune_engine.candidates import Candidate, CandidateBatch
from prune_engine.stages.pool import Pool
from prune_engine.stages.selecting import taken
from prune_engine.stages.shortlist import Shortlist
from prune_engine.strategies import SelectionPool
from prune_engine.verdicts import BoolArray, Outcome, Selection, Stage, Verdict

#: Why the compiler does not take a candidate; None if it does.
Refusal = Callable[[Candidate], "str | None"]

_UNSURE = "is_unsure"
#: Refusals, per place in the batch, after which what is not judged yet is left out of this round.
_MAX_ASKED = 8


@dataclass(frozen=True, slots=True)
class Vetted:
    """What is left of a shortlist, what is chosen of it, and what the compiler refused meanwhile."""

    listed: Shortlist
    selection: Selection
    refused: tuple[tuple[Candidate, str], ...] = ()

    @property
    def verdicts(self) -> list[Verdict]:
        """One on each candidate that was refused."""
        return [
            Verdict(Stage.MEASURE, "compiler", Outcome.DROPPED, why, 1, candidate.candidate_id)
            for candidate, why in self.refused
        ]


def unsure(batch: CandidateBatch) -> BoolArray:
    """Of which candidates only the compiler can tell whether it takes them, bool (n,)."""
    if batch.is_opaque:
        return np.ones(len(batch), dtype=np.bool_)
    if _UNSURE not in batch.space.symbols:
        return np.zeros(len(batch), dtype=np.bool_)
    return np.asarray(batch.symbol(_UNSURE) != 0)


def vetted(listed: Shortlist, k: int, choose: Callable[[SelectionPool], Selection], refusal: Refusal) -> Vetted:
    """Choose of a shortlist until the compiler takes all that is chosen; what it refuses is replaced."""
    refused: list[tuple[Candidate, str]] = []
    accepted = np.zeros(len(listed.pool), dtype=np.bool_)
    while True:
        selection = choose(listed.choice)
        chosen = selection.indices[~accepted[selection.indices]]
        chosen = chosen[_unsure_at(listed.pool, chosen)]
        keep = np.ones(len(listed.pool), dtype=np.bool_)
        for position in chosen.tolist():
            candidate = listed.pool.candidate(position)
            why = refusal(candidate)
            accepted[position] = why is None
            if why is not None:
                keep[position] = False
                refused.append((candidate, why))
        if keep.all():
            return Vetted(listed, selection, tuple(refused))
        if len(refused) >= _MAX_ASKED * k:
            everyone = np.arange(len(listed.pool))
            keep &= accepted | ~_unsure_at(listed.pool, everyone)
        listed, accepted = _only(listed, keep), accepted[keep]


def _unsure_at(pool: Pool, positions: NDArray[np.int64]) -> BoolArray:
    """Which of some positions of a pool only the compiler can judge."""
    found = np.zeros(len(positions), dtype=np.bool_)
    owners = pool.owners[positions]
    for owner in np.unique(owners).tolist():
        mine = owners == owner
        found[mine] = unsure(pool.batches[owner].take(pool.rows[positions[mine]]))
    return found


def _only(listed: Shortlist, keep: BoolArray) -> Shortlist:
    """The shortlist without what is not to be kept."""
    positions = np.flatnonzero(keep)
    return replace(listed, pool=listed.pool.take(positions), choice=taken(listed.choice, positions))
