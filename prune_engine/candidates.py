"""Candidates as rows of choice indices."""

from __future__ import annotations

import abc
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from prune_engine.errors import PluginContractError
from prune_engine.space import DesignSpace, Int32Array, Sketch
from prune_engine.symbols.table import Column, compute_column

Decision = tuple[int, ...]


class Divisible(abc.ABC):
    """What symbols share of a batch, if it is of use for a part of that batch as well."""

    @abc.abstractmethod
    def part(self, indices: Int32Array, rows: NDArray[np.integer] | NDArray[np.bool_]) -> Divisible:
        """The same of the candidates at ``rows`` (positions or a mask), which are ``indices``, int32 (m, v)."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """One candidate that lives on: its identity and the decision of every variable, in sketch order."""

    candidate_id: str
    sketch_index: int
    decisions: tuple[Decision, ...]


@dataclass(frozen=True, slots=True, eq=False)
class CandidateBatch:
    """n candidates of one sketch: ``indices`` is int32 (n, v), row numbers of the sketch's choice tables.

    The batch sees ``indices`` read-only, as it is shared by all strategies. Equal only to itself.
    """

    space: DesignSpace = field(repr=False)
    sketch: Sketch = field(repr=False)
    indices: Int32Array
    #: Room for what symbols of one batch share (`symbols.structure`). What is `Divisible` is passed on by ``take``.
    shared: dict[str, object] = field(default_factory=dict, init=False, repr=False)
    _symbols: dict[str, Column] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        shape = (len(self.indices), len(self.sketch.variables))
        if self.indices.dtype != np.int32 or self.indices.shape != shape:
            raise ValueError(
                f"a batch of this sketch is int32 (n, {shape[1]}), got {self.indices.dtype} {self.indices.shape}"
            )
        view = self.indices.view()
        view.flags.writeable = False
        object.__setattr__(self, "indices", view)

    def __len__(self) -> int:
        return len(self.indices)

    def take(self, rows: NDArray[np.integer] | NDArray[np.bool_]) -> CandidateBatch:
        """The candidates at ``rows`` (positions or a mask)."""
        part = CandidateBatch(self.space, self.sketch, np.ascontiguousarray(self.indices[rows]))
        for name, value in self.shared.items():
            if isinstance(value, Divisible):
                part.shared[name] = value.part(part.indices, rows)
        return part

    def is_allowed(self) -> NDArray[np.bool_]:
        """Which candidates hold only rows that the sketch still allows, bool (n,)."""
        return self.sketch.allows(self.indices)

    def column(self, variable: int) -> Int32Array:
        """The decisions of one variable, int32 (n, p)."""
        return self.sketch.variables[variable].table[self.indices[:, variable]]

    @property
    def is_opaque(self) -> bool:
        """Whether the sketch's loops could not be read, so that symbols of the loop nest do not exist."""
        return self.sketch.nests is None

    def knows(self, *names: str) -> bool:
        """Whether all of these symbols can be asked for: given with the space, or registered and not opaque."""
        space = self.space
        return all(name in space.given or (not self.is_opaque and name in space.symbols) for name in names)

    def symbol(self, name: str) -> Column:
        """A symbol's column, float64 or int64 (n,), read-only: computed once per batch, when first asked for.

        Raises PluginContractError for a name that nobody registered, or a column of the wrong form.
        """
        if name not in self._symbols:
            definition = self.space.given.get(name) or self.space.symbols.get(name)
            if definition is None:
                known = sorted({*self.space.given, *self.space.symbols})
                raise PluginContractError(
                    "no such symbol",
                    who=f"symbol {name!r}",
                    expected="one of: " + (", ".join(known) or "(none is registered)"),
                )
            self._symbols[name] = compute_column(definition, self)
        return self._symbols[name]

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


class SeenRows:
    """The candidates of a space that need not be proposed again, tested batch-wise."""

    def __init__(self) -> None:
        self._rows: dict[int, set[bytes]] = {}

    def add(self, sketch_index: int, indices: Int32Array) -> None:
        """Remember rows, int32 (n, v), of one sketch."""
        self._rows.setdefault(sketch_index, set()).update(_as_bytes(indices))

    def unseen(self, batch: CandidateBatch) -> NDArray[np.bool_]:
        """Which rows of a batch are new, bool (n,); later ones of equal rows count as seen."""
        # Hashing each row costs about 1 ms for 2048 rows, no more than sorting them with numpy.
        taken = set(self._rows.get(batch.sketch.index, ()))
        keep = np.zeros(len(batch), dtype=np.bool_)
        for position, row in enumerate(_as_bytes(batch.indices)):
            if row not in taken:
                taken.add(row)
                keep[position] = True
        return keep

    def count(self, sketch_index: int) -> int:
        """How many rows of a sketch were seen."""
        return len(self._rows.get(sketch_index, ()))


def _as_bytes(indices: Int32Array) -> list[bytes]:
    """Each row, int32 (n, v), as a hashable."""
    rows = np.ascontiguousarray(indices, dtype=np.int32)
    width = 4 * rows.shape[1]
    content = rows.tobytes()
    return [content[i * width : (i + 1) * width] for i in range(len(rows))]


def rows_of(sketch: Sketch, decisions: Sequence[Decision]) -> Int32Array | None:
    """The choice indices of decisions, int32 (v,), or None if a table does not hold one of them."""
    if len(decisions) != len(sketch.variables):
        return None
    rows = [variable.index_of(d) for variable, d in zip(sketch.variables, decisions, strict=True)]
    return None if None in rows else np.array(rows, dtype=np.int32)


def candidate_id(task_id: str, sketch_id: str, decisions: Sequence[Sequence[int]]) -> str:
    """Identity of a candidate: a hash of the task, the structure and the decisions (values, not rows)."""
    text = ";".join(",".join(str(int(x)) for x in decision) for decision in decisions)
    return hashlib.blake2b(f"{task_id}|{sketch_id}|{text}".encode(), digest_size=12).hexdigest()
