"""Which weights a task's terms have: the prior's, those of an earlier task, or those fitted to its own labels."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from prune_engine.measurement import Measurement
from prune_engine_draft.calibration import MIN_COMPARED, MIN_LABELS, Labels, agreement, fitted, held_out_agreement
from prune_engine_draft.terms import Float64Array

#: By how much other weights must rank a task's labels better to be taken.
_MARGIN = 0.02
#: Labels of a task that are kept, the latest ones.
_MAX_LABELS = 1024


class TaskWeights:
    """One task's labels, and the weights they speak for."""

    def __init__(self, prior: Float64Array) -> None:
        """``prior`` float64 (t,) is what the terms weigh before anything is known."""
        self._prior = prior
        self._terms: list[Float64Array] = []
        self._secs: list[float] = []
        self._censored: list[bool] = []
        #: How many labels, which other weights, and what they led to.
        self._known: tuple[int, Sequence[Float64Array], Float64Array] | None = None
        self._n_added = 0
        #: The weights that were fitted to this task's own labels, if any were.
        self.fitted: Float64Array | None = None

    def add(self, terms: Float64Array, measurements: Sequence[Measurement]) -> None:
        """Learn what was measured: row i of ``terms``, float64 (n, t), has ``measurements[i]``."""
        self._n_added += len(measurements)
        for row, measurement in zip(terms, measurements, strict=True):
            secs = measurement.latency_secs
            if secs is not None and np.isfinite(secs) and secs > 0 and np.isfinite(row).all():
                self._terms.append(row)
                self._secs.append(secs)
                self._censored.append(measurement.is_censored)
        del self._terms[:-_MAX_LABELS], self._secs[:-_MAX_LABELS], self._censored[:-_MAX_LABELS]

    def weights(self, elsewhere: Sequence[Float64Array] = ()) -> Float64Array:
        """What the terms weigh now; ``elsewhere`` are weights that were fitted on other tasks.

        With 8 labels those of another task are taken if they rank the labels better than the prior does; with 16
        the task's own, if they rank labels better that they were not fitted to.
        """
        if self._known is None or self._known[0] != self._n_added or not _same(self._known[1], elsewhere):
            self._known = self._n_added, tuple(elsewhere), self._chosen(elsewhere)
        return self._known[2]

    def _chosen(self, elsewhere: Sequence[Float64Array]) -> Float64Array:
        self.fitted = None
        if len(self._secs) < MIN_COMPARED:
            return self._prior
        labels = Labels(np.stack(self._terms), np.array(self._secs), np.array(self._censored, dtype=np.bool_))
        best, score = self._prior, agreement(labels, self._prior)
        for weights in elsewhere:
            if (found := agreement(labels, weights)) > score + _MARGIN:
                best, score = weights, found
        if len(labels) >= MIN_LABELS and held_out_agreement(labels, best) >= score:
            self.fitted = best = fitted(labels, best)
        return best


def _same(known: Sequence[Float64Array], asked: Sequence[Float64Array]) -> bool:
    return len(known) == len(asked) and all(a is b for a, b in zip(known, asked, strict=True))
