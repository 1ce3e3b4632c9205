"""The best by score, and a share drawn at random."""

from __future__ import annotations

import numpy as np

from prune_engine.strategies import Positions, SelectionPool, Selector
from prune_engine.verdicts import Selection, SelectionReason


class EpsilonGreedySelector(Selector):
    """Seeds first, then audits, then the best by score, with a share ``epsilon`` of random probes.

    Probes keep the verifier honest where it has no samples. As long as nothing can judge candidates, all
    are probes. Audits get the share of the batch that they have in the pool: each costs a trial. Seeds and
    audits together take at most half of the batch, unless there is nothing else.
    """

    name = "select.epsilon-greedy"

    def __init__(self, epsilon: float) -> None:
        """Set the share of probes, in [0, 1]."""
        self._epsilon = epsilon

    def select(self, pool: SelectionPool, k: int, rng: np.random.Generator) -> Selection:
        """Choose at most ``k``; numbers of audits and probes are drawn, so small batches get theirs at times."""
        half, k = -(-k // 2), min(k, len(pool))
        chosen: list[int] = []
        reasons: list[SelectionReason] = []
        is_free = np.ones(len(pool), dtype=np.bool_)

        def take(positions: Positions, n: int, reason: SelectionReason) -> None:
            fresh = positions[is_free[positions]][: max(n, 0)]
            is_free[fresh] = False
            chosen.extend(int(p) for p in fresh)
            reasons.extend([reason] * len(fresh))

        audits, ordinary = np.flatnonzero(pool.is_audit), np.flatnonzero(~pool.is_audit)
        take(np.flatnonzero(pool.is_seed), half, SelectionReason.SEED)
        n_audits = int(rng.binomial(k, len(audits) / len(pool))) if len(audits) else 0
        take(rng.permutation(audits), min(n_audits, half - len(chosen)), SelectionReason.AUDIT)
        left = k - len(chosen)
        n_probes = left if not pool.is_trained else int(rng.binomial(left, self._epsilon))
        ranked = ordinary[np.argsort(-pool.scores[ordinary], kind="stable")]
        take(ranked, left - n_probes, SelectionReason.TOP)
        take(rng.permutation(ordinary), k - len(chosen), SelectionReason.EXPLORE)
        take(rng.permutation(audits), k - len(chosen), SelectionReason.AUDIT)
        return Selection(np.array(chosen, dtype=np.int64), tuple(reasons))
