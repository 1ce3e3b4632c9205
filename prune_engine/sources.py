"""Where the candidates of a round come from: the explorer."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from prune_engine import contracts
from prune_engine.candidates import CandidateBatch
from prune_engine.config import EngineConfig
from prune_engine.contracts import STRATEGY_FAILURES
from prune_engine.enumeration import drawn
from prune_engine.pipeline import Pipeline
from prune_engine.space import DesignSpace
from prune_engine.standing import OnFailure
from prune_engine.strategies import Fitness
from prune_engine.strategy_set import Strategies
from prune_engine.task_state import TaskState
from prune_engine.verdicts import Float64Array


class Sources:
    """Asks the explorer; what it returns is checked.

    One that fails is not asked for the same task again: its candidates are drawn uniformly from then on.
    """

    def __init__(
        self,
        strategies: Strategies,
        pipeline: Pipeline,
        config: EngineConfig,
        rng: np.random.Generator,
        on_failure: OnFailure,
    ) -> None:
        self._strategies, self._pipeline, self._config = strategies, pipeline, config
        self._rng, self._on_failure = rng, on_failure
        self._tasks_without_explorer: set[str] = set()

    def proposals(self, state: TaskState) -> Sequence[CandidateBatch]:
        """What the explorer proposes for an open task, or draws where it failed."""
        explorer, space = self._strategies.explorer, state.space
        assert space is not None, "only open tasks get here"
        if state.task.task_id in self._tasks_without_explorer:
            return self._drawn(space)
        fitness = _CheckedFitness(explorer.name, space, self._pipeline.fitness)
        try:
            proposed = explorer.propose(space, self._config.explore_size, fitness, self._rng)
            batches = contracts.check_batches(explorer.name, proposed, space)
        except STRATEGY_FAILURES as error:  # the plugin boundary: recorded, not swallowed
            self._on_failure(explorer, error)
            self._tasks_without_explorer.add(state.task.task_id)  # it may still manage the spaces of others
            return self._drawn(space)
        # One that proposes nothing of fitness 0 would leave a task untried where rules drop everything.
        is_untried = not state.ranking and not any(map(len, batches))
        return self._drawn(space) if is_untried else batches

    def _drawn(self, space: DesignSpace) -> list[CandidateBatch]:
        """Uniform draws, as many from each sketch."""
        sketches = [sketch for sketch in space.sketches if sketch.size]
        share = -(-self._config.explore_size // max(1, len(sketches)))
        return [CandidateBatch(space, s, drawn(s, min(share, s.size), self._rng)) for s in sketches]


class _CheckedFitness:
    """What an explorer climbs on; asked about what is no batch of the space, it names the explorer.

    Draft, verifier and rules would otherwise be blamed for what they were asked.
    """

    def __init__(self, explorer: str, space: DesignSpace, fitness: Fitness) -> None:
        self._explorer, self._space, self._fitness = explorer, space, fitness

    def __call__(self, batch: CandidateBatch) -> Float64Array:
        contracts.check_asked(self._explorer, batch, self._space)
        return self._fitness(batch)
