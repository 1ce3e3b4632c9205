"""What the tests of the rules plugin share: candidates with given symbols, tiles with subjects, small nests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from prune_engine.candidates import CandidateBatch
from prune_engine.hardware.schema import Count, HardwareProfile, MemoryLevel, Scope
from prune_engine.space import DesignSpace, Int32Array, Sketch, Subject, Variable, VariableKind, perfect_tile_table
from prune_engine.symbols.evaluate import TableValues
from prune_engine.symbols.loop_nest import LoopNest
from prune_engine.symbols.structure import NestGroup, canonical_by_nests
from prune_engine.symbols.table import Column, SymbolDef
from prune_engine.task import TuningTask
from prune_engine.testing import make_task


class OneNest:
    """A source of one nest for all candidates, or (with a variable) one for each row of that variable."""

    def __init__(self, sketch: Sketch, nests: Sequence[LoopNest], by_variable: int | None = None) -> None:
        self.tables = TableValues(sketch)
        self._nests, self._by_variable = nests, by_variable

    def canonical(self, indices: Int32Array) -> NDArray[np.bool_]:
        return canonical_by_nests(self, indices)

    def groups(self, indices: Int32Array) -> Sequence[NestGroup]:
        if self._by_variable is None:
            return [NestGroup(self._nests[0], None)]
        rows = indices[:, self._by_variable]
        return [NestGroup(nest, np.flatnonzero(rows == row)) for row, nest in enumerate(self._nests)]


def nothing_in_it() -> LoopNest:
    from prune_engine.symbols.expr import as_expr

    return LoopNest((), {}, as_expr(0), as_expr(1))


def with_nests(sketch: Sketch, *nests: LoopNest, by_variable: int | None = None) -> Sketch:
    return replace(sketch, nests=OneNest(sketch, nests or (nothing_in_it(),), by_variable))


def batch_of(
    *, task: TuningTask | None = None, is_opaque: bool = False, **columns: Sequence[int]
) -> CandidateBatch:
    """Candidates 0, 1, ... of one sketch, whose symbols are the columns given."""
    n = max(map(len, columns.values()), default=3)

    def column(values: Sequence[int]) -> SymbolDef:
        numbers = np.array(values, dtype=np.int64)

        def compute(batch: CandidateBatch) -> Column:
            return numbers[batch.indices[:, 0]]

        return SymbolDef("x", "", "given", "this test", compute)

    symbols = {name: replace(column(values), name=name) for name, values in columns.items()}
    variable = Variable.of("number", VariableKind.CATEGORICAL, np.arange(n, dtype=np.int32)[:, None])
    sketch = Sketch(0, "given", (variable,))
    sketch = sketch if is_opaque else with_nests(sketch)
    space = DesignSpace(task or make_task(), (sketch,), symbols)
    return CandidateBatch(space, sketch, np.arange(n, dtype=np.int32)[:, None])


def tile(
    iterator: str,
    extent: int,
    levels: str,
    *,
    is_contiguous: bool = False,
    limit: int = 64,
    statement: str = "matmul",
) -> Variable:
    """A tile variable with a subject: ``levels`` such as ``S0 S1 S2 S3`` or ``R0 R1``."""
    parts = tuple(levels.split())
    subject = Subject(statement, iterator, parts[0].startswith("R"), is_contiguous, parts)
    return Variable.of(iterator, VariableKind.TILE, perfect_tile_table(extent, len(parts), limit), None, subject)


def space_of(*variables: Variable, task: TuningTask | None = None, nest: LoopNest | None = None) -> DesignSpace:
    sketch = Sketch(0, "tiles", variables)
    return DesignSpace(task or make_task(), (with_nests(sketch, *([nest] if nest else [])),))


def gemm_space(
    m: int = 64, n: int = 64, k: int = 64, *, dtype: str = "float32", nest: LoopNest | None = None
) -> DesignSpace:
    """SSRSRS over i, j, k; j is contiguous."""
    return space_of(
        tile("i", m, "S0 S1 S2 S3"),
        tile("j", n, "S0 S1 S2 S3", is_contiguous=True),
        tile("k", k, "R0 R1"),
        task=replace(make_task(shape=(m, n, k)), arg_dtypes=(dtype,) * 3),
        nest=nest,
    )


def with_level(
    profile: HardwareProfile,
    name: str,
    capacity_bytes: int | None,
    *,
    usable_bytes: int | None = None,
    is_hard_limit: bool = False,
) -> HardwareProfile:
    """The profile with one memory level replaced or added."""

    def count(value: int | None) -> Count | None:
        return None if value is None else Count(value=value, source="invented")

    level = MemoryLevel(
        name=name,
        scope=Scope.CORE,
        instances=None,
        capacity_bytes=count(capacity_bytes),
        usable_bytes=count(usable_bytes),
        bandwidth_bytes_per_sec=None,
        line_bytes=None,
        is_hard_limit=is_hard_limit,
    )
    former = "l1" if name == "l1d" else name
    others = tuple(m for m in profile.memory if m.name not in (name, former))
    return profile.model_copy(update={"memory": (level, *others)})
