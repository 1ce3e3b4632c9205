"""A task's design space: sketches whose variables are choice tables, with exact sizes.

A *variable* is a table of choices: each row is one decision (the factors of a tile, the value of a
categorical, the position of a compute location). Pruning the task space cuts rows; row numbers never
change, so a candidate's indices mean the same before and after.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from prune_engine.task import TuningTask

if TYPE_CHECKING:
    from prune_engine.symbols.structure import NestSource
    from prune_engine.symbols.table import SymbolDef

Int32Array = NDArray[np.int32]
BoolArray = NDArray[np.bool_]


class VariableKind(Enum):
    """What a row of a choice table means."""

    TILE = "tile"  #: factors of a loop extent, outermost first
    CATEGORICAL = "categorical"  #: one value out of a list
    LOCATION = "location"  #: a compute location: -2 inline, -1 root, else a loop's position


@dataclass(frozen=True, slots=True)
class Subject:
    """What a tile variable splits: an iterator of a statement.

    ``levels`` gives each part of the tile, outermost first, its place in the tiling structure: ``S0``, ``S1``,
    ... for the spatial levels from outside, ``R0``, ``R1``, ... for the reduction levels (TVM's SSRSRS and
    SSSRRSRS). ``is_contiguous`` says whether the iterator runs along the last dimension of what the statement
    writes: the one that is vectorised.
    """

    statement: str
    iterator: str
    is_reduction: bool
    is_contiguous: bool
    levels: tuple[str, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Variable:
    """One decision of a sketch. Equal only to itself.

    ``table`` is int32 (m, p): m choices of p numbers. ``rows`` is int32 (r,), strictly increasing: the
    choices still allowed. ``probs`` is float64 (m,), the prior of each choice. All are read-only, since
    every strategy is handed the same ones.
    """

    name: str
    kind: VariableKind
    table: Int32Array = field(repr=False)
    rows: Int32Array = field(repr=False)
    probs: NDArray[np.float64] = field(repr=False)
    #: What a tile splits, where the adapter could tell.
    subject: Subject | None = None
    #: Row number of each choice, filled at the first look-up; restricted copies share it.
    _numbers: dict[tuple[int, ...], int] = field(repr=False, default_factory=dict)

    def __post_init__(self) -> None:
        for array in (self.table, self.rows, self.probs):
            array.flags.writeable = False

    @staticmethod
    def of(
        name: str,
        kind: VariableKind,
        table: Int32Array,
        probs: Sequence[float] | None = None,
        subject: Subject | None = None,
    ) -> Variable:
        """Make a variable with every row allowed. Without ``probs`` the prior is uniform."""
        table = np.array(table, dtype=np.int32, order="C", ndmin=1) if _needs_copy(table) else table
        if table.ndim != 2 or not len(table):
            raise ValueError(f"variable {name}: a choice table is int32 (m, p) with m >= 1, got {table.shape}")
        prior = np.full(len(table), 1.0 / len(table)) if probs is None else np.asarray(probs, dtype=np.float64)
        if prior.shape != (len(table),) or not (prior >= 0).all() or prior.sum() <= 0:
            raise ValueError(f"variable {name}: {len(table)} choices need as many probabilities >= 0")
        return Variable(name, kind, table, np.arange(len(table), dtype=np.int32), prior / prior.sum(), subject)

    @property
    def size(self) -> int:
        """Number of choices still allowed."""
        return len(self.rows)

    def restrict(self, keep: BoolArray) -> Variable:
        """Cut the rows where ``keep``, bool (m,) over the *whole* table, is False."""
        if keep.shape != (len(self.table),) or keep.dtype != np.bool_:
            raise ValueError(
                f"variable {self.name}: a restriction is bool ({len(self.table)},), got {keep.dtype} {keep.shape}"
            )
        return replace(self, rows=self.rows[keep[self.rows]])

    def index_of(self, decision: Sequence[int]) -> int | None:
        """Row number of a decision, or None if the table does not hold it."""
        if not self._numbers:
            rows = self.table.tolist()
            self._numbers.update((tuple(rows[i]), i) for i in reversed(range(len(rows))))  # the first of equals
        return self._numbers.get(tuple(int(x) for x in decision))


@dataclass(frozen=True, slots=True)
class Sketch:
    """One structure of a design space: a fixed sequence of transformations with open decisions.

    ``sketch_id`` is a hash of the structure alone. ``payload`` belongs to the adapter (a trace). ``nests``
    gives the loop nests of its candidates; it is None for an *opaque* sketch, and ``opaque_reason`` says why.
    """

    index: int
    sketch_id: str
    variables: tuple[Variable, ...]
    payload: object = field(repr=False, compare=False, default=None)
    nests: NestSource | None = field(repr=False, compare=False, default=None)
    opaque_reason: str = field(compare=False, default="")

    @property
    def size(self) -> int:
        """Exact number of candidates: the product of the variables' sizes (1 without variables)."""
        return math.prod(v.size for v in self.variables)

    def allows(self, indices: Int32Array) -> BoolArray:
        """Which candidates, int32 (n, v), hold only rows that are still allowed, bool (n,)."""
        keep = np.ones(len(indices), dtype=np.bool_)
        for v, variable in enumerate(self.variables):
            allowed = np.zeros(len(variable.table), dtype=np.bool_)
            allowed[variable.rows] = True
            keep &= allowed[indices[:, v]]
        return keep


