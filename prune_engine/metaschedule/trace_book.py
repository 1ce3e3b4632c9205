"""Candidates that TVM made, as rows of choice tables: its traces are read as text, which is by far the fastest."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import numpy as np

from prune_engine.metaschedule import record_rows
from prune_engine.metaschedule.traces import plain
from prune_engine.space import Int32Array, Sketch, Variable, VariableKind

#: The decision at the end of a sampling instruction: numbers in a list, or one number.
_DECISION = re.compile(r"decision=(\[[^\]]*\]|-?\d+)\)$", re.MULTILINE)
_NO_DECISION = "decision=)"


class TraceBook:
    """Knows sketches by what their traces look like without decisions.

    Variables of a trace are numbered in their order, so traces that differ in decisions alone have one text.
    """

    def __init__(self) -> None:
        self._pages: dict[str, _Page] = {}

    def add(self, sketch: Sketch, trace: Any) -> None:
        """Make a sketch known by its trace, with or without what is dead or post-processing in it."""
        simplified = trace.simplified(True)
        structure, decisions = _read(simplified)
        n_all = sum(str(inst.kind.name).startswith("Sample") for inst in trace.insts)
        numbers = tuple(range(n_all))
        if len(decisions) != n_all:  # a variable that nothing uses decides nothing
            numbers = record_rows.structure_of(plain(trace.as_json())[0]).numbers
        self._pages.setdefault(structure, _Page(sketch, numbers))

    def find(self, trace: Any, make: Callable[[Any], Sketch | None] | None = None) -> tuple[int, Int32Array] | None:
        """The sketch's number and the rows, int32 (v,), of a trace; about 0.1 ms. None for what is in no sketch.

        ``make`` is asked once for the sketch of a structure that is not known; None if there is none.
        """
        simplified = trace.simplified(True)
        structure, decisions = _read(simplified)
        if structure not in self._pages:
            if make is None:
                return None
            made = make(simplified)
            self._pages[structure] = _Page(made, tuple(range(len(decisions))))
        page = self._pages[structure]
        rows = page.rows(decisions)
        return None if page.sketch is None or rows is None else (page.sketch.index, rows)


class _Page:
    """A sketch, None for a structure that cannot be one, and the variables that a trace of it decides."""

    def __init__(self, sketch: Sketch | None, numbers: tuple[int, ...]) -> None:
        self.sketch, self._numbers = sketch, numbers
        self._known: list[dict[str, int | None]] = [{} for _ in numbers]

    def rows(self, decisions: list[str]) -> Int32Array | None:
        """The rows of decisions in their order, int32 (v,); None if a table does not hold one of them."""
        if self.sketch is None or len(decisions) != len(self._numbers):
            return None
        found = np.zeros(len(self.sketch.variables), dtype=np.int32)
        for number, known, text in zip(self._numbers, self._known, decisions, strict=True):
            if text not in known:
                known[text] = _row(self.sketch.variables[number], json.loads(text))
            row = known[text]
            if row is None:
                return None
            found[number] = row
        return found


def _read(simplified: Any) -> tuple[str, list[str]]:
    """A trace's text without its decisions, and these."""
    text = "\n".join(simplified.as_python(True))
    return _DECISION.sub(_NO_DECISION, text), _DECISION.findall(text)


def _row(variable: Variable, decision: Any) -> int | None:
    if variable.kind is VariableKind.TILE:
        return variable.index_of(decision)
    if variable.kind is VariableKind.LOCATION:
        return variable.index_of((decision,))
    # TVM's decision is the number of the value; of equal values the first counts.
    in_table = 0 <= decision < len(variable.table)
    return variable.index_of(variable.table[decision].tolist()) if in_table else None
