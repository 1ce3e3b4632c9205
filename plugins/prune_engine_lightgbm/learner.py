"""One task's model: trees on the residual of what is known before, refitted after each round.

With a source model there are two: one that starts from it (adapted) and a shadow that does not (scratch). The one
that foresaw the newest round better, by rank correlation, is believed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from prune_engine_lightgbm.boosting import fit_trees, leaves, predict
from prune_engine_lightgbm.foresight import Foresight
from prune_engine_lightgbm.offset import Offset, fit_offset, unmeasured_offset
from prune_engine_lightgbm.rows import Block, Columns, TaskRows, matrix, targets
from prune_engine_lightgbm.source import Source

if TYPE_CHECKING:
    import lightgbm as lgb

Float64Array = NDArray[np.float64]
#: log2 seconds by the draft as it stands now, float64 (n,), of all rows of a task; NaN where it says nothing.
DraftRows = Callable[[TaskRows], Float64Array]

#: Below this many rows there is nothing for a tree to tell, nor for a source to be moved by.
MIN_ROWS = 8
#: A moved source is worth more than trees of its own on few rows.
_MIN_ROWS_ON_SOURCE = 48
#: Rows of a round below which a rank correlation says nothing.
_MIN_JUDGED = 6


@dataclass(slots=True)
class _Model:
    """What is known before, and trees on the rest."""

    source: Source | None = None
    offset: Offset | None = None
    names: tuple[str, ...] = ()
    booster: lgb.Booster | None = None
    foresight: Foresight = field(default_factory=Foresight)
    #: What it foresaw of the rows learnt since it was last fitted.
    newest: list[float] = field(default_factory=list)

    def known(self, columns: Columns, draft: Float64Array) -> Float64Array:
        """What is known of n candidates before the trees, float64 (n, k)."""
        if self.source is None:
            return draft[:, None]
        return np.column_stack([draft, self.source.says(columns, len(draft))])

    def predict(self, columns: Columns, draft: Float64Array) -> Float64Array | None:
        """log2 seconds, float64 (n,); None as long as nothing was measured and there is no source that can tell."""
        known = self.known(columns, draft)
        if self.offset is None:
            # Nothing measured: a source may stand for it, a draft alone is no model.
            if self.source is None or np.isnan(known[:, 1]).all():
                return None
            return unmeasured_offset(known).of(known)
        start = self.offset.of(known)
        if self.booster is None:
            return start
        return start + predict(self.booster, _with_draft(matrix(columns, self.names, len(draft)), draft))


class Learner:
    """Learns one task. ``source`` knows what was measured elsewhere; it is believed until a round denies it."""

    def __init__(self, seed: int, source: Source | None = None) -> None:
        self._seed, self._source = seed, source
        self.rows = TaskRows()
        self.version = 0
        self._is_stale = False
        self._scratch = _Model()
        self._adapted = _Model(source) if source is not None else None
        self._active = self._adapted or self._scratch
        self._newest_log_secs: list[float] = []

    @property
    def can_predict(self) -> bool:
        """Whether asking it may give an answer: there are rows enough, or a source to start from."""
        return len(self.rows) >= MIN_ROWS or self.is_adapted

    def restore(self, rows: TaskRows) -> None:
        """Take in rows of a file."""
        self.rows = rows
        self.version = len(rows.blocks)
        self._is_stale = bool(rows.blocks)

    @property
    def foresight(self) -> Foresight:
        """Of the model that is believed."""
        return self._active.foresight

    @property
    def is_adapted(self) -> bool:
        """Whether the model that starts from the source is believed."""
        return self._active is self._adapted

    def add(self, block: Block, draft: Float64Array) -> None:
        """Take in rows, and note how well they were foreseen. ``draft`` is log2 seconds, float64 (n,)."""
        told = ~np.isnan(block.labels.log_secs) & ~block.labels.is_censored
        best = self.rows.best_log_secs
        n = len(block.labels)
        if told.any() and n:
            for model in self._models():
                predicted = model.predict(block.columns, draft)
                if predicted is None:
                    continue
                model.newest += predicted[told].tolist()
                if best is not None:
                    probs = model.foresight.degradation_prob(predicted, best)
                    model.foresight.add(predicted[told], probs[told], block.labels.log_secs[told])
            self._newest_log_secs += block.labels.log_secs[told].tolist()
        self.rows.add(block)
        self.version += 1
        self._is_stale = True

    def predict(self, columns: Columns, draft: Float64Array, draft_rows: DraftRows) -> Float64Array | None:
        """log2 seconds, float64 (n,), fitted first if there are new rows; None as long as nothing is known."""
        if self._is_stale:
            self._choose()
            self._fit(draft_rows)
        return self._active.predict(columns, draft)

    def kinship(self, columns: Columns, draft: Float64Array) -> NDArray[np.int32] | None:
        """The leaves that candidates fall in, int32 (n, t); None without trees."""
        model = self._active
        if model.booster is None:
            return None
        return leaves(model.booster, _with_draft(matrix(columns, model.names, len(draft)), draft))

    def _models(self) -> list[_Model]:
        return [self._scratch] if self._adapted is None else [self._scratch, self._adapted]

    def _choose(self) -> None:
        """Believe the model that foresaw the newest round better."""
        truth = np.array(self._newest_log_secs)
        if self._adapted is not None and len(truth) >= _MIN_JUDGED:
            both = (self._adapted, self._scratch)
            if all(len(model.newest) == len(truth) for model in both):
                adapted, scratch = (rank_correlation(np.array(model.newest), truth) for model in both)
                if adapted != scratch:
                    self._active = self._adapted if adapted > scratch else self._scratch
        self._newest_log_secs = []
        for model in self._models():
            model.newest = []

    def _fit(self, draft_rows: DraftRows) -> None:
        self._is_stale = False
        labels = self.rows.labels
        if np.isnan(labels.log_secs).all():
            return
        wanted, draft = targets(labels), draft_rows(self.rows)
        names = self.rows.names()
        table = _with_draft(self.rows.matrix(names), draft) if len(wanted) >= MIN_ROWS else None
        for model in self._models():
            if table is None and model.source is None:
                continue
            if table is not None and self._source is not None and model.source is not None:
                model.source = self._source.adapted(self.rows, wanted)
            known = self._known(model, draft)
            model.offset, model.names = fit_offset(known, wanted), names
            if table is not None and (model.source is None or len(wanted) >= _MIN_ROWS_ON_SOURCE):
                model.booster = fit_trees(table, wanted - model.offset.of(known), self._seed)

    def _known(self, model: _Model, draft: Float64Array) -> Float64Array:
        """What a model knows of all rows before its trees."""
        starts = np.cumsum([0, *(len(block.labels) for block in self.rows.blocks)])
        parts = [
            model.known(block.columns, draft[start : start + len(block.labels)])
            for block, start in zip(self.rows.blocks, starts[:-1], strict=True)
        ]
        return np.concatenate(parts)


def rank_correlation(a: Float64Array, b: Float64Array) -> float:
    """Spearman's, ties sharing a rank; 0 where either is constant."""
    if len(a) < 2 or np.ptp(a) == 0 or np.ptp(b) == 0:
        return 0.0
    table: Float64Array = np.asarray(np.corrcoef(_ranks(a), _ranks(b)))
    return float(table[0, 1])


def _ranks(values: Float64Array) -> Float64Array:
    """Ranks from 1, equal values sharing their mean: scipy.stats does that too, but takes a second to import."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    ranks: Float64Array = (ends - (counts - 1) / 2)[inverse.reshape(-1)]
    return ranks


def _with_draft(table: NDArray[np.float32], draft: Float64Array) -> NDArray[np.float32]:
    """The draft is a column as well: how far to trust it may depend on what it says."""
    joined: NDArray[np.float32] = np.concatenate([table.T, draft[None, :].astype(np.float32)])
    by_row: NDArray[np.float32] = joined.T
    return by_row
