"""Candidates of one sketch as candidates of another that decides the same things, as far as it does."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from prune_engine.space import Int32Array, Sketch, Variable


@dataclass(frozen=True, slots=True)
class Translation:
    """``parts[v]`` tells of the target's variable v which variable of the source decides the same, and the target's
    row for each of that one's rows, int32 (m,), -1 where it has none; None where nothing in the source decides it.
    """

    parts: tuple[tuple[int, Int32Array] | None, ...]

    def __call__(self, rows: Int32Array, defaults: Int32Array) -> Int32Array:
        """The candidates ``rows``, int32 (n, v), in the target, int32 (n, w); what they leave open is as in
        ``defaults``, int32 (n, w).
        """
        translated: Int32Array = defaults.copy()
        for v, part in enumerate(self.parts):
            if part is not None:
                variable, row_of = part
                found = row_of[rows[:, variable]]
                translated[:, v] = np.where(found >= 0, found, translated[:, v])
        return translated


class Translations:
    """Translations between the sketches of one task, worked out once per pair.

    Sketches of other tasks may have the same identities, which are of structures, and other choice tables.
    """

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], Translation | None] = {}

    def between(self, source: Sketch, target: Sketch) -> Translation | None:
        """The translation from one sketch into another; None where less than half is decided alike."""
        key = source.sketch_id, target.sketch_id
        if key not in self._known:
            self._known[key] = _translation(source, target)
        return self._known[key]


def _translation(source: Sketch, target: Sketch) -> Translation | None:
    by_name = {_meaning(variable): v for v, variable in enumerate(source.variables)}
    parts: list[tuple[int, Int32Array] | None] = []
    for variable in target.variables:
        v = by_name.get(_meaning(variable))
        row_of = None if v is None else _row_map(source.variables[v], variable)
        parts.append(None if v is None or row_of is None else (v, row_of))
    is_enough = 2 * sum(part is not None for part in parts) >= max(len(parts), 1)
    return Translation(tuple(parts)) if is_enough else None


def _meaning(variable: Variable) -> tuple[str, str]:
    """What a variable decides: its kind, and its name without the number of its place in the sketch."""
    number, _, rest = variable.name.partition(".")
    return variable.kind.value, rest if number.isdigit() and rest else variable.name


def _row_map(source: Variable, target: Variable) -> Int32Array | None:
    """The target's row of each of the source's choices, int32 (m,), -1 for none."""
    if source.table.shape[1] != target.table.shape[1]:
        return None
    if source.table is target.table:
        return np.arange(len(source.table), dtype=np.int32)
    rows = (target.index_of(decision) for decision in source.table.tolist())
    found: NDArray[np.int32] = np.array([-1 if row is None else row for row in rows], dtype=np.int32)
    return found
