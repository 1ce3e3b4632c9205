"""Candidates as rows of choice indices."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from prune_engine.space import DesignSpace, Int32Array, Sketch

Decision = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Candidate:
    """One candidate that lives on: its identity and the decision of every variable, in sketch order."""

    candidate_id: str
    sketch_index: int
    decisions: tuple[Decision, ...]


@dataclass(frozen=True, slots=True)
class CandidateBatch:
    """n candidates of one sketch: ``indices`` is int32 (n, v), row numbers of the sketch's choice tables."""

    space: DesignSpace = field(repr=False)
    sketch: Sketch = field(repr=False)
    indices: Int32Array

    def __post_init__(self) -> None:
        shape = (len(self.indices), len(self.sketch.variables))
        if self.indices.dtype != np.int32 or self.indices.shape != shape:
            raise ValueError(
                f"a batch of this sketch is int32 (n, {shape[1]}), got {self.indices.dtype} {self.indices.shape}"
            )

    def __len__(self) -> int:
        return len(self.indices)

    def take(self, rows: NDArray[np.integer] | NDArray[np.bool_]) -> CandidateBatch:
        """The candidates at ``rows`` (positions or a mask)."""
        return CandidateBatch(self.space, self.sketch, np.ascontiguousarray(self.indices[rows]))

    def column(self, variable: int) -> Int32Array:
        """The decisions of one variable, int32 (n, p)."""
        return self.sketch.variables[variable].table[self.indices[:, variable]]

    def decision_matrix(self) -> Int32Array:
        """All decisions side by side, int32 (n, sum of the tables' widths)."""
        if not self.sketch.variables:
            return np.empty((len(self), 0), dtype=np.int32)
        return np.concatenate([self.column(v) for v in range(len(self.sketch.variables))], axis=1)

    def candidate(self, row: int) -> Candidate:
        """The candidate at one row, with its identity. Not for hot paths."""
        decisions = tuple(
            tuple(int(x) for x in variable.table[index])
            for variable, index in zip(self.sketch.variables, self.indices[row], strict=True)
        )
        return Candidate(
            candidate_id(self.space.task.task_id, self.sketch.sketch_id, decisions), self.sketch.index, decisions
        )


def candidate_id(task_id: str, sketch_id: str, decisions: Sequence[Sequence[int]]) -> str:
    """Identity of a candidate: a hash of the task, the structure and the decisions (values, not rows)."""
    text = ";".join(",".join(str(int(x)) for x in decision) for decision in decisions)
    return hashlib.blake2b(f"{task_id}|{sketch_id}|{text}".encode(), digest_size=12).hexdigest()
