"""A task's kernel, and the nests of its sketches: what the interpreter offers to the rest of the adapter."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from prune_engine.metaschedule.interpreter.copying import copied
from prune_engine.metaschedule.interpreter.instructions import LocationNeededError, TraceRunner
from prune_engine.metaschedule.interpreter.locations import ROOT
from prune_engine.metaschedule.interpreter.reading import read_tree
from prune_engine.metaschedule.interpreter.source import InterpretedSketch, TargetFacts
from prune_engine.metaschedule.interpreter.trace_reading import Instruction, read_trace
from prune_engine.space import Int32Array, Sketch, Variable
from prune_engine.symbols.evaluate import TableValues, evaluate
from prune_engine.symbols.expr import Expr

#: Structures tried to find the positions that a compute location can take.
_MAX_STRUCTURES = 24
#: Settings of the tiles under which a position must exist at least once.
_N_SETTINGS = 4096


class KernelReader:
    """Reads the sketches of one kernel."""

    def __init__(self, mod: Any, facts: TargetFacts) -> None:
        """Read the kernel. Raises NotInterpretedError."""
        self._tree, self._facts = read_tree(mod), facts

    def locations(self, trace: Any, variables: Sequence[Variable]) -> dict[int, list[int]]:
        """Positions that each location variable can take, ascending, by variable. Raises NotInterpretedError.

        Which there are depends on tiles and on the locations before; what exists for some is listed for all.
        ``variables`` are those before the first location.
        """
        instructions = read_trace(trace)
        tiles = _Tiles(variables)
        n_locations = _n_locations(instructions)
        found: dict[int, set[int]] = {}
        first = partial(TraceRunner, copied(self._tree), ())
        waiting: list[Callable[[], TraceRunner]] = [first] if n_locations else []
        n_tried = 0
        while waiting and n_tried < _MAX_STRUCTURES:
            runner = waiting.pop()()
            n_tried += 1
            try:
                runner.run(instructions)
            except LocationNeededError as needed:
                options = [p for p, exists in needed.options.items() if tiles.allow(exists)]
                found.setdefault(needed.variable, set()).update(options)
                if runner.n_taken + 1 < n_locations:
                    # What the others may do depends little on which of many loops it is: some are enough, and
                    # the way down goes first.
                    waiting.extend(partial(runner.forked, p, needed.taken) for p in _some(options))
        return {variable: sorted(positions) for variable, positions in found.items()}

    def interpreted(self, sketch: Sketch, trace: Any) -> Sketch:
        """The sketch with its loop nests and the subjects of its tiles. Raises NotInterpretedError."""
        instructions = read_trace(trace)
        nests = InterpretedSketch(self._tree, instructions, self._facts, TableValues(sketch))
        runner = self._run(instructions, (ROOT,) * _n_locations(instructions))
        variables = [replace(v, subject=runner.subjects.get(k)) for k, v in enumerate(sketch.variables)]
        for k, block in runner.moved.items():
            variables[k] = replace(variables[k], name=f"{k}.{block}")
        return replace(sketch, variables=tuple(variables), nests=nests)

    def _run(self, instructions: Sequence[Instruction], taken: tuple[int, ...]) -> TraceRunner:
        runner = TraceRunner(copied(self._tree), taken)
        runner.run(instructions)
        return runner


def _n_locations(instructions: Sequence[Instruction]) -> int:
    return sum(inst.kind == "SampleComputeLocation" for inst in instructions)


class _Tiles:
    """Settings of the tiles before a location: which of their parts are more than 1 is all that matters to it."""

    def __init__(self, variables: Sequence[Variable]) -> None:
        self._tables = TableValues(Sketch(0, "", tuple(variables)))
        self._n_variables = len(variables)
        rng = np.random.default_rng(0)
        columns = [rng.choice(_one_of_each_pattern(v), _N_SETTINGS) for v in variables]
        self._rows = np.stack(columns, axis=1).astype(np.int32) if columns else np.zeros((1, 0), dtype=np.int32)

    def allow(self, exists: Expr) -> bool:
        """Whether a condition holds under some setting."""
        if exists.constant is not None:
            return bool(exists.constant)
        if exists.variables[-1] >= self._n_variables:
            return True  # it depends on what is sampled later
        return bool(evaluate([exists], self._tables, self._rows)[0].any())


def _one_of_each_pattern(variable: Variable) -> Int32Array:
    """One row of a table for each pattern of parts that are more than 1."""
    return np.unique(variable.table > 1, axis=0, return_index=True)[1].astype(np.int32)


def _some(options: Sequence[int]) -> list[int]:
    """The root, inlining, the outermost, the middle and the innermost of the loops there are."""
    loops = [p for p in options if p >= 0]
    chosen = [p for p in options if p < 0]
    if loops:
        chosen += [loops[0], loops[len(loops) // 2], loops[-1]]
    return sorted(set(chosen))
