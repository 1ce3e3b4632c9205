"""Symbols that come with a space: its owner's numbers, for kernels that no compiler of ours could read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from prune_engine.candidates import CandidateBatch, Divisible
from prune_engine.errors import ConfigError
from prune_engine.space import DesignSpace, Int32Array
from prune_engine.symbols.builtin import BUILTIN_SYMBOLS
from prune_engine.symbols.table import Column, SymbolDef

#: Columns of decisions by the variable's name, (n,) each, or (n, p) where a decision is p numbers.
DecisionColumns = Mapping[str, NDArray[np.generic]]
#: How a symbol is given: a number, the name of a variable, or a function of all decisions of a batch.
GivenSymbol = float | str | Callable[[DecisionColumns], ArrayLike]

#: Names that only a space can give, with unit and meaning: the draft reads them beside those of the symbol table.
GIVEN_ONLY: Final[Mapping[str, tuple[str, str]]] = {
    "matrix_flops": ("operations", "of those in flops_total, what matrix units do"),
    "tensor_bytes": ("bytes", "of all tensors once: what traffic_dram_bytes would be with an unlimited cache"),
    "shared_traffic_bytes": ("bytes", "that all threads of a GPU read from shared memory"),
    "staging_steps": ("steps", "in which a block waits until operands have come into shared memory"),
}
_SHARED = "given symbols"
_MEANINGS: Final = {**{s.name: (s.unit, s.meaning) for s in BUILTIN_SYMBOLS}, **GIVEN_ONLY}


def with_symbols(space: DesignSpace, symbols: Mapping[str, GivenSymbol]) -> DesignSpace:
    """The same space with symbols of its owner, beside those that it has.

    Under a name of the symbol table (docs/reference/symbols.md) or of ``GIVEN_ONLY`` a symbol has that meaning and
    unit, and rules and drafts read it. Other names are for strategies of one's own. A function gets whole columns,
    one value per candidate, and returns a column, or one number for all.

    Raises ConfigError for something that is no number, variable or function.
    """
    if not isinstance(symbols, Mapping):
        raise ConfigError(
            "are of the wrong type",
            who=f"symbols of {space.task.name!r}",
            got=f"{type(symbols).__name__} {symbols!r}"[:80],
            expected="a mapping of names to numbers, variables or functions",
        )
    given = {name: _definition(space, name, symbol) for name, symbol in symbols.items()}
    return replace(space, given={**space.given, **given})


def with_columns(batch: CandidateBatch, columns: Mapping[str, ArrayLike]) -> CandidateBatch:
    """The same candidates with symbols given by value: ``columns[name][i]`` is that of row i.

    Raises ConfigError for a column of another length, or of anything but finite numbers.
    """
    given: dict[str, SymbolDef] = {}
    for name, values in columns.items():
        column = _checked(name, values, len(batch), may_broadcast=False)
        given[name] = replace(_described(name), compute=_Lookup(name, batch.indices, column))
    space = replace(batch.space, given={**batch.space.given, **given})
    return CandidateBatch(space, space.sketches[batch.sketch.index], batch.indices)


def decision_columns(batch: CandidateBatch) -> DecisionColumns:
    """The decisions of a batch by the variable's name; each is looked up when it is asked for."""
    return _Decisions(batch)


def work_out_given(batch: CandidateBatch) -> set[str]:
    """Compute all given symbols now, so that what is wrong with one is its owner's error, not a strategy's.

    Returns a set that will hold the names of those that somebody read. Raises ConfigError naming the symbol.
    """
    worked_out = _WorkedOut()
    for name, definition in batch.space.given.items():
        worked_out.columns[name] = definition.compute(batch)
    batch.shared[_SHARED] = worked_out
    return worked_out.read


@dataclass(frozen=True, slots=True)
class _WorkedOut(Divisible):
    columns: dict[str, Column] = field(default_factory=dict)
    read: set[str] = field(default_factory=set)

    def part(self, indices: Int32Array, rows: NDArray[np.integer] | NDArray[np.bool_]) -> _WorkedOut:  # noqa: ARG002
        return _WorkedOut({name: column[rows] for name, column in self.columns.items()}, self.read)


class _Decisions(Mapping[str, NDArray[np.generic]]):
    def __init__(self, batch: CandidateBatch) -> None:
        self._batch = batch
        self._numbers = {variable.name: number for number, variable in enumerate(batch.sketch.variables)}

    def __getitem__(self, name: str) -> NDArray[np.generic]:
        number = self._numbers[name]
        payload = self._batch.sketch.payload
        if isinstance(payload, Values):
            return payload.of[number][self._batch.indices[:, number]]
        column = self._batch.column(number)
        return column[:, 0] if column.shape[1] == 1 else column

    def __iter__(self) -> Iterator[str]:
        return iter(self._numbers)

    def __len__(self) -> int:
        return len(self._numbers)


@dataclass(frozen=True, slots=True)
class Values:
    """What the rows of each variable's table stand for: arrays (m,), and as they were given."""

    of: tuple[NDArray[np.generic], ...]
    given: tuple[tuple[int | float | bool | str, ...], ...]


