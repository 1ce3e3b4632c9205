"""A task's kernel, and the nests of its sketches: what the interpreter offers to the rest of the adapter."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from prune_engine.metaschedule.interpreter.copying import copied
from prune_engine.metaschedule.interpreter.instructions import LocationNeededError, TraceRunner
from prune_engine.metaschedule.interpreter.reading import read_tree
from prune_engine.metaschedule.interpreter.source import InterpretedSketch, TargetFacts
from prune_engine.metaschedule.interpreter.trace_reading import Instruction, read_trace
from prune_engine.space import Sketch, Subject
from prune_engine.symbols.evaluate import TableValues

#: Structures tried to find the positions that a compute location can take.
_MAX_STRUCTURES = 24


class KernelReader:
    """Reads the sketches of one kernel."""

    def __init__(self, mod: Any, facts: TargetFacts) -> None:
        """Read the kernel. Raises NotInterpretedError."""
        self._tree, self._facts = read_tree(mod), facts

    def locations(self, trace: Any) -> dict[int, list[int]]:
        """Positions that each location variable can take, ascending, by variable. Raises NotInterpretedError.

        Which there are depends on tiles and on the locations before; what exists for some is listed for all.
        """
        instructions = read_trace(trace)
        n_locations = sum(inst.kind == "SampleComputeLocation" for inst in instructions)
        found: dict[int, set[int]] = {}
        waiting: list[tuple[int, ...]] = [()] if n_locations else []
        n_tried = 0
        while waiting and n_tried < _MAX_STRUCTURES:
            taken = waiting.pop()
            n_tried += 1
            try:
                self._run(instructions, taken)
            except LocationNeededError as needed:
                found.setdefault(needed.variable, set()).update(needed.options)
                if len(taken) + 1 < n_locations:
                    # What the others may do depends little on which of many loops it is: some are enough, and
                    # the way down goes first.
                    waiting.extend((*taken, p) for p in _some(needed.options))
        return {variable: sorted(positions) for variable, positions in found.items()}

    def interpreted(self, sketch: Sketch, trace: Any) -> Sketch:
        """The sketch with its loop nests and the subjects of its tiles. Raises NotInterpretedError."""
        instructions = read_trace(trace)
        nests = InterpretedSketch(self._tree, instructions, self._facts, TableValues(sketch))
        subjects = self._subjects(instructions)
        variables = tuple(replace(v, subject=subjects.get(k)) for k, v in enumerate(sketch.variables))
        return replace(sketch, variables=variables, nests=nests)

    def _run(self, instructions: Sequence[Instruction], taken: tuple[int, ...]) -> TraceRunner:
        runner = TraceRunner(copied(self._tree), taken)
        runner.run(instructions)
        return runner

    def _subjects(self, instructions: Sequence[Instruction]) -> dict[int, Subject]:
        runner = TraceRunner(copied(self._tree), ())
        with contextlib.suppress(LocationNeededError):  # tiles of what follows have no subject
            runner.run(instructions)
        return runner.subjects


def _some(options: Sequence[int]) -> list[int]:
    """The root, inlining, the outermost, the middle and the innermost of the loops there are."""
    loops = [p for p in options if p >= 0]
    chosen = [p for p in options if p < 0]
    if loops:
        chosen += [loops[0], loops[len(loops) // 2], loops[-1]]
    return sorted(set(chosen))
