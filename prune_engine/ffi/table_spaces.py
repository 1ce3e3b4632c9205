"""Design spaces without a compiler: choice tables, and symbols as columns or as formulas over the choices."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field

from prune_engine.candidates import CandidateBatch, Divisible
from prune_engine.errors import ConfigError
from prune_engine.ffi.formulas import parse_formula
from prune_engine.ffi.options import checked
from prune_engine.space import DesignSpace, Int32Array, Sketch, Variable, VariableKind, perfect_tile_table
from prune_engine.symbols.builtin import BUILTIN_SYMBOLS
from prune_engine.symbols.table import Column, SymbolDef
from prune_engine.task import TuningTask

#: Rows of one choice table. More cannot be looked at in any time.
MAX_TABLE_ROWS = 1 << 22
_COLUMNS = "prune_engine.ffi.columns"
_UNIT_OF = {definition.name: definition.unit for definition in BUILTIN_SYMBOLS}
_INT32_MAX = 2**31 - 1
_OPAQUE = "its owner gives its symbols"


class VariableSource(BaseModel):
    """A variable: its ``values``, its ``table`` of rows of equal length, or the ``extent`` that ``parts`` split."""

    model_config = ConfigDict(extra="forbid", strict=True)

    name: str = Field(min_length=1)
    kind: Literal["tile", "categorical", "location"] | None = None
    values: list[int] | None = Field(default=None, min_length=1)
    table: list[list[int]] | None = Field(default=None, min_length=1)
    extent: int | None = Field(default=None, ge=1, le=_INT32_MAX)
    parts: int | None = Field(default=None, ge=1, le=16)
    max_innermost_factor: int = Field(default=0, ge=0)


class SketchSource(BaseModel):
    """A structure with its variables."""

    model_config = ConfigDict(extra="forbid", strict=True)

    name: str = ""
    variables: list[VariableSource] = Field(min_length=1)


class TableSource(BaseModel):
    """A whole space. ``symbols`` are formulas over the choices, or null where each call brings the column.

    ``dtype`` is what the kernel computes in, ``n_results`` how many elements it writes, if that matters.
    """

    model_config = ConfigDict(extra="forbid", strict=True)

    name: str = Field(default="kernel", min_length=1)
    dtype: str = Field(default="float32", min_length=1)
    n_results: int | None = Field(default=None, ge=1)
    sketches: list[SketchSource] = Field(min_length=1)
    symbols: dict[str, str | None] = Field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TableSpace:
    """A space with the symbols that are formulas. ``declared`` are all symbols, those that calls bring as well."""

    space: DesignSpace
    declared: frozenset[str]


def table_space(source: Mapping[str, Any], who: str) -> TableSpace:
    """The space that a JSON object describes. Raises ConfigError naming each key that is wrong."""
    read = checked(TableSource, source, who)
    sketches = tuple(_sketch(index, sketch, f"{who}, sketch {index}") for index, sketch in enumerate(read.sketches))
    formulas = {name: parse_formula(text, f"{who}, symbol {name!r}") for name, text in read.symbols.items() if text}
    for sketch in sketches:
        for name, formula in formulas.items():
            formula.check({v.name: v.table.shape[1] for v in sketch.variables}, f"{who}, symbol {name!r}")
    identity = hashlib.blake2b(json.dumps(read.model_dump(), sort_keys=True).encode(), digest_size=12).hexdigest()
    results = () if read.n_results is None else (read.n_results,)
    task = TuningTask(identity, read.name, "", 1, 0, (results,), (read.dtype,))
    given = {name: _symbol(name, formula.of_batch) for name, formula in formulas.items()}
    return TableSpace(DesignSpace(task, sketches, given=given), frozenset(read.symbols))


def check_declared(columns: Mapping[str, object], declared: frozenset[str], who: str) -> None:
    """Raise ConfigError for a symbol that a space does not declare."""
    if unknown := set(columns) - declared:
        raise ConfigError(
            "a symbol that the space does not declare",
            who=who,
            got=", ".join(sorted(unknown)),
            expected=", ".join(sorted(declared)) or "none",
            remedy="Name it among the `symbols` of the space.",
        )


def with_columns(batch: CandidateBatch, columns: Mapping[str, NDArray[Any]]) -> CandidateBatch:
    """Give a batch symbols by value, float64 or int64 (n,) each."""
    symbols = {name: _symbol(name, partial(_column, name=name)) for name in columns}
    space = replace(batch.space, given={**batch.space.given, **symbols})
    brought = CandidateBatch(space, space.sketches[batch.sketch.index], batch.indices)
    brought.shared[_COLUMNS] = _Columns(columns)
    return brought


def work_out(batch: CandidateBatch) -> None:
    """Compute what is given of a batch, so that what is wrong with it is its owner's error and no rule's.

    Raises ConfigError.
    """
    for name in batch.space.given:
        column = batch.symbol(name)
        if name in _UNIT_OF and len(column) and column.min() < 0:
            row = int(column.argmin())
            raise ConfigError(
                "is negative",
                who=f"symbol {name!r}, candidate {row}",
                got=column[row],
                expected=f"{_UNIT_OF[name]} >= 0".lstrip(),
            )


@dataclass(frozen=True, slots=True)
class _Columns(Divisible):
    """Columns that came with a batch."""

    by_name: Mapping[str, NDArray[Any]]

    def part(self, indices: Int32Array, rows: NDArray[np.integer] | NDArray[np.bool_]) -> _Columns:  # noqa: ARG002
        return _Columns({name: column[rows] for name, column in self.by_name.items()})


def _sketch(index: int, source: SketchSource, who: str) -> Sketch:
    names = [variable.name for variable in source.variables]
    if twice := {name for name in names if names.count(name) > 1}:
        raise ConfigError("two variables of one name", who=who, got=", ".join(sorted(twice)))
    variables = tuple(_variable(variable, f"{who}, variable {variable.name!r}") for variable in source.variables)
    text = json.dumps([source.name, *([v.name, v.table.tolist()] for v in variables)])
    identity = hashlib.blake2b(text.encode(), digest_size=8).hexdigest()
    return Sketch(index, identity, variables, opaque_reason=_OPAQUE)


def _variable(source: VariableSource, who: str) -> Variable:
    given = [name for name in ("values", "table", "extent") if getattr(source, name) is not None]
    if len(given) != 1:
        raise ConfigError(
            "what can be chosen is not clear",
            who=who,
            got=", ".join(given) or "nothing",
            expected="values, table or extent",
        )
    if source.extent is None:
        rows = [[value] for value in source.values] if source.values is not None else source.table or []
        kind = VariableKind(source.kind or ("categorical" if len(rows[0]) == 1 else "tile"))
        return Variable.of(source.name, kind, _table(rows, who))
    if source.parts is None:
        raise ConfigError("into how many parts?", who=who, got=f"extent {source.extent}", expected="`parts`")
    n_rows = _n_factorisations(source.extent, source.parts)
    if n_rows > MAX_TABLE_ROWS:
        raise ConfigError("too large a table", who=who, got=f"{n_rows:,} rows", expected=f"<= {MAX_TABLE_ROWS:,}")
    table = perfect_tile_table(source.extent, source.parts, source.max_innermost_factor)
    return Variable.of(source.name, VariableKind(source.kind or "tile"), table)


def _table(rows: list[list[int]], who: str) -> Int32Array:
    widths = {len(row) for row in rows}
    if len(widths) != 1 or 0 in widths or len(rows) > MAX_TABLE_ROWS:
        raise ConfigError(
            "the rows are not of one length" if len(widths) != 1 or 0 in widths else "too large a table",
            who=who,
            got=f"{len(rows):,} rows of {', '.join(map(str, sorted(widths)[:4]))} numbers",
            expected=f"up to {MAX_TABLE_ROWS:,} rows of as many numbers each, at least 1",
        )
    outside = [value for row in rows for value in row if not -_INT32_MAX - 1 <= value <= _INT32_MAX]
    if outside:
        raise ConfigError("a number that is no int32", who=who, got=outside[0])
    if len({tuple(row) for row in rows}) != len(rows):
        raise ConfigError("a choice that is there twice", who=who, expected="each once")
    return np.array(rows, dtype=np.int32)


def _n_factorisations(extent: int, n_parts: int) -> int:
    """Ordered factorisations: for each prime, ways to give its power to the parts."""
    n, rest, prime = 1, extent, 2
    while rest > 1:
        if prime * prime > rest:
            prime = rest
        power = 0
        while rest % prime == 0:
            rest //= prime
            power += 1
        n *= math.comb(power + n_parts - 1, n_parts - 1)
        prime += 1
    return n


def _symbol(name: str, compute: Callable[[CandidateBatch], Column]) -> SymbolDef:
    return SymbolDef(name, _UNIT_OF.get(name, ""), "given with the space", "the program that embeds us", compute)


def _column(batch: CandidateBatch, name: str) -> Column:
    given = batch.shared[_COLUMNS]
    assert isinstance(given, _Columns)
    return given.by_name[name]
