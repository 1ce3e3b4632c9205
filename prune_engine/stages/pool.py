"""Candidates of several sketches side by side, between the stages of the pipeline."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from prune_engine.candidates import Candidate, CandidateBatch
from prune_engine.verdicts import BoolArray, Stage

T = TypeVar("T", bound=np.generic)

#: Stage and name of a strategy whose drops are audited.
Auditee = tuple[Stage, str]
#: Marks candidates that are no audits.
NOT_AUDITED = -1


@dataclass(frozen=True, slots=True)
class Pool:
    """Position i is row ``rows[i]`` of batch ``owners[i]``, both int64 (n,).

    ``audits[i]``, int64, is the position in ``auditees`` of the strategy that dropped candidate i, or
    NOT_AUDITED for those that nothing dropped. ``is_probe`` marks what is measured whatever is thought of it.
    """

    batches: tuple[CandidateBatch, ...]
    owners: NDArray[np.int64]
    rows: NDArray[np.int64]
    audits: NDArray[np.int64]
    is_probe: BoolArray
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
            is_probe=self.is_probe[positions],
        )

    def audited(self, positions: NDArray[np.int64], auditee: Auditee) -> Pool:
        """The same pool with the candidates at ``positions`` marked as audits of a strategy."""
        audits = self.audits.copy()
        audits[positions] = len(self.auditees)
        return replace(self, audits=audits, auditees=(*self.auditees, auditee))

    def column(self, parts: Sequence[NDArray[T]]) -> NDArray[T]:
        """What ``parts[b]``, (rows of batch b, ...), say of each position, (n, ...)."""
        starts = np.cumsum([0, *map(len, parts)])
        column: NDArray[T] = np.concatenate(parts)[starts[self.owners] + self.rows]
        return column

    def compact(self) -> Pool:
        """The same pool with batches that hold nothing else, in the order of the batches."""
        order = np.lexsort((self.rows, self.owners))
        owners, rows = self.owners[order], self.rows[order]
        kept = [rows[owners == number] for number in range(len(self.batches))]
        batches = tuple(b.take(r) for b, r in zip(self.batches, kept, strict=True))
        return replace(self.take(order), batches=batches, rows=_numbered(batches))


def joined(
    batches: Sequence[CandidateBatch],
    audits: Sequence[NDArray[np.int64]],
    n_probes: int,
    auditees: Sequence[Auditee],
) -> Pool:
    """Make a pool of whole batches; ``audits`` as in Pool, batch by batch. The first ``n_probes`` are probes."""
    if not batches:
        return Pool.empty()
    owners = np.repeat(np.arange(len(batches)), [len(batch) for batch in batches])
    return Pool(
        tuple(batches), owners, _numbered(batches), np.concatenate(audits), owners < n_probes, tuple(auditees)
    )


def _numbered(batches: Sequence[CandidateBatch]) -> NDArray[np.int64]:
    """The row numbers of one batch after the other."""
    return np.concatenate([np.arange(len(batch), dtype=np.int64) for batch in batches])
