"""One round's search: a population for every sketch, offspring where the good ones are."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from prune_engine.space import DesignSpace, Int32Array, Sketch
from prune_engine.strategies import Fitness
from prune_engine.verdicts import Float64Array
from prune_engine_explore.breeding import offspring
from prune_engine_explore.draws import FEW_STRUCTURES, drawn_rows, that_run
from prune_engine_explore.keys import row_keys
from prune_engine_explore.memory import SketchMemory, TaskMemory
from prune_engine_explore.neighbours import Neighbours, NeighbourTables, all_steps
from prune_engine_explore.population import Population, drawn_parents
from prune_engine_explore.structures import Structures

#: Share of each generation that is shared out to the sketches alike; the rest follows the best candidates.
_EQUAL_SHARE = 0.4
#: Shares of a generation: all steps of the best, copies from other sketches, fresh draws.
_EXPANDED, _COPIED, _FRESH = 0.5, 0.1, 0.05
#: Candidates of other sketches whose structures are opened, if they are not.
_N_COPIED = 16
#: Structures in which a generation breeds, at least.
_N_FOCUS = 2
#: A sketch with so many candidates in each structure is searched in fewer of them, by this factor.
_MANY_CHOICES, _FEWER = 4096, 4


@dataclass(frozen=True, slots=True)
class Effort:
    """What a round may cost: ``n_scored`` candidates in all, a ``drawn_share`` of them random draws, the others in
    ``n_generations``. ``n_structures`` combinations of compute locations are opened, all sketches together.
    """

    n_scored: int
    n_generations: int
    drawn_share: float
    n_structures: int


@dataclass(slots=True)
class Field:
    """One sketch in a round's search.

    ``descent``, int32 (d, v), are one step from a measured incumbent; ``descent_scores``, float64 (d,), is empty
    until they were scored, then those of fitness 0 are gone.
    """

    sketch: Sketch
    population: Population
    memory: SketchMemory
    steps: tuple[Neighbours, ...]
    descent: Int32Array
    descent_scores: Float64Array


class Search:
    """Evolves the populations of a space's sketches. Each ends with its best ``capacity`` candidates."""

    def __init__(
        self,
        space: DesignSpace,
        memory: TaskMemory,
        neighbours: NeighbourTables,
        fitness: Fitness,
        capacity: int,
        rng: np.random.Generator,
    ) -> None:
        """Nothing is scored yet."""
        self._space, self._memory, self._neighbours = space, memory, neighbours
        self._capacity, self._rng = capacity, rng
        self.fields = [
            self._field(sketch, Population(space, sketch, fitness, capacity))
            for sketch in space.sketches
            if sketch.size
        ]

    def run(self, effort: Effort) -> None:
        """Score random draws and what earlier rounds know of, then generation after generation."""
        for field in self.fields:
            structures = field.memory.structures
            n_opened = _allowance(field, effort.n_structures / 2)
            n_here = math.ceil(n_opened / len(self.fields))
            self._open(field, field.descent, n_here // 2)
            self._open(field, field.descent[:0], n_here - n_here // 2)
            n_drawn = int(effort.n_scored * effort.drawn_share) // len(self.fields)
            drawn = drawn_rows(
                field.sketch, structures, n_drawn, self._rng, n_structures=max(int(n_opened), FEW_STRUCTURES)
            )
            descent = field.descent[structures.admits(field.descent)]
            score_first(field, np.concatenate([self._remembered(field), descent, drawn]))
        for generation in range(effort.n_generations):
            n_left = effort.n_scored - sum(field.population.n_scored for field in self.fields)
            if n_left <= 0:
                break
            n_opened = effort.n_structures / 2 / effort.n_generations
            self._generation(n_left // (effort.n_generations - generation), n_opened)

    def blind(self, n: int) -> list[Int32Array]:
        """About ``n`` candidates drawn from what is open, whatever their fitness, for each field int32 (m, v)."""
        share = -(-n // len(self.fields))
        return [drawn_rows(field.sketch, field.memory.structures, share, self._rng) for field in self.fields]

    def _field(self, sketch: Sketch, population: Population) -> Field:
        steps = self._neighbours.of_sketch(sketch)
        descent = all_steps(self._memory.incumbents(sketch), steps)
        descent = descent[sketch.allows(descent)]
        return Field(sketch, population, self._memory.of(sketch), steps, descent, np.empty(0))

    def _open(self, field: Field, near: Int32Array, n: int) -> None:
        """Open ``n`` more structures of a sketch, those of ``near`` first."""

        def keep(rows: Int32Array) -> Int32Array:
            return that_run(self._space, field.sketch, rows)

        field.memory.structures.open(n, field.sketch, near, keep, self._rng)

    def _remembered(self, field: Field) -> Int32Array:
        """What earlier rounds know of a sketch: the fastest, and what was good but not measured."""
        parts = [self._memory.incumbents(field.sketch)]
        if field.memory.kept is not None:
            parts.append(field.memory.kept)
        known = np.concatenate(parts)
        return known[field.sketch.allows(known)]

    def _generation(self, n: int, n_opened: float) -> None:
        for field, share in zip(self.fields, self._shares(), strict=True):
            near = self._opened(field, int(_allowance(field, n_opened) * share + self._rng.random()))
            n_bred = max(int(n * share) - len(near), 0)
            if len(near) or n_bred:
                field.population.add(np.concatenate([near, self._bred(field, n_bred)]))

    def _opened(self, field: Field, n: int) -> Int32Array:
        """Open ``n`` structures, those next to the best candidates first; returns these one step further."""
        structures = field.memory.structures
        best = field.population.rows
        if structures.is_single or not n:
            return best[:0]
        copied = self._copied(field, _N_COPIED)
        copied = copied[~structures.admits(copied)]
        near = np.concatenate([copied[:1], structures.steps(best, field.steps, self._rng), copied[1:]])
        self._open(field, near, n)
        return near[structures.admits(near)]

    def _shares(self) -> NDArray[np.float64]:
        """The share of a generation that each sketch gets, float64 (sketches,), summing up to 1."""
        scores = np.concatenate([field.population.scores for field in self.fields])
        owners = np.repeat(np.arange(len(self.fields)), [len(field.population) for field in self.fields])
        best = owners[np.argsort(-scores, kind="stable")[: self._capacity]]
        held = np.bincount(best, minlength=len(self.fields)) / max(len(best), 1)
        equal = np.full(len(self.fields), 1 / len(self.fields))
        return equal if not len(best) else _EQUAL_SHARE * equal + (1 - _EQUAL_SHARE) * held

    def _bred(self, field: Field, n: int) -> Int32Array:
        """About ``n`` candidates to score next, int32 (<= n, v), of few structures: each costs time per call."""
        population = field.population
        if not len(population):
            return drawn_rows(field.sketch, field.memory.structures, n, self._rng)
        few = self._focus(field, n)
        among = few.admits(population.rows)
        rows = population.rows[among]
        degree = max(1, round(sum(step.mean_count for step in field.steps)))
        expanded = all_steps(population.unexpanded(-(-int(n * _EXPANDED) // degree), among), field.steps)
        copied = self._copied(field, int(n * _COPIED))
        drawn = drawn_rows(field.sketch, few, int(n * _FRESH), self._rng)
        parts = [part[few.admits(part)][: int(n * _EXPANDED)] for part in (expanded, copied)]
        n_children = max(n - len(drawn) - sum(map(len, parts)), 0)
        mothers, fathers = (drawn_parents(rows, n_children, self._rng) for _ in range(2))
        return np.concatenate(
            [*parts, drawn, offspring(field.sketch, mothers, fathers, field.steps, few, self._rng)]
        )

    def _focus(self, field: Field, n: int) -> Structures:
        """The structures to breed in: that of the best candidate, and those of others as many as ``n`` need."""
        structures, rows = field.memory.structures, field.population.rows
        n_most = max(_N_FOCUS, -(-n // structures.n_choices))
        return structures.some(np.concatenate([rows[:1], drawn_parents(rows, n_most - 1, self._rng)]))

    def _defaults(self, field: Field, n: int) -> Int32Array:
        """``n`` good candidates of a sketch, drawn ones as long as there are none, int32 (n, v)."""
        if not len(field.population):
            return drawn_rows(field.sketch, field.memory.structures, n, self._rng)
        return drawn_parents(field.population.rows, n, self._rng)

    def _copied(self, field: Field, n: int) -> Int32Array:
        """The best of the other sketches as candidates of this one, int32 (<= n, v)."""
        sources = [
            (other.population.rows, translation)
            for other in self.fields
            if other is not field and (translation := self._memory.translations.between(other.sketch, field.sketch))
        ]
        parts = [field.population.rows[:0]]
        for rows, translation in sources:
            best = rows[: -(-n // len(sources))]
            parts.append(translation(best, self._defaults(field, len(best))))
        copied = np.concatenate(parts)
        return copied[field.sketch.allows(copied)]


def _allowance(field: Field, n: float) -> float:
    """How many structures a sketch may open where ``n`` are usual."""
    return n / _FEWER if field.memory.structures.n_choices >= _MANY_CHOICES else n


def score_first(field: Field, rows: Int32Array) -> None:
    """Score the first candidates of a round, int32 (n, v), and note which of them are steps from incumbents."""
    rows, scores = field.population.add(rows)
    at = np.isin(row_keys(rows), row_keys(field.descent))
    field.descent, field.descent_scores = rows[at], scores[at]
