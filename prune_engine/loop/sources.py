"""Where the candidates of a round come from: the explorer."""

from __future__ import annotations

import zlib
from collections.abc import Sequence

import numpy as np

from prune_engine import contracts
from prune_engine.candidates import CandidateBatch
from prune_engine.config import EngineConfig
from prune_engine.contracts import STRATEGY_FAILURES
from prune_engine.enumeration import drawn
from prune_engine.errors import PluginTimeoutError
from prune_engine.loop.task_state import TaskState
from prune_engine.pipeline import Pipeline
from prune_engine.plugin_host.call_guard import called_back
from prune_engine.space import BoolArray, DesignSpace, VariableKind
from prune_engine.stages.standing import OnFailure
from prune_engine.strategies import Fitness
from prune_engine.strategy_set import Strategies
from prune_engine.verdicts import Float64Array

#: Trials of a task up to which it has the first share of probes: then there are labels to calibrate a draft on.
_FIRST_PROBED = 16
#: By which power of its fitness a candidate is likelier to be drawn as a probe.
_PROBE_SHARPNESS = 4.0
#: Structures, of all sketches together, that probes are drawn from.
_PROBED_STRUCTURES = 24


class Sources:
    """Asks the explorer; what it returns is checked.

    One that fails is not asked for the same task again, and one that hangs for none: candidates are drawn uniformly
    from then on.
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
        #: Whether it took too long for one task: no other is made to wait for it.
        self._has_hung = False

    def proposals(self, state: TaskState) -> Sequence[CandidateBatch]:
        """What the explorer proposes for an open task, or draws where it failed."""
        explorer, space = self._strategies.explorer, state.space
        assert space is not None, "only open tasks get here"
        if self._has_hung or state.task.task_id in self._tasks_without_explorer:
            return self._drawn(space)
        fitness = _CheckedFitness(explorer.name, space, called_back(self._pipeline.fitness))
        try:
            size = self._config.explore_size
            proposed = self._pipeline.ask(explorer, explorer.propose, space, size, fitness, self._rng)
            batches = contracts.check_batches(explorer.name, proposed, space)
        except STRATEGY_FAILURES as error:  # the plugin boundary: recorded, not swallowed
            self._on_failure(explorer, error)
            self._has_hung = isinstance(error, PluginTimeoutError)
            self._tasks_without_explorer.add(state.task.task_id)  # it may still manage the spaces of others
            return self._drawn(space)
        # One that proposes nothing of fitness 0 would leave a task untried where rules drop everything.
        is_untried = not state.ranking and not any(map(len, batches))
        return self._drawn(space) if is_untried else batches

    def probes(self, state: TaskState, k: int) -> list[CandidateBatch]:
        """Candidates to measure for what they teach, of a batch of ``k``: drawn, the better the likelier.

        What is measured because it is thought best shows where guesses are too hopeful, never where they are too
        gloomy: a draft calibrated on its own first picks stays wrong about all others.
        """
        config, space = self._config, state.space
        assert space is not None, "only open tasks get here"
        share = config.first_probe_share if state.n_trials < _FIRST_PROBED else config.probe_share
        n = int(k * share + self._rng.random())  # rounded at random, so that small batches get theirs at times
        batches = self._known_structures(state) if n else []
        fitness = [self._pipeline.fitness(batch) for batch in batches]
        worth = np.concatenate([np.empty(0), *fitness])
        if not worth.any() or worth.min() == worth.max():  # nothing to go by
            return []
        # The largest of these are a draw without replacement: Efraimidis and Spirakis (2006), by Gumbel's noise.
        with np.errstate(divide="ignore"):
            keys = _PROBE_SHARPNESS * np.log(worth) + self._rng.gumbel(size=len(worth))
        is_drawn = np.zeros(len(worth), dtype=np.bool_)
        is_drawn[np.argsort(-keys, kind="stable")[: min(n, int((worth > 0).sum()))]] = True
        parts = np.split(is_drawn, np.cumsum([len(batch) for batch in batches])[:-1])
        return [batch.take(part) for batch, part in zip(batches, parts, strict=True) if part.any()]

    def _known_structures(self, state: TaskState) -> list[CandidateBatch]:
        """Unmeasured candidates drawn alike, but of a few structures only, the same in each round.

        Each structure has to be read, which takes longer than scoring a thousand candidates of it.
        """
        assert state.space is not None, "only open tasks get here"
        drawn_rows = self._drawn(state.space)
        most = max(1, _PROBED_STRUCTURES // max(1, len(drawn_rows)))
        found = []
        for batch in drawn_rows:
            unseen = batch.take(state.seen.unseen(batch))
            kept = _of_structures(unseen, most)
            found.append(unseen if kept.all() else unseen.take(kept))
        return found

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


def _of_structures(batch: CandidateBatch, most: int) -> BoolArray:
    """Which candidates are of the first ``most`` structures by a hash of their compute locations, bool (n,)."""
    variables = batch.sketch.variables
    located = [v for v, variable in enumerate(variables) if variable.kind is VariableKind.LOCATION]
    keep = np.ones(len(batch), dtype=np.bool_)
    if not located or not len(batch):
        return keep
    combinations, numbers = np.unique(batch.indices[:, located], axis=0, return_inverse=True)
    order = np.argsort([zlib.crc32(row.tobytes()) for row in combinations], kind="stable")
    keep[:] = np.isin(numbers.reshape(-1), order[:most])
    return keep
