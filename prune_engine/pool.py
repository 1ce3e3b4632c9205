"""Candidates of several sketches side by side, between the stages of the pipeline."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from prune_engine.candidates import Candidate, CandidateBatch
from prune_engine.verdicts import BoolArray, Float64Array, Stage

#: Stage and name of a strategy whose drops are audited.
Auditee = tuple[Stage, str]
#: Marks candidates that are no audits.
NOT_AUDITED = -1


@dataclass(frozen=True, slots=True)
class Pool:
    """Position i is row ``rows[i]`` of batch ``owners[i]``, both int64 (n,).

    ``audits[i]``, int64, is the position in ``auditees`` of the strategy that dropped candidate i, or
    NOT_AUDITED for those that nothing dropped. ``is_seed`` marks transferred schedules.
    """

    batches: tuple[CandidateBatch, ...]
    owners: NDArray[np.int64]
    rows: NDArray[np.int64]
    audits: NDArray[np.int64]
    is_seed: BoolArray
    auditees: tuple[Auditee, ...] = ()

    @staticmethod
    def empty() -> Pool:
        """A pool without candidates."""
        none = np.empty(0, dtype=np.int64)
        return Pool((), none, none, none, none.astype(np.bool_))

    def __len__(self) -> int:
        return len(self.owners)

    @property
    def is_audit(self) -> BoolArray:
        """Which are measured only to audit what dropped them, bool (n,)."""
        is_audit: BoolArray = self.audits != NOT_AUDITED
        return is_audit

    def candidate(self, position: int) -> Candidate:
        """The candidate at a position, with its identity."""
        return self.batches[int(self.owners[position])].candidate(int(self.rows[position]))

    def auditee(self, position: int) -> Auditee | None:
        """The strategy that dropped the candidate at a position, if it is an audit."""
        number = int(self.audits[position])
        return None if number == NOT_AUDITED else self.auditees[number]

    def take(self, positions: NDArray[np.int64]) -> Pool:
        """The candidates at ``positions``, in that order."""
        return replace(
            self,
            owners=self.owners[positions],
            rows=self.rows[positions],
            audits=self.audits[positions],
            is_seed=self.is_seed[positions],
        )

    def audited(self, positions: NDArray[np.int64], auditee: Auditee) -> Pool:
        """The same pool with the candidates at ``positions`` marked as audits of a strategy."""
        audits = self.audits.copy()
        audits[positions] = len(self.auditees)
        return replace(self, audits=audits, auditees=(*self.auditees, auditee))

    def score(self, score: Callable[[CandidateBatch], Float64Array | None]) -> Float64Array | None:
        """Score batch by batch, float64 (n,) in pool order; None as soon as one batch has no scores."""
        scores = np.empty(len(self))
        for number in np.unique(self.owners):
            here = self.owners == number
            part = score(self.batches[number].take(self.rows[here]))
            if part is None:
                return None
            scores[here] = part
        return scores


def joined(
    batches: Sequence[CandidateBatch],
    kept: Sequence[NDArray[np.int64]],
    audits: Sequence[NDArray[np.int64]],
    n_seeds: int,
    auditees: Sequence[Auditee],
) -> Pool:
    """Make a pool of the rows ``kept[b]`` of each batch; the first ``n_seeds`` batches are seeds."""
    if not batches:
        return Pool.empty()
    owners = np.repeat(np.arange(len(batches)), [len(rows) for rows in kept])
    return Pool(
        tuple(batches), owners, np.concatenate(kept), np.concatenate(audits), owners < n_seeds, tuple(auditees)
    )
