"""The loop nests of a sketch's candidates: one structure per set of compute locations, read when first met."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from prune_engine.metaschedule.interpreter.copying import copied
from prune_engine.metaschedule.interpreter.finish import loop_nest
from prune_engine.metaschedule.interpreter.gpu_limits import GpuLimits
from prune_engine.metaschedule.interpreter.instructions import LocationNeededError, TraceRunner
from prune_engine.metaschedule.interpreter.postprocs import post_process
from prune_engine.metaschedule.interpreter.trace_reading import Instruction
from prune_engine.metaschedule.interpreter.tree import Tree
from prune_engine.space import Int32Array
from prune_engine.symbols.evaluate import TableValues, evaluate
from prune_engine.symbols.expr import Expr, as_expr, both, part
from prune_engine.symbols.loop_nest import LoopNest
from prune_engine.symbols.structure import NestGroup

#: Structures kept for the next batch, those included that are read as far as a location only: about 35 KB each.
_MAX_KEPT = 2000


@dataclass(frozen=True, slots=True)
class TargetFacts:
    """What of a target changes a nest: its kind, and a GPU's limits."""

    kind: str
    limits: GpuLimits | None


@dataclass
class _Step:
    """What follows from the locations taken so far: the nest, or what the next location is."""

    nest: LoopNest | None = None
    variable: int = -1
    taken: Expr | None = None
    #: Who stands where the next location is needed, and goes on from there under each.
    paused: TraceRunner | None = None
    inner: dict[int, _Step] = field(default_factory=dict)


class InterpretedSketch:
    """A NestSource over a trace. Reading a structure costs milliseconds, once; the rest is columns."""

    def __init__(
        self, tree: Tree, instructions: Sequence[Instruction], facts: TargetFacts, tables: TableValues
    ) -> None:
        """``tree`` is the unscheduled kernel; it is copied for each structure."""
        self._tree, self._instructions, self._facts = tree, instructions, facts
        self._tables = tables
        self._n_read = 0
        self._formulas: dict[object, dict[object, Expr]] = {}
        self._n_locations = sum(inst.kind == "SampleComputeLocation" for inst in instructions)
        self._first = self._start()

    @property
    def tables(self) -> TableValues:
        """Values per row of the sketch's choice tables."""
        return self._tables

    def groups(self, indices: Int32Array) -> Sequence[NestGroup]:
        """The structures of candidates, int32 (n, v). Raises NotInterpretedError for one that cannot be read."""
        if self._n_read > _MAX_KEPT:  # some spaces have tens of thousands
            self._n_read = 0
            self._first.inner.clear()
            self._formulas.clear()
            self._tables.forget()
        found: list[NestGroup] = []
        self._collect(self._first, indices, None, found)
        return found

    def canonical(self, indices: Int32Array) -> NDArray[np.bool_]:
        """Whose decisions are those that run, bool (n,). The others' structures are not read."""
        found = np.ones(len(indices), dtype=np.bool_)
        self._find_canonical(self._first, 0, indices, np.arange(len(indices)), found)
        return found

    def _collect(
        self,
        step: _Step,
        indices: Int32Array,
        rows: NDArray[np.int64] | None,
        found: list[NestGroup],
    ) -> None:
        if step.nest is not None:
            found.append(NestGroup(step.nest, rows))
            return
        assert step.taken is not None
        mine = indices if rows is None else indices[rows]
        (column,) = evaluate([step.taken], self._tables, mine)
        for location in np.unique(column).tolist():
            chosen = np.flatnonzero(column == location)
            inner = self._inner(step, location)
            self._collect(inner, indices, chosen if rows is None else rows[chosen], found)

    def _find_canonical(
        self,
        step: _Step,
        n_taken: int,
        indices: Int32Array,
        rows: NDArray[np.intp],
        found: NDArray[np.bool_],
    ) -> None:
        if step.taken is None:
            return
        column, decided = evaluate([step.taken, part(step.variable, 0)], self._tables, indices[rows])
        found[rows[column != decided]] = False
        if n_taken + 1 == self._n_locations:
            return
        for location in np.unique(column[column == decided]).tolist():
            chosen = rows[(column == location) & (decided == location)]
            self._find_canonical(self._inner(step, location), n_taken + 1, indices, chosen, found)

    def _inner(self, step: _Step, location: int) -> _Step:
        if location not in step.inner:
            assert step.paused is not None
            assert step.taken is not None
            step.inner[location] = self._step(step.paused.forked(location, step.taken))
        return step.inner[location]

    def _step(self, runner: TraceRunner) -> _Step:
        self._n_read += 1
        try:
            runner.run(self._instructions)
        except LocationNeededError as needed:
            return _Step(variable=needed.variable, taken=needed.taken, paused=runner)
        limits = self._facts.limits
        done = post_process(runner, self._facts.kind, limits.max_threads_per_block if limits else 1)
        is_canonical = as_expr(1)
        for variable, chosen in runner.locations:
            is_canonical = both(is_canonical, chosen.eq(part(variable, 0)))
        return _Step(nest=loop_nest(done, is_canonical, limits, self._formulas))

    def _start(self) -> _Step:
        """What follows from no location at all."""
        tree = copied(self._tree)
        tree.tables = self._tables
        return self._step(TraceRunner(tree, ()))
