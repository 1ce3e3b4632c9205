"""Predicts a candidate's throughput, relative to the best of its task, from its decisions."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from prune_engine.candidates import CandidateBatch
from prune_engine.errors import ConfigError
from prune_engine.measurement import Measurement
from prune_engine.strategies import ScoreContext, Verifier
from prune_engine.verdicts import VerifyScores
from prune_engine_lightgbm.features import decision_columns
from prune_engine_lightgbm.foresight import normal_cdf
from prune_engine_lightgbm.model import TaskModel

#: Being slower than the incumbent by more than this counts as a degradation.
_DEGRADATION_MARGIN = math.log2(1.1)
_FORMAT = "prune_engine_lightgbm.decisions/1"


class DecisionVerifier(Verifier):
    """One gradient-boosted regression per task on log-relative throughput; failures count as the worst.

    The degradation probability takes the error of its own earlier predictions as normally distributed.
    """

    name = "lightgbm.decisions"

    def __init__(self, seed: int = 0) -> None:
        """Set the seed of the feature sampling."""
        self._seed = seed
        self._tasks: dict[str, TaskModel] = {}

    def score(self, batch: CandidateBatch, context: ScoreContext) -> VerifyScores:  # noqa: ARG002
        """Score a batch by the model of its task, fitted first if it has new rows (60 ms at 300 rows)."""
        model = self._tasks.get(batch.space.task.task_id)
        n = len(batch)
        # Asked also for an empty batch: whether it is trained does not depend on what is asked.
        predicted = None if model is None else model.predict(decision_columns(batch), n, self._seed)
        if model is None or predicted is None:
            return VerifyScores(np.ones(n), np.zeros(n), "untrained", is_trained=False)
        # The incumbent's label is 0, so a degradation is a true label below -margin.
        probs = normal_cdf((-_DEGRADATION_MARGIN - predicted) / model.sigma)
        return VerifyScores(np.exp2(predicted), probs, f"{_FORMAT}#{model.version}", is_trained=True)

    def update(
        self,
        batch: CandidateBatch,
        measurements: Sequence[Measurement],
        context: ScoreContext,  # noqa: ARG002 - it learns from decisions alone
    ) -> None:
        """Add rows; the model is fitted when it is asked next, once for the batches of all sketches."""
        if not len(batch):
            return
        model = self._tasks.setdefault(batch.space.task.task_id, TaskModel())
        model.add(decision_columns(batch), [_log_secs(m) for m in measurements])

    def save(self, path: Path) -> None:
        """Write the rows of all tasks as JSON; models are fitted from them."""
        tasks = {task_id: model.as_json() for task_id, model in self._tasks.items()}
        path.write_text(json.dumps({"format": _FORMAT, "tasks": tasks}), encoding="utf-8")

    def load(self, path: Path) -> None:
        """Read what ``save`` wrote, in place of what was learnt. Raises ConfigError for anything else."""
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
            if content["format"] != _FORMAT:
                raise ValueError(f"format {content['format']!r}")
            tasks = {str(task_id): TaskModel.of_json(m) for task_id, m in content["tasks"].items()}
        except (OSError, ValueError, KeyError, TypeError, AttributeError, ArithmeticError, RecursionError) as error:
            raise ConfigError(
                f"not a model of this verifier ({type(error).__name__}: {error})",
                who=str(path),
                expected=f"a file of format {_FORMAT}",
                remedy="Give a file that the same version saved, or train afresh.",
            ) from error
        self._tasks = tasks


def _log_secs(measurement: Measurement) -> float:
    """log2 of the latency in seconds; NaN for a failure, and for what a clock was too coarse to see."""
    secs = measurement.latency_secs
    return math.log2(secs) if secs is not None and 0 < secs < math.inf else math.nan