def _definition(space: DesignSpace, name: str, symbol: object) -> SymbolDef:
    if isinstance(symbol, str):
        names = {variable.name for sketch in space.sketches for variable in sketch.variables}
        if symbol not in names:
            raise ConfigError(
                "is given as a variable that there is not",
                who=f"symbol {name!r}",
                got=repr(symbol),
                expected=f"one of: {', '.join(sorted(names))}",
            )
    elif not callable(symbol) and (isinstance(symbol, bool) or not isinstance(symbol, int | float | np.number)):
        raise ConfigError(
            "cannot be computed",
            who=f"symbol {name!r}",
            got=f"{type(symbol).__name__} {symbol!r}"[:80],
            expected="a number, the name of a variable, or a function of the columns of decisions",
        )

    def compute(batch: CandidateBatch) -> Column:
        known = batch.shared.get(_SHARED)
        if isinstance(known, _WorkedOut) and name in known.columns:
            known.read.add(name)
            return known.columns[name]
        return _checked(name, _value(name, symbol, batch), len(batch))

    return replace(_described(name), compute=compute)


def _value(name: str, symbol: object, batch: CandidateBatch) -> object:
    if isinstance(symbol, str):
        return decision_columns(batch)[symbol]
    if not callable(symbol):
        return symbol
    columns = decision_columns(batch)
    try:
        return symbol(columns)
    except KeyError as error:
        raise ConfigError(
            "its function asks for a variable that there is not",
            who=f"symbol {name!r}",
            got=str(error),
            expected=f"one of: {', '.join(columns)}",
        ) from error
    except Exception as error:  # whatever the caller's function raises is told as the caller's
        raise ConfigError(
            "its function failed",
            who=f"symbol {name!r}",
            got=f"{type(error).__name__}: {error}",
            expected="a function of whole columns (numpy arrays), such as lambda c: c['x'] * c['y']",
            remedy="Use numpy's functions (np.where, np.minimum) where it has `if`, `and`, `or`, `min` or `max`.",
        ) from error


def _described(name: str) -> SymbolDef:
    """A definition with the unit and meaning that the name has, if it has one."""
    unit, meaning = _MEANINGS.get(name, ("", "given with the space"))
    return SymbolDef(name, unit, meaning, "given with the space", _undefined)


def _undefined(batch: CandidateBatch) -> Column:
    raise NotImplementedError("replaced where a definition is made")


def _checked(name: str, values: object, n: int, *, may_broadcast: bool = True) -> Column:
    """Values as a column of n finite numbers, float64 or int64. Raises ConfigError."""
    column = np.asarray(values)
    if column.ndim == 0 and may_broadcast:
        column = np.full(n, column)
    if column.shape != (n,) or column.dtype.kind not in "biuf":
        raise ConfigError(
            "is no column of numbers",
            who=f"symbol {name!r}",
            got=f"{column.dtype} {column.shape}",
            expected=f"numbers ({n},), one per candidate",
        )
    numbers: Column = column.astype(np.float64) if column.dtype.kind == "f" else column.astype(np.int64)
    if not np.isfinite(numbers).all():
        row = int(np.argmin(np.isfinite(numbers)))
        raise ConfigError(
            "is not finite",
            who=f"symbol {name!r}",
            got=f"{numbers[row]} for candidate {row}",
            expected="finite numbers",
        )
    if name in _MEANINGS and len(numbers) and numbers.min() < 0:
        row = int(np.argmin(numbers))
        raise ConfigError(
            "is negative", who=f"symbol {name!r}", got=f"{numbers[row]} for candidate {row}", expected=">= 0"
        )
    return numbers


class _Lookup:
    """A symbol that is known for some candidates by value, found again by their decisions."""

    def __init__(self, name: str, indices: Int32Array, column: Column) -> None:
        self._name = name
        keys = _keys(indices)
        order = np.argsort(keys, kind="stable")
        self._keys, self._column = keys[order], column[order]

    def __call__(self, batch: CandidateBatch) -> Column:
        known = batch.shared.get(_SHARED)
        if isinstance(known, _WorkedOut) and self._name in known.columns:
            known.read.add(self._name)
            return known.columns[self._name]
        keys = _keys(batch.indices)
        at = np.minimum(np.searchsorted(self._keys, keys), max(len(self._keys) - 1, 0))
        if len(keys) and (not len(self._keys) or (self._keys[at] != keys).any()):
            raise ConfigError(
                "has no value for a candidate",
                who=f"symbol {self._name!r}",
                expected="candidates of the batch that it was given with",
                remedy="Give it as a function of the decisions instead.",
            )
        found: Column = self._column[at]
        return found


def _keys(indices: Int32Array) -> NDArray[np.bytes_]:
    """Each row, int32 (n, v), as one value that sorts: bytes, all of one length."""
    rows = np.ascontiguousarray(indices)
    if not rows.shape[1]:
        return np.zeros(len(rows), dtype="S1")
    return rows.view(f"S{4 * rows.shape[1]}").reshape(len(rows))
