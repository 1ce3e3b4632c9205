"""The best by score, and a share drawn at random."""

from __future__ import annotations

import numpy as np

from prune_engine.strategies import SelectionPool, Selector
from prune_engine.verdicts import Selection, SelectionReason


class EpsilonGreedySelector(Selector):
    """Seeds first, then audits, then the best by score, with a share ``epsilon`` of random probes.

    Probes keep the verifier honest where it has no samples. As long as nothing can judge candidates, all
    are probes. Seeds and audits together take at most half of the batch.
    """

    name = "select.epsilon-greedy"

    def __init__(self, epsilon: float) -> None:
        """Set the share of probes, in [0, 1]."""
        self._epsilon = epsilon

    def select(self, pool: SelectionPool, k: int, rng: np.random.Generator) -> Selection:
        """Choose at most ``k``; the number of probes is drawn, so small batches get theirs now and then."""
        k = min(k, len(pool))
        chosen: list[int] = []
        reasons: list[SelectionReason] = []

        def take(positions: np.ndarray, n: int, reason: SelectionReason) -> None:
            fresh = positions[~np.isin(positions, chosen)][: max(n, 0)]
            chosen.extend(int(p) for p in fresh)
            reasons.extend([reason] * len(fresh))

        half = -(-k // 2)
        take(np.flatnonzero(pool.is_seed), half, SelectionReason.SEED)
        take(rng.permutation(np.flatnonzero(pool.is_audit)), half - len(chosen), SelectionReason.AUDIT)
        ordinary = np.flatnonzero(~pool.is_audit)
        left = k - len(chosen)
        n_probes = left if not pool.is_trained else int(rng.binomial(left, self._epsilon))
        ranked = ordinary[np.argsort(-pool.scores[ordinary], kind="stable")]
        take(ranked, left - n_probes, SelectionReason.TOP)
        take(rng.permutation(ordinary), k - len(chosen), SelectionReason.EXPLORE)
        return Selection(np.array(chosen, dtype=np.int64), tuple(reasons))
