"""The best by score, and a share drawn at random."""

from __future__ import annotations

import numpy as np

from prune_engine.strategies import SelectionPool, Selector
from prune_engine.verdicts import Selection, SelectionReason
from prune_engine_select.slate import Slate


class EpsilonGreedySelector(Selector):
    """Probes first, then audits, then the best by score, with a share ``epsilon`` of random probes.

    Probes keep the verifier honest where it has no samples. As long as nothing can judge candidates, all
    are probes. Audits get the share of the batch that they have in the pool: each costs a trial. Probes and
    audits together take at most half of the batch, unless there is nothing else.
    """

    name = "select.epsilon-greedy"

    def __init__(self, epsilon: float) -> None:
        """Set the share of probes, in [0, 1]."""
        self._epsilon = epsilon

    def select(self, pool: SelectionPool, k: int, rng: np.random.Generator) -> Selection:
        """Choose at most ``k``; numbers of audits and probes are drawn, so small batches get theirs at times."""
        slate = Slate(pool, k)
        slate.take_probes_and_audits(rng)
        ordinary = np.flatnonzero(~pool.is_audit)
        n_probes = slate.n_left if not pool.is_trained else int(rng.binomial(slate.n_left, self._epsilon))
        ranked = ordinary[np.argsort(-pool.scores[ordinary], kind="stable")]
        slate.take(ranked, slate.n_left - n_probes, SelectionReason.TOP)
        slate.fill(rng)
        return slate.selection()