@dataclass(frozen=True, slots=True)
class SpaceRestriction:
    """Rows to keep: ``(sketch index, variable index) -> bool (m,)`` over the variable's whole table."""

    keep: Mapping[tuple[int, int], BoolArray]


@dataclass(frozen=True, slots=True)
class DesignSpace:
    """All sketches of a task, and the symbols that can be asked of its batches, by name.

    ``given`` are symbols that came with the space, see `own_kernels.given`: they hide registered ones of their
    names, and exist for opaque sketches as well.
    """

    task: TuningTask
    sketches: tuple[Sketch, ...]
    symbols: Mapping[str, SymbolDef] = field(default_factory=dict, repr=False, compare=False)
    given: Mapping[str, SymbolDef] = field(default_factory=dict, repr=False, compare=False)

    @property
    def size(self) -> int:
        """Exact number of candidates over all sketches."""
        return sum(sketch.size for sketch in self.sketches)

    @property
    def has_choices(self) -> bool:
        """Whether there is anything to tune."""
        return self.size > 1

    def restrict(self, restriction: SpaceRestriction) -> DesignSpace:
        """Cut choice-table rows. Sketches that lose all rows of a variable have size 0 and stay in place."""
        sketches = list(self.sketches)
        for (s, v), keep in restriction.keep.items():
            variables = list(sketches[s].variables)
            variables[v] = variables[v].restrict(keep)
            sketches[s] = replace(sketches[s], variables=tuple(variables))
        return replace(self, sketches=tuple(sketches))


@lru_cache(maxsize=1024)
def perfect_tile_table(extent: int, n_parts: int, max_innermost_factor: int) -> Int32Array:
    """Every ordered factorisation of ``extent`` into ``n_parts`` factors, int32 (m, n_parts), read-only.

    The last factor is at most ``max_innermost_factor`` (no limit if <= 0), as in TVM's
    SamplePerfectTile; a single part is the extent itself, whatever the limit. Rows are in lexicographic
    order. The table is cached and shared.
    """
    if not 1 <= extent < 2**31 or n_parts < 1:
        raise ValueError(f"a tile splits an int32 extent >= 1 into >= 1 parts, got {extent} into {n_parts}")
    divisors = _divisors(extent)
    innermost = divisors if max_innermost_factor <= 0 else divisors[divisors <= max_innermost_factor]
    # Grow from the innermost part outwards: one row per way to write the product of the parts so far.
    rows = innermost[:, None] if n_parts > 1 else np.array([[extent]], dtype=np.int64)
    for part in range(1, n_parts):
        remaining = extent // rows.prod(axis=1)
        if part == n_parts - 1:
            rows = np.column_stack([remaining, rows])
            break
        fits = remaining[:, None] % divisors[None, :] == 0
        parent, choice = np.nonzero(fits)
        rows = np.column_stack([divisors[choice], rows[parent]])
    table = rows[np.lexsort(rows.T[::-1])].astype(np.int32)
    table.flags.writeable = False
    return table


def _needs_copy(table: Int32Array) -> bool:
    """Whether a table must be copied, to be of the right kind and out of reach of whoever made it."""
    return table.dtype != np.int32 or table.flags.writeable or not table.flags.c_contiguous


def _divisors(extent: int) -> NDArray[np.int64]:
    small = np.arange(1, math.isqrt(extent) + 1, dtype=np.int64)
    small = small[extent % small == 0]
    return np.unique(np.concatenate([small, extent // small]))
