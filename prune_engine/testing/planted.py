"""Symbols with planted values: what rules and scorers that read symbols are tested on, without a loop nest."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from prune_engine.candidates import CandidateBatch
from prune_engine.errors import SpaceError
from prune_engine.space import DesignSpace, Int32Array, Sketch
from prune_engine.symbols.evaluate import TableValues
from prune_engine.symbols.structure import NestGroup
from prune_engine.symbols.table import Column, SymbolDef

#: Values of symbols by name.
Planted = Mapping[str, Sequence[float]]


def with_choices(space: DesignSpace, symbols: Planted) -> DesignSpace:
    """Give each candidate of a space one of each symbol's values, by its decisions alone; all occur."""

    def definition(name: str, values: Sequence[float]) -> SymbolDef:
        choices = _column(name, values)

        def compute(batch: CandidateBatch) -> Column:
            _check_readable(name, batch)
            column: Column = choices[batch.indices.sum(axis=1) % len(choices)]
            return column

        return _symbol(name, compute)

    return _readable(space, {name: definition(name, values) for name, values in symbols.items()})


def with_columns(batch: CandidateBatch, symbols: Planted) -> CandidateBatch:
    """Give row i of a batch the value ``symbols[name][i]``, wherever that candidate turns up. Rows are distinct."""
    rows = {row.tobytes(): number for number, row in enumerate(batch.indices)}

    def definition(name: str, values: Sequence[float]) -> SymbolDef:
        column = _column(name, values)

        def compute(asked: CandidateBatch) -> Column:
            _check_readable(name, asked)
            return column[[rows[row.tobytes()] for row in np.ascontiguousarray(asked.indices)]]

        return _symbol(name, compute)

    space = _readable(batch.space, {name: definition(name, values) for name, values in symbols.items()})
    return CandidateBatch(space, space.sketches[batch.sketch.index], batch.indices)


def opaque_twin(space: DesignSpace) -> DesignSpace:
    """The same space, as it is where no sketch could be read."""
    sketches = tuple(replace(sketch, nests=None, opaque_reason="testing") for sketch in space.sketches)
    return replace(space, sketches=sketches)


@dataclass(frozen=True, slots=True)
class _PlantedNests:
    """Stands where the loop nests of a sketch would be: its symbols are planted, so there are none."""

    tables: TableValues

    def groups(self, indices: Int32Array) -> Sequence[NestGroup]:  # noqa: ARG002 - there are none for any
        raise SpaceError(
            "symbols with planted values have no loop nest",
            who="prune_engine.testing",
            remedy="Give every symbol that is read to make_space or make_batch.",
        )

    def canonical(self, indices: Int32Array) -> NDArray[np.bool_]:
        return np.ones(len(indices), dtype=np.bool_)


def _readable(space: DesignSpace, symbols: Mapping[str, SymbolDef]) -> DesignSpace:
    def readable(sketch: Sketch) -> Sketch:
        return sketch if sketch.nests is not None else replace(sketch, nests=_PlantedNests(TableValues(sketch)))

    return replace(space, sketches=tuple(map(readable, space.sketches)), symbols={**space.symbols, **symbols})


def _symbol(name: str, compute: Callable[[CandidateBatch], Column]) -> SymbolDef:
    return SymbolDef(name, "", "planted", "testing", compute)


def _column(name: str, values: Sequence[float]) -> Column:
    """Integers stay integers, as in most symbols."""
    column = np.asarray(values)
    if column.ndim != 1 or not len(column) or column.dtype.kind not in "iuf":
        raise ValueError(f"symbol {name}: planted values are a list of numbers, got {values!r}")
    return column.astype(np.float64) if column.dtype.kind == "f" else column.astype(np.int64)


def _check_readable(name: str, batch: CandidateBatch) -> None:
    if batch.is_opaque:
        raise SpaceError(
            "a symbol of a sketch that could not be read was asked for",
            who=f"symbol {name!r}",
            remedy="Ask batch.is_opaque first.",
        )
