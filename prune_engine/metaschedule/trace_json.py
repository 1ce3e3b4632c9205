"""Traces of many candidates of one sketch as TVM's JSON, written without TVM: only the decisions differ."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from prune_engine.errors import SpaceError
from prune_engine.metaschedule.traces import plain
from prune_engine.space import Sketch, Variable, VariableKind


class TraceWriter:
    """Writes the traces of one sketch. What it writes is ``trace_with(sketch, decisions).as_json()`` as text."""

    def __init__(self, sketch: Sketch) -> None:
        """Read the instructions once. Raises SpaceError for a sketch without a trace that fits its variables."""
        trace: Any = sketch.payload
        positions = [at for at, inst in enumerate(trace.insts) if str(inst.kind.name).startswith("Sample")]
        if len(positions) != len(sketch.variables):
            raise SpaceError(
                "its trace does not fit its variables",
                who=f"sketch {sketch.index}",
                got=f"{len(positions)} sampling instructions",
                expected=f"{len(sketch.variables)}",
            )
        self._instructions = _text(plain(trace.as_json())[0])
        self._positions, self._variables = positions, sketch.variables
        self._texts: list[dict[int, str]] = [{} for _ in positions]

    def text(self, indices: Sequence[int]) -> str:
        """The trace of one candidate, given by v row numbers: ``[instructions, decisions]``."""
        decisions = ",".join(self._decision(number, row) for number, row in enumerate(indices))
        return f"[{self._instructions},[{decisions}]]"

    def _decision(self, number: int, row: int) -> str:
        known = self._texts[number]
        if row not in known:
            known[row] = _text([self._positions[number], _value(self._variables[number], row)])
        return known[row]


def _value(variable: Variable, row: int) -> object:
    """A decision as TVM holds it: factors, the number of a categorical's value, or a loop's position."""
    choice = variable.table[row].tolist()
    if variable.kind is VariableKind.TILE:
        return choice
    return variable.index_of(choice) if variable.kind is VariableKind.CATEGORICAL else choice[0]


def _text(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))
