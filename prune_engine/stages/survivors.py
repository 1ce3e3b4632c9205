"""The candidates of a batch that rules still judge: a copy of the few that are left, once most are dropped."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from prune_engine.candidates import CandidateBatch
from prune_engine.verdicts import BoolArray


class Survivors:
    """A batch, or what is left of it. Symbols cost per candidate, so what is dropped is not asked about."""

    def __init__(self, batch: CandidateBatch) -> None:
        self._batch = self.part = batch
        self._rows: NDArray[np.int64] | None = None

    def narrow(self, alive: BoolArray) -> CandidateBatch:
        """The part to judge next: at least the candidates where ``alive``, bool (n,) over the whole batch."""
        if 2 * np.count_nonzero(alive) < len(self.part):
            self._rows = np.flatnonzero(alive)
            self.part = self._batch.take(self._rows)
        return self.part

    def spread(self, mask: BoolArray) -> BoolArray:
        """A mask over ``part`` as one over the whole batch, bool (n,); what is not in the part counts as kept."""
        if self._rows is None:
            return mask
        spread = np.ones(len(self._batch), dtype=np.bool_)
        spread[self._rows] = mask
        return spread
