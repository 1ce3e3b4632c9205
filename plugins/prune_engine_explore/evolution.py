"""The explorer that climbs: everything in small spaces, evolution and descent in large ones."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from prune_engine.candidates import CandidateBatch
from prune_engine.measurement import Measurement
from prune_engine.space import DesignSpace, Int32Array, Sketch
from prune_engine.strategies import Explorer, Fitness
from prune_engine_explore.choice import chosen_rows
from prune_engine_explore.exhaustive import score_all, scoring_cost
from prune_engine_explore.keys import KeySet, row_keys
from prune_engine_explore.memory import TaskMemory
from prune_engine_explore.neighbours import NeighbourTables
from prune_engine_explore.search import Effort, Search
from prune_engine_explore.uniform import UniformExplorer

#: A task's first round, when nothing is known of it, and every later one.
FIRST = Effort(n_scored=65536, n_generations=6, drawn_share=0.3, n_structures=60)
LATER = Effort(n_scored=16384, n_generations=3, drawn_share=0.15, n_structures=20)
#: Spaces that cost no more than so many candidates to score are scored completely in each round.
EXHAUSTIVE_COST = 1 << 17
#: One of so many is drawn blindly: rules are audited on what they would drop, not on what is good.
_BLIND_EVERY = 16
#: Candidates that are kept for the next round, per candidate wanted.
_KEPT = 2


class EvolutionExplorer(Explorer):
    """Searches a space for candidates of high fitness.

    A small space is scored completely. In a larger one a population per sketch evolves: all small steps of
    the best candidates, mutants and crossings of good ones, copies between sketches, random draws. One small
    step is a prime factor of a tile moved to another level, or another value of another variable. Steps from
    the fastest measured candidates are always among what is proposed, whatever their fitness, if it is not 0.
    What was good but not measured is scored again in the next round. As long as there is no fitness, or the
    same for all, candidates are drawn uniformly.
    """

    name = "explore.evolution"

    def __init__(
        self, *, first: Effort = FIRST, later: Effort = LATER, exhaustive_cost: int = EXHAUSTIVE_COST
    ) -> None:
        """Set what a task's first round may cost, what later ones, and up to which cost a space is scored whole."""
        self._first, self._later, self._exhaustive_cost = first, later, exhaustive_cost
        self._tasks: dict[str, TaskMemory] = {}
        self._neighbours = NeighbourTables()
        self._uniform = UniformExplorer()

    def propose(
        self, space: DesignSpace, n: int, fitness: Fitness | None, rng: np.random.Generator
    ) -> Sequence[CandidateBatch]:
        """Propose about ``n`` distinct candidates that were not measured; fewer where few have a fitness."""
        memory = self._tasks.setdefault(space.task.task_id, TaskMemory())
        found = [] if fitness is None else self._climbed(space, memory, n, fitness, rng)
        if not found:
            found = [(b.sketch, b.indices) for b in self._uniform.propose(space, n, None, rng)]
        return [CandidateBatch(space, sketch, _new_rows(rows, memory, sketch)) for sketch, rows in found]

    def update(self, batch: CandidateBatch, measurements: Sequence[Measurement]) -> None:
        """Never propose these again; look around the fastest."""
        self._tasks.setdefault(batch.space.task.task_id, TaskMemory()).learn(batch, measurements)

    def _climbed(
        self, space: DesignSpace, memory: TaskMemory, n: int, fitness: Fitness, rng: np.random.Generator
    ) -> list[tuple[Sketch, Int32Array]]:
        """What the search finds, for each sketch int32 (m, v), best first; nothing where no score differs."""
        search = Search(space, memory, self._neighbours, fitness, _KEPT * n, rng)
        if not search.fields or not n:
            return []
        if scoring_cost(space) <= self._exhaustive_cost:
            score_all(search.fields)
        else:
            search.run(self._later if memory.is_searched else self._first)
        scores = [field.population.scores for field in search.fields if len(field.population)]
        if not scores or max(part[0] for part in scores) == min(part[-1] for part in scores):
            return []
        memory.is_searched = True
        floor = np.sort(np.concatenate(scores))[-_KEPT * n :][0]
        for field in search.fields:
            field.memory.kept = field.population.rows[field.population.scores >= floor]
        n_blind = -(-n // _BLIND_EVERY)
        rows, blind = chosen_rows(search.fields, n - n_blind), search.blind(n_blind)
        return [(f.sketch, np.concatenate(parts)) for f, *parts in zip(search.fields, rows, blind, strict=True)]


def _new_rows(rows: Int32Array, memory: TaskMemory, sketch: Sketch) -> Int32Array:
    """The distinct rows that were not measured, in order."""
    keys = row_keys(rows)
    new = KeySet().add(keys)
    return np.ascontiguousarray(rows[new[~memory.of(sketch).measured.holds(keys[new])]])
