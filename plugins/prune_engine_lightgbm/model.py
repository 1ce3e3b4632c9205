"""One task's measured candidates and the regression fitted on them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from prune_engine_lightgbm.features import Columns, matrix
from prune_engine_lightgbm.library import boosting_library

if TYPE_CHECKING:
    import lightgbm as lgb

Float64Array = NDArray[np.float64]

#: Below this many rows a tree cannot tell anything (settings below split at 2 x 3 rows).
MIN_ROWS = 16
#: Labels are log2(best / latency), clipped here: how bad the hopeless are does not matter.
WORST_LABEL = -6.0
#: Predictions above the best known are clipped here: log2 of 16 times faster.
BEST_LABEL = 4.0
#: Spread of the prediction error as long as fewer than _MIN_ERRORS are known, in log2.
_DEFAULT_SIGMA = 1.0
_MIN_ERRORS, _MAX_ERRORS = 8, 256

#: Settings that can split at tens of rows: LightGBM's defaults cannot below 40.
_PARAMS: dict[str, Any] = {
    "objective": "regression",
    "num_leaves": 15,
    "min_data_in_leaf": 3,
    "min_data_in_bin": 1,
    "learning_rate": 0.1,
    "feature_fraction": 0.8,
    "lambda_l2": 0.1,
    "deterministic": True,
    "force_col_wise": True,
    "num_threads": 1,
    "verbosity": -1,
}
_N_ROUNDS = 120


@dataclass(slots=True)
class TaskModel:
    """Rows in blocks of equal columns, and a model that is fitted when it is first asked after new rows.

    ``log_secs`` is log2 of the latency in seconds of each row, NaN for failures.
    """

    blocks: list[Columns] = field(default_factory=list)
    log_secs: list[float] = field(default_factory=list)
    #: Errors of predictions made before the rows were learnt, log2.
    errors: list[float] = field(default_factory=list)
    version: int = 0
    _names: tuple[str, ...] = ()
    _booster: lgb.Booster | None = None
    _is_stale: bool = False

    def add(self, columns: Columns, log_secs: Sequence[float]) -> None:
        """Take in rows, float64 columns of the length of ``log_secs``; note how well they were foreseen."""
        new = np.asarray(log_secs, dtype=np.float64)
        if any(len(column) != len(new) for column in columns.values()):
            raise ValueError(f"{len(new)} latencies for columns of other lengths")
        told = ~np.isnan(new)
        # The model as it was last asked, not fitted anew: what it foresaw is what is wanted.
        if self._booster is not None and told.any():
            labels = np.clip(self._best_log_secs() - new, WORST_LABEL, None)
            self.errors += [float(e) for e in (self._raw(columns, len(new)) - labels)[told]]
            self.errors = self.errors[-_MAX_ERRORS:]
        self.blocks.append(dict(columns))
        self.log_secs += [float(s) for s in new]
        self.version += 1
        self._is_stale = True

    def predict(self, columns: Columns, n: int, seed: int) -> Float64Array | None:
        """Labels, float64 (n,): log2(best / latency). None as long as there is too little to learn from."""
        if self._is_stale:
            self._fit(seed)
        return None if self._booster is None else self._raw(columns, n)

    @property
    def sigma(self) -> float:
        """Spread of the prediction error, log2."""
        if len(self.errors) < _MIN_ERRORS:
            return _DEFAULT_SIGMA
        return max(float(np.sqrt(np.mean(np.square(self.errors)))), 0.05)

    def as_json(self) -> dict[str, object]:
        """JSON values from which ``of_json`` makes an equal model."""
        return {
            "blocks": [{name: column.tolist() for name, column in block.items()} for block in self.blocks],
            "log_secs": [None if math.isnan(s) else s for s in self.log_secs],
            "errors": self.errors,
            "version": self.version,
        }

    @staticmethod
    def of_json(content: Mapping[str, Any]) -> TaskModel:
        """Read what ``as_json`` wrote. Raises ValueError, KeyError, TypeError or AttributeError for else."""
        blocks = [
            {str(name): np.array(column, dtype=np.float64) for name, column in block.items()}
            for block in content["blocks"]
        ]
        log_secs = [math.nan if s is None else float(s) for s in content["log_secs"]]
        if any(column.ndim != 1 or not np.isfinite(column).all() for block in blocks for column in block.values()):
            raise ValueError("a column that is not a list of numbers")
        lengths = [{len(column) for column in block.values()} for block in blocks]
        if any(len(found) != 1 for found in lengths) or sum(min(f) for f in lengths) != len(log_secs):
            raise ValueError(f"{len(log_secs)} latencies for columns of other lengths")
        errors = [float(e) for e in content["errors"]]
        if not np.isfinite([0.0, *errors, *(s for s in content["log_secs"] if s is not None)]).all():
            raise ValueError("times that are no numbers")
        return TaskModel(blocks, log_secs, errors, int(content["version"]), _is_stale=bool(blocks))

    def _best_log_secs(self) -> float:
        return float(np.nanmin(self.log_secs))

    def _raw(self, columns: Columns, n: int) -> Float64Array:
        assert self._booster is not None, "only fitted models predict"
        if not n:
            return np.empty(0)
        # num_threads: a second thread costs 15 ms to wake, a few rows 0.05 ms to predict.
        predicted = self._booster.predict(matrix(columns, self._names, n), num_threads=1)
        return np.clip(np.asarray(predicted, dtype=np.float64), WORST_LABEL, BEST_LABEL)

    def _fit(self, seed: int) -> None:
        self._is_stale = False
        log_secs = np.array(self.log_secs)
        if len(log_secs) < MIN_ROWS or np.isnan(log_secs).all():
            return
        lgb = boosting_library()  # a third of a second, so not before there is something to learn
        labels = np.clip(self._best_log_secs() - log_secs, WORST_LABEL, None)
        labels[np.isnan(labels)] = WORST_LABEL
        self._names = tuple(sorted(set().union(*self.blocks)))
        lengths = [len(next(iter(block.values()))) for block in self.blocks]
        rows = np.concatenate([matrix(b, self._names, n) for b, n in zip(self.blocks, lengths, strict=True)])
        params = {**_PARAMS, "seed": seed}
        data = lgb.Dataset(rows, labels, params=params)
        # keep_training_booster: else the model is written to text and read again, a tenth of the cost.
        self._booster = lgb.train(params, data, num_boost_round=_N_ROUNDS, keep_training_booster=True)
