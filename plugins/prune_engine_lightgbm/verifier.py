"""Predicts a candidate's throughput, relative to the best of its task, from its decisions."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import NormalDist
from typing import Any

import lightgbm as lgb
import numpy as np
from numpy.typing import NDArray

from prune_engine.candidates import CandidateBatch
from prune_engine.errors import ConfigError
from prune_engine.measurement import Measurement
from prune_engine.strategies import Verifier
from prune_engine.verdicts import VerifyScores
from prune_engine_lightgbm.features import decision_columns, matrix

#: Below this many rows a tree cannot tell anything (settings below split at 2 x 3 rows).
_MIN_ROWS = 16
#: Labels are log2(best / latency), clipped here: how bad the hopeless are does not matter.
_WORST_LABEL = -6.0
#: Being slower than the incumbent by more than this counts as a degradation.
_DEGRADATION_MARGIN = math.log2(1.1)
#: Spread of the prediction error as long as it is not known, in log2.
_DEFAULT_SIGMA = 1.0
_FORMAT = "prune_engine_lightgbm.decisions/1"

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
class _TaskModel:
    """One task's rows and the model fitted on them."""

    rows: list[dict[str, float]] = field(default_factory=list)
    #: log2 of the latency in seconds; NaN for failures.
    log_secs: list[float] = field(default_factory=list)
    names: tuple[str, ...] = ()
    booster: lgb.Booster | None = None
    #: Errors of predictions made before the rows were learnt, log2.
    errors: list[float] = field(default_factory=list)
    version: int = 0


class DecisionVerifier(Verifier):
    """One gradient-boosted regression per task on log-relative throughput; failures count as the worst.

    The degradation probability takes the error of its own earlier predictions as normally distributed.
    """

    name = "lightgbm.decisions"

    def __init__(self, seed: int = 0) -> None:
        """Set the seed of the feature sampling."""
        self._seed = seed
        self._tasks: dict[str, _TaskModel] = {}

    def score(self, batch: CandidateBatch) -> VerifyScores:
        """Score a batch by the model of its task."""
        model = self._tasks.get(batch.space.task.task_id)
        n = len(batch)
        if model is None or model.booster is None:
            return VerifyScores(np.ones(n), np.zeros(n), "untrained", is_trained=False)
        if not n:
            return VerifyScores(np.ones(0), np.zeros(0), f"{_FORMAT}#{model.version}", is_trained=True)
        predicted = self._predict(model, batch)
        sigma = float(np.sqrt(np.mean(np.square(model.errors)))) if len(model.errors) >= 8 else _DEFAULT_SIGMA
        error = NormalDist(0.0, max(sigma, 0.05))
        # The incumbent's label is 0, so a degradation is a true label below -margin.
        probs = np.array([error.cdf(-_DEGRADATION_MARGIN - p) for p in predicted])
        return VerifyScores(np.exp2(predicted), probs, f"{_FORMAT}#{model.version}", is_trained=True)

    def update(self, batch: CandidateBatch, measurements: Sequence[Measurement]) -> None:
        """Add rows and fit again (about 30 ms at 300 rows)."""
        if not len(batch):
            return
        model = self._tasks.setdefault(batch.space.task.task_id, _TaskModel())
        latencies = [m.latency_secs for m in measurements]
        log_secs = np.array([math.nan if s is None else math.log2(s) for s in latencies])
        if model.booster is not None:
            best = np.nanmin(model.log_secs)
            told = ~np.isnan(log_secs)
            labels = np.clip(best - log_secs, _WORST_LABEL, None)
            model.errors += list((self._predict(model, batch) - labels)[told])
            model.errors = model.errors[-256:]
        columns = decision_columns(batch)
        model.rows += [{name: float(c[i]) for name, c in columns.items()} for i in range(len(batch))]
        model.log_secs += [float(s) for s in log_secs]
        self._fit(model)

    def save(self, path: Path) -> None:
        """Write rows and models of all tasks as JSON."""
        tasks = {
            task_id: {
                "rows": m.rows,
                "log_secs": [None if math.isnan(s) else s for s in m.log_secs],
                "errors": m.errors,
                "version": m.version,
            }
            for task_id, m in self._tasks.items()
        }
        path.write_text(json.dumps({"format": _FORMAT, "tasks": tasks}), encoding="utf-8")

    def load(self, path: Path) -> None:
        """Read what ``save`` wrote and fit again. Raises ConfigError for anything else."""
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
            if content["format"] != _FORMAT:
                raise ValueError(f"format {content['format']!r}")
            tasks = {
                task_id: _TaskModel(
                    rows=[{str(k): float(v) for k, v in row.items()} for row in m["rows"]],
                    log_secs=[math.nan if s is None else float(s) for s in m["log_secs"]],
                    errors=[float(e) for e in m["errors"]],
                    version=int(m["version"]) - 1,
                )
                for task_id, m in content["tasks"].items()
            }
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise ConfigError(
                f"not a model of this verifier ({error})",
                who=str(path),
                expected=f"a file of format {_FORMAT}",
                remedy="Give a file that the same version saved, or train afresh.",
            ) from error
        for model in tasks.values():
            self._fit(model)
        self._tasks = tasks

    def _predict(self, model: _TaskModel, batch: CandidateBatch) -> NDArray[np.float64]:
        assert model.booster is not None, "only trained models predict"
        columns = matrix(decision_columns(batch), model.names, len(batch))
        predicted = np.asarray(model.booster.predict(columns), dtype=np.float64)
        return np.clip(predicted, _WORST_LABEL, 4.0)

    def _fit(self, model: _TaskModel) -> None:
        log_secs = np.array(model.log_secs)
        model.version += 1
        if len(log_secs) < _MIN_ROWS or np.isnan(log_secs).all():
            return
        labels = np.clip(np.nanmin(log_secs) - log_secs, _WORST_LABEL, None)
        labels[np.isnan(labels)] = _WORST_LABEL
        model.names = tuple(sorted({name for row in model.rows for name in row}))
        rows = np.array([[row.get(name, math.nan) for name in model.names] for row in model.rows])
        data = lgb.Dataset(rows, labels, free_raw_data=True)
        model.booster = lgb.train({**_PARAMS, "seed": self._seed}, data, num_boost_round=_N_ROUNDS)
