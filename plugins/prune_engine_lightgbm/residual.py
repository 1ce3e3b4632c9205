"""The verifier that learns what the draft gets wrong."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from prune_engine.candidates import CandidateBatch
from prune_engine.errors import ConfigError
from prune_engine.measurement import Measurement
from prune_engine.space import DesignSpace
from prune_engine.strategies import ScoreContext, Verifier
from prune_engine.verdicts import DraftScores, VerifyScores
from prune_engine_lightgbm.columns import columns_of
from prune_engine_lightgbm.device import Device, device_of
from prune_engine_lightgbm.files import FORMAT, ModelFile, read_model, write_model
from prune_engine_lightgbm.foresight import skip_threshold
from prune_engine_lightgbm.learner import Learner
from prune_engine_lightgbm.priors import find_prior
from prune_engine_lightgbm.remembered import RememberedColumns
from prune_engine_lightgbm.rows import Block, Labels, TaskRows
from prune_engine_lightgbm.source import Source

Float64Array = NDArray[np.float64]

#: Scores are 2 to the power of what lies between these.
_LOG_SCORE_RANGE = (-40.0, 40.0)


class ResidualVerifier(Verifier):
    """Per task, gradient-boosted trees on the logarithm of latency over the draft's as it stands now.

    ``prior`` is ``builtin``, ``none`` or a file that ``save`` wrote, maybe on another device: a model of it is what
    a task starts from, beside the draft. Scores are predicted throughputs relative to the best measured.
    """

    name = "lightgbm.residual"
    takes_prior = True

    def __init__(self, seed: int = 0, prior: str = "none") -> None:
        """Set the seed of the trees and the prior, which is read when the first task is met."""
        self._seed, self._prior = seed, prior
        self._learners: dict[str, Learner] = {}
        self._device: Device | None = None
        self._source: Source | None = None
        self._has_source = False
        self._nest_columns = RememberedColumns()

    def score(self, batch: CandidateBatch, context: ScoreContext) -> VerifyScores:
        """Score a batch by the model of its task, fitted first if it has new rows.

        Raises ConfigError, at the first call, for a prior that cannot be read.
        """
        learner, n = self._learner(batch, context), len(batch)
        if not learner.can_predict:
            return VerifyScores(np.ones(n), np.zeros(n), "untrained", is_trained=False)
        columns = columns_of(batch, self._device_of(context), self._nest_columns)
        draft = _log_secs(context.draft(batch), n)
        predicted = learner.predict(columns, draft, self._redrafted(batch.space, context))
        if predicted is None:
            return VerifyScores(np.ones(n), np.zeros(n), "untrained", is_trained=False)
        best = learner.rows.best_log_secs
        version = f"{FORMAT}#{learner.version}" + ("+source" if learner.is_adapted else "")
        if best is None:
            return VerifyScores(_scores(-predicted), np.zeros(n), version, is_trained=True)
        skip_above, basis = skip_threshold(self._good_probs())
        return VerifyScores(
            _scores(best - predicted),
            learner.foresight.degradation_prob(predicted, best),
            version,
            is_trained=True,
            skip_above=skip_above,
            skip_basis=basis,
            kinship=learner.kinship(columns, draft) if context.wants_kinship else None,
        )

    def update(self, batch: CandidateBatch, measurements: Sequence[Measurement], context: ScoreContext) -> None:
        """Add rows; the model is fitted when it is asked next, once for the batches of all sketches."""
        if not len(batch):
            return
        columns = columns_of(batch, self._device_of(context), self._nest_columns)
        block = Block(batch.sketch.index, batch.sketch.sketch_id, batch.indices, columns, Labels.of(measurements))
        self._learner(batch, context).add(block, _log_secs(context.draft(batch), len(batch)))

    def save(self, path: Path) -> None:
        """Write the rows of all tasks with their columns; models are fitted from them."""
        write_model(path, ModelFile(self._device, {task: learner.rows for task, learner in self._learners.items()}))

    def load(self, path: Path) -> None:
        """Read what ``save`` wrote, in place of what was learnt. Raises ConfigError for anything else."""
        content = read_model(path)
        self._learners.clear()
        self._device = content.device
        for task_id, rows in content.tasks.items():
            self._learners[task_id] = self._new_learner()
            self._learners[task_id].restore(rows)

    def _learner(self, batch: CandidateBatch, context: ScoreContext) -> Learner:
        task_id = batch.space.task.task_id
        if not self._has_source:
            device = self._device_of(context)
            self._source, self._has_source = find_prior(self._prior, device, self._seed), True
            for known, learner in self._learners.items():  # loaded before the device was known
                self._learners[known] = self._new_learner()
                self._learners[known].restore(learner.rows)
        if task_id not in self._learners:
            self._learners[task_id] = self._new_learner()
        return self._learners[task_id]

    def _new_learner(self) -> Learner:
        return Learner(self._seed, self._source)

    def _device_of(self, context: ScoreContext) -> Device:
        device = device_of(context.profile)
        if self._device is None:
            self._device = device
        elif not device.is_same(self._device):
            raise ConfigError(
                "a model of one device is asked about another",
                who=self.name,
                got=device.name,
                expected=self._device.name,
                remedy="Give the file as --prior instead, and it will be adapted.",
            )
        return device

    def _redrafted(self, space: DesignSpace, context: ScoreContext) -> Callable[[TaskRows], Float64Array]:
        """The draft as it stands now, of rows learnt long ago: it is calibrated as the task goes on."""

        def draft(rows: TaskRows) -> Float64Array:
            numbers = np.concatenate([np.full(len(b.labels), b.sketch_index) for b in rows.blocks])
            found = np.full(len(numbers), np.nan)
            for number in np.unique(numbers):
                blocks = [b for b in rows.blocks if b.sketch_index == number]
                if not _is_sketch_of(space, blocks[0]):
                    continue
                batch = CandidateBatch(space, space.sketches[number], np.concatenate([b.indices for b in blocks]))
                found[numbers == number] = _log_secs(context.draft(batch), len(batch))
            return found

        return draft

    def _good_probs(self) -> list[float]:
        """Of all tasks: one alone has few good candidates."""
        found: list[float] = []
        for learner in self._learners.values():
            best = learner.rows.best_log_secs
            if best is not None:
                found += learner.foresight.good_probs(best)
        return found


def _is_sketch_of(space: DesignSpace, block: Block) -> bool:
    """Whether rows that came from a file are of a structure that there still is."""
    index = block.sketch_index
    return 0 <= index < len(space.sketches) and space.sketches[index].sketch_id == block.sketch_id


def _scores(logs: Float64Array) -> Float64Array:
    return np.exp2(np.clip(logs, *_LOG_SCORE_RANGE))


def _log_secs(draft: DraftScores | None, n: int) -> Float64Array:
    """log2 seconds of a draft up to a constant, float64 (n,); NaN where it has no answer or says "never".

    Equal scores without a latency are no answer: a draft says so of a sketch that it cannot read.
    """
    secs = None if draft is None else draft.latency_secs
    if draft is None or (secs is None and (not n or np.ptp(draft.scores) == 0)):
        return np.full(n, np.nan)
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = -np.log2(draft.scores) if secs is None else np.log2(secs)
    return np.where(np.isfinite(logs), logs, np.nan)
