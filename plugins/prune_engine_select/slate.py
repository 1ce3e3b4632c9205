"""What selectors have in common: positions are taken one group after the other, each once, with a reason."""

from __future__ import annotations

import numpy as np

from prune_engine.strategies import Positions, SelectionPool
from prune_engine.verdicts import Selection, SelectionReason


class Slate:
    """A batch of at most ``k`` in the making."""

    def __init__(self, pool: SelectionPool, k: int) -> None:
        """Nothing is taken yet."""
        self._pool, self._k = pool, min(k, len(pool))
        self._half = -(-k // 2)
        self._is_free = np.ones(len(pool), dtype=np.bool_)
        self._chosen: list[int] = []
        self._reasons: list[SelectionReason] = []

    @property
    def n_left(self) -> int:
        """Places that are free."""
        return self._k - len(self._chosen)

    @property
    def chosen(self) -> Positions:
        """What was taken so far, in order, int64 (m,)."""
        return np.array(self._chosen, dtype=np.int64)

    def free(self, positions: Positions) -> Positions:
        """Those of some positions that were not taken."""
        return positions[self._is_free[positions]]

    def take(self, positions: Positions, n: int, reason: SelectionReason) -> None:
        """Take the first ``n`` of these that were not taken, as far as there are places."""
        fresh = self.free(positions)[: max(min(n, self.n_left), 0)]
        self._is_free[fresh] = False
        self._chosen.extend(int(p) for p in fresh)
        self._reasons.extend([reason] * len(fresh))

    def take_probes_and_audits(self, rng: np.random.Generator) -> None:
        """Probes in their order, then audits as many as is their share of the pool; half of the batch at most."""
        pool, audits = self._pool, np.flatnonzero(self._pool.is_audit)
        self.take(np.flatnonzero(pool.is_probe), self._half, SelectionReason.PROBE)
        n_audits = int(rng.binomial(self._k, len(audits) / len(pool))) if len(audits) else 0
        self.take(rng.permutation(audits), min(n_audits, self._half - len(self._chosen)), SelectionReason.AUDIT)

    def fill(self, rng: np.random.Generator) -> None:
        """Take what is left at random: ordinary ones as probes, then audits."""
        self.take(rng.permutation(np.flatnonzero(~self._pool.is_audit)), self.n_left, SelectionReason.EXPLORE)
        self.take(rng.permutation(np.flatnonzero(self._pool.is_audit)), self.n_left, SelectionReason.AUDIT)

    def selection(self) -> Selection:
        """The batch."""
        return Selection(self.chosen, tuple(self._reasons))
