"""Where the candidates of a round come from: the explorer, and seeds from transfers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from prune_engine import contracts
from prune_engine.candidates import CandidateBatch
from prune_engine.config import EngineConfig
from prune_engine.contracts import STRATEGY_FAILURES
from prune_engine.pipeline import Pipeline
from prune_engine.standing import OnFailure
from prune_engine.store.base import Store
from prune_engine.strategy_set import Strategies
from prune_engine.task_state import TaskState


class Sources:
    """Asks the explorer and the transfers; what they return is checked, a transfer that fails is asked no more."""

    def __init__(
        self,
        strategies: Strategies,
        pipeline: Pipeline,
        config: EngineConfig,
        store: Store,
        rng: np.random.Generator,
        on_failure: OnFailure,
    ) -> None:
        self._strategies, self._pipeline, self._config = strategies, pipeline, config
        self._store, self._rng, self._on_failure = store, rng, on_failure
        self._failed_transfers: set[str] = set()

    def proposals(self, state: TaskState) -> Sequence[CandidateBatch]:
        """What the explorer proposes for an open task; without a working one the task ends."""
        explorer, space = self._strategies.explorer, state.space
        assert space is not None, "only open tasks get here"
        try:
            batches = explorer.propose(space, self._config.explore_size, self._pipeline.fitness, self._rng)
            return contracts.check_batches(explorer.name, batches, space)
        except STRATEGY_FAILURES as error:  # the plugin boundary: recorded, not swallowed
            # Nothing can go on without an explorer; it may still manage the spaces of other tasks.
            self._on_failure(explorer, error)
            state.stop_reason = "explorer_failed"
            return []

    def seeds(self, state: TaskState, limit: int) -> list[CandidateBatch]:
        """At most ``limit`` transferred schedules for an open task, those of earlier transfers first."""
        seeds: list[CandidateBatch] = []
        space = state.space
        assert space is not None, "only open tasks get here"
        for transfer in self._strategies.transfers:
            if transfer.name in self._failed_transfers:
                continue
            try:
                batches = transfer.propose(state.task, space, self._store, limit)
                seeds += contracts.check_batches(transfer.name, batches, space)
            except STRATEGY_FAILURES as error:  # the plugin boundary: recorded, not swallowed
                self._failed_transfers.add(transfer.name)
                self._on_failure(transfer, error)
        left = limit
        for number, batch in enumerate(seeds):
            seeds[number] = batch.take(np.arange(min(left, len(batch))))
            left -= len(seeds[number])
        return seeds
