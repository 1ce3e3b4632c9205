"""The draft list of a round: who was on it, what was thought of each, and where its way ended. As columns."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from prune_engine.candidates import Candidate
from prune_engine.stages.pool import Pool
from prune_engine.verdicts import BoolArray, DraftScores, VerifyScores


@dataclass(frozen=True, slots=True, eq=False)
class DraftList:
    """What reached the draft list, by position of ``pool``, with audits and probes.

    ``drafts[b]`` and ``verified[b]`` are the scores of batch b of the pool; None without a draft, or a trained
    verifier. Of ``n_ranked`` candidates the draft let these pass; ``best_dropped`` is the best that it did not.
    ``is_skipped`` and ``is_surplus``, bool (n,), say what the verifier skipped, and which audits were too many.
    """

    pool: Pool
    drafts: tuple[DraftScores, ...] | None
    verified: tuple[VerifyScores, ...] | None
    n_ranked: int
    best_dropped: Candidate | None
    is_skipped: BoolArray
    is_surplus: BoolArray

    @staticmethod
    def of(
        pool: Pool,
        drafts: tuple[DraftScores, ...] | None,
        verified: tuple[VerifyScores, ...] | None,
        n_ranked: int,
        best_dropped: Candidate | None,
    ) -> DraftList:
        """A list of which nothing has fallen yet."""
        nothing = np.zeros(len(pool), dtype=np.bool_)
        return DraftList(pool, drafts, verified, n_ranked, best_dropped, nothing, nothing)

    def verified_to(self, left: Pool) -> DraftList:
        """The same with what is not in ``left``, a part of its pool in its order, as skipped by the verifier."""
        is_left, audits = self._is_in(left), self.pool.audits.copy()
        audits[is_left] = left.audits  # what the verifier drops may be audited, and only ``left`` says so
        return replace(self, pool=replace(self.pool, audits=audits, auditees=left.auditees), is_skipped=~is_left)

    def thinned_to(self, left: Pool) -> DraftList:
        """The same with what is not in ``left``, and was not skipped, as audits too many."""
        return replace(self, is_surplus=~self._is_in(left) & ~self.is_skipped)

    def _is_in(self, part: Pool) -> BoolArray:
        return np.isin(_keys(self.pool), _keys(part))


def _keys(pool: Pool) -> NDArray[np.int64]:
    """A number for each candidate of a pool and of its parts."""
    starts = np.cumsum([0, *map(len, pool.batches)])
    keys: NDArray[np.int64] = starts[pool.owners] + pool.rows
    return keys
