"""The best by score that are not all alike."""

from __future__ import annotations

import numpy as np

from prune_engine.strategies import Positions, SelectionPool, Selector
from prune_engine.verdicts import Float64Array, Selection, SelectionReason
from prune_engine_select.slate import Slate

#: How many of the best are looked at, per candidate to be chosen.
_LOOKED_AT_PER_CHOSEN = 16


class DiverseSelector(Selector):
    """Probes first, then audits, then one after the other the best by score times ``1 - aversion * likeness``.

    The likeness of a candidate to those already chosen is the share of classes (``SelectionPool.kinship``) that
    it has in common with them, averaged over them, after the surrogate search of Helion: leaves of the verifier's
    trees once it is trained, decisions before. Where there are no classes only the scores count. A share
    ``epsilon`` of the batch are random probes. Probes and audits together take at most half of the batch, unless
    there is nothing else; as long as nothing can judge candidates, all are drawn at random.
    """

    name = "select.diverse"

    def __init__(self, epsilon: float, aversion: float = 0.7, first_aversion: float = 0.3) -> None:
        """Set the share of probes, and what likeness costs under a trained verifier and before, all in [0, 1]."""
        self._epsilon, self._aversion, self._first_aversion = epsilon, aversion, first_aversion

    def select(self, pool: SelectionPool, k: int, rng: np.random.Generator) -> Selection:
        """Choose at most ``k``; numbers of audits and probes are drawn, so small batches get theirs at times."""
        slate = Slate(pool, k)
        slate.take_probes_and_audits(rng)
        if pool.is_trained:
            n_top = slate.n_left - int(rng.binomial(slate.n_left, self._epsilon))
            ordinary = np.flatnonzero(~pool.is_audit)
            ranked = slate.free(ordinary[np.argsort(-pool.scores[ordinary], kind="stable")])
            if pool.kinship is not None:
                ranked = self._unlike(pool, ranked, slate.chosen, n_top)
            slate.take(ranked, n_top, SelectionReason.TOP)
        slate.fill(rng)
        return slate.selection()

    def _unlike(self, pool: SelectionPool, ranked: Positions, chosen: Positions, n: int) -> Positions:
        """``n`` positions out of the upper ranks, each the best beside those before it, int64 (<= n,)."""
        assert pool.kinship is not None, "asked only where there is one"
        # A trained verifier gives a probability other than 0 to some candidate or other.
        aversion = self._aversion if pool.degradation_prob.any() else self._first_aversion
        upper = ranked[: n * _LOOKED_AT_PER_CHOSEN]
        classes, worth = pool.kinship[upper], pool.scores[upper].astype(np.float64)
        likeness: Float64Array = np.zeros(len(upper))
        for position in chosen:
            likeness += (classes == pool.kinship[position]).mean(axis=1)
        found: list[int] = []
        for n_chosen in range(len(chosen), len(chosen) + min(n, len(upper))):
            penalty = aversion * likeness / max(n_chosen, 1)
            best = int(np.argmax(worth * (1 - penalty)))
            found.append(int(upper[best]))
            likeness += (classes == classes[best]).mean(axis=1)
            worth[best] = -np.inf
        return np.array(found, dtype=np.int64)
