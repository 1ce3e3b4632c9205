"""LightGBM, with settings that can learn from tens of rows and give the same model for the same seed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from prune_engine_lightgbm.library import boosting_library

if TYPE_CHECKING:
    import lightgbm as lgb

Float64Array = NDArray[np.float64]
Float32Array = NDArray[np.float32]

#: LightGBM's defaults cannot split below 40 rows. Extra trees (random thresholds) vary less between draws of
#: the samples than best thresholds; see docs/plugins/verifier.md for what was compared.
_TREES: dict[str, Any] = {
    "objective": "regression",
    "num_leaves": 7,
    "min_data_in_leaf": 3,
    "min_data_in_bin": 1,
    "learning_rate": 0.1,
    "feature_fraction": 0.5,
    "lambda_l2": 0.1,
    "extra_trees": True,
    "boost_from_average": False,
    "deterministic": True,
    "force_col_wise": True,
    "num_threads": 1,
    "verbosity": -1,
}
_N_TREES = 100
#: A source model has thousands of rows.
_SOURCE: dict[str, Any] = {
    **_TREES,
    "num_leaves": 31,
    "min_data_in_leaf": 5,
    "feature_fraction": 0.7,
    "extra_trees": False,
    "learning_rate": 0.15,
}
_N_SOURCE_TREES = 100
#: How much of a source's leaves is kept each time they are re-estimated on the target's rows.
MOMENTUM = 0.95
#: Trees whose leaves say how alike candidates are.
KINSHIP_TREES = 24


def fit_trees(rows: Float32Array, residuals: Float64Array, seed: int, *, is_source: bool = False) -> lgb.Booster:
    """Fit a regression of ``residuals``, float64 (n,), on ``rows``, float32 (n, f), n >= 2, f >= 1."""
    lgb = boosting_library()  # a third of a second, so not before there is something to learn
    params = {**(_SOURCE if is_source else _TREES), "seed": seed}
    data = lgb.Dataset(rows, residuals, params=params)
    n_trees = _N_SOURCE_TREES if is_source else _N_TREES
    # keep_training_booster: else the model is written to text and read again, a tenth of the cost.
    return lgb.train(params, data, num_boost_round=n_trees, keep_training_booster=True)


def refit(text: str, rows: Float32Array, wanted: Float64Array) -> lgb.Booster:
    """The source model of that text with its leaves moved towards ``wanted``, float64 (n,), of the rows.

    Each leaf keeps 95 % and takes 5 % of what the rows in it say, tree after tree; what no row reaches shrinks by
    5 %, which changes no order. That is momentum adaptation: the source's partition of the space stays.
    """
    source: lgb.Booster = boosting_library().Booster(model_str=text)
    return source.refit(np.ascontiguousarray(rows), wanted, decay_rate=MOMENTUM, num_threads=1, verbosity=-1)


def predict(booster: lgb.Booster, rows: Float32Array) -> Float64Array:
    """Predictions, float64 (n,), of rows float32 (n, f)."""
    if not len(rows):
        return np.empty(0)
    # num_threads: a second thread costs 15 ms to wake, a few rows 0.05 ms to predict.
    return np.asarray(booster.predict(rows, num_threads=1), dtype=np.float64)


def leaves(booster: lgb.Booster, rows: Float32Array) -> NDArray[np.int32]:
    """The leaf of each row in the first trees, int32 (n, KINSHIP_TREES)."""
    if not len(rows):
        return np.empty((0, KINSHIP_TREES), dtype=np.int32)
    found = booster.predict(rows, num_threads=1, pred_leaf=True, num_iteration=KINSHIP_TREES)
    return np.asarray(found, dtype=np.int32).reshape(len(rows), -1)
