"""Design spaces of anyone's kernels: named parameters with their values, and no compiler behind them."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from prune_engine.candidates import CandidateBatch
from prune_engine.enumeration import numbered
from prune_engine.errors import ConfigError, SpaceError
from prune_engine.own_kernels.given import GivenSymbol, Values, with_columns, with_symbols
from prune_engine.space import DesignSpace, Int32Array, Sketch, Variable, VariableKind
from prune_engine.task import TuningTask

#: A value of a parameter.
Value = int | float | bool | str
#: Candidates by parameter, ``{"block": [32, 64], "unroll": [1, 1]}``, or one by one, ``[{"block": 32, ...}, ...]``.
Decisions = Mapping[str, ArrayLike] | Sequence[Mapping[str, Value]]

_OPAQUE = "its owner gives its symbols"
#: Candidates that are made of a whole space at once, at most: 4 bytes for each parameter of each.
MAX_WHOLE = 1 << 24


def own_space(
    name: str,
    choices: Mapping[str, Sequence[Value]],
    symbols: Mapping[str, GivenSymbol] | None = None,
    *,
    dtype: str = "float32",
    n_results: int | None = None,
    target: str = "",
) -> DesignSpace:
    """Make a space of every combination of the parameters' values.

    ``symbols`` say what a candidate needs and does, see `prune_engine.own_kernels.given.with_symbols`. ``dtype`` is
    what the kernel computes in. ``n_results`` is how many elements it writes, which tells into how many blocks it
    could be divided; None where that does not matter. What is learnt of a space is kept by its name, its choices
    and ``target``.

    Raises ConfigError for a parameter without values, with equal ones, or with one that is no number or text.
    """
    if not isinstance(choices, Mapping) or not choices:
        raise ConfigError(
            "has no parameters",
            who=f"space {name!r}",
            got=f"{type(choices).__name__} {choices!r}"[:80],
            expected="at least one, with its values, as {'block': [32, 64]}",
        )
    values = {parameter: _checked(name, parameter, of) for parameter, of in choices.items()}
    columns = [_array(of) for of in values.values()]
    variables = tuple(
        Variable.of(parameter, VariableKind.CATEGORICAL, _table(column)[:, None])
        for parameter, column in zip(values, columns, strict=True)
    )
    identity = "|".join(f"{parameter}={of}" for parameter, of in values.items())
    task = TuningTask(
        task_id=_digest(f"{name}|{target}|{dtype}|{n_results}|{identity}", 12),
        name=name,
        target=target,
        weight=1,
        flop_count=0,
        arg_shapes=(() if n_results is None else (n_results,),),
        arg_dtypes=(dtype,),
    )
    sketch = Sketch(
        0,
        _digest(identity, 8),
        variables,
        payload=Values(tuple(columns), tuple(map(tuple, values.values()))),
        opaque_reason=_OPAQUE,
    )
    return with_symbols(DesignSpace(task, (sketch,)), symbols or {})


def batch_of(
    space: DesignSpace, decisions: Decisions, columns: Mapping[str, ArrayLike] | None = None
) -> CandidateBatch:
    """Candidates of an `own_space`, in the order given.

    ``columns`` are symbols by value, one per candidate, where a function of the decisions cannot tell.

    Raises ConfigError for a parameter or a value that the space has not, or columns of different lengths.
    """
    sketch, values = _own(space)
    named = _by_parameter(decisions, space)
    lengths = {parameter: len(column) for parameter, column in named.items()}
    if len(set(lengths.values())) > 1:
        raise ConfigError(
            "parameters have different numbers of values",
            who=f"candidates of {space.task.name!r}",
            got=", ".join(f"{parameter}: {n}" for parameter, n in lengths.items()),
            expected="one value of each parameter per candidate",
        )
    rows = [_rows(space, v.name, named[v.name], values.given[i]) for i, v in enumerate(sketch.variables)]
    batch = CandidateBatch(space, sketch, np.ascontiguousarray(np.stack(rows, axis=1), dtype=np.int32))
    return with_columns(batch, columns) if columns else batch


def whole(space: DesignSpace, columns: Mapping[str, ArrayLike] | None = None) -> CandidateBatch:
    """Every candidate of an `own_space`; the last parameter runs fastest.

    Raises SpaceError for a space of more than 16 million: draw from it, or take a part by `batch_of`.
    """
    sketch, _ = _own(space)
    if sketch.size > MAX_WHOLE:
        raise SpaceError(
            "has too many candidates to list them all",
            who=f"space {space.task.name!r}",
            got=f"{sketch.size:,}",
            expected=f"at most {MAX_WHOLE:,}",
            remedy="Make a batch of those that you are interested in, by batch_of.",
        )
    batch = CandidateBatch(space, sketch, numbered(sketch, np.arange(sketch.size, dtype=np.int64)))
    return with_columns(batch, columns) if columns else batch


def decisions_of(batch: CandidateBatch, rows: Sequence[int] | NDArray[np.integer]) -> list[dict[str, Value]]:
    """The candidates at ``rows`` of a batch of an `own_space`, by parameter: for those that live on."""
    sketch, values = _own(batch.space)
    picked = batch.indices[np.asarray(rows, dtype=np.int64)]
    columns = [[given[row] for row in picked[:, i].tolist()] for i, given in enumerate(values.given)]
    names = [variable.name for variable in sketch.variables]
    return [dict(zip(names, decided, strict=True)) for decided in zip(*columns, strict=True)]


def _own(space: DesignSpace) -> tuple[Sketch, Values]:
    sketch = space.sketches[0] if space.sketches else None
    if sketch is None or not isinstance(sketch.payload, Values):
        raise ConfigError(
            "is a compiler's space",
            who=f"space {space.task.name!r}",
            expected="one that own_space made",
            remedy="Make a CandidateBatch of row numbers instead.",
        )
    return sketch, sketch.payload


def _by_parameter(decisions: Decisions, space: DesignSpace) -> dict[str, NDArray[np.generic]]:
    who, names = f"candidates of {space.task.name!r}", [v.name for v in space.sketches[0].variables]
    expected = f"exactly: {', '.join(names)}"
    if isinstance(decisions, Mapping):
        if set(decisions) != set(names):
            got = ", ".join(map(str, decisions)) or "none"
            raise ConfigError("other parameters", who=who, got=got, expected=expected)
        return {parameter: np.atleast_1d(_array(column)) for parameter, column in decisions.items()}
    if isinstance(decisions, str | bytes) or not isinstance(decisions, Sequence):
        raise ConfigError(
            "are of the wrong type",
            who=who,
            got=f"{type(decisions).__name__} {decisions!r}"[:80],
            expected=f"columns by parameter, or a list of candidates with {expected}",
        )
    for number, one in enumerate(decisions):
        if not isinstance(one, Mapping) or set(one) != set(names):
            told = ", ".join(map(str, one)) if isinstance(one, Mapping) else f"{type(one).__name__} {one!r}"[:80]
            got = f"{told or 'none'} in candidate {number}"
            raise ConfigError("other parameters", who=who, got=got, expected=expected)
    return {parameter: _array([one[parameter] for one in decisions]) for parameter in names}


def _array(column: ArrayLike) -> NDArray[np.generic]:
    """An array whose elements keep their types: numpy would make texts of a list that holds one."""
    array = np.asarray(column)
    if array.dtype.kind in "US" and not isinstance(column, np.ndarray):
        array = np.asarray(column, dtype=object)
    return array


def _rows(space: DesignSpace, parameter: str, column: NDArray[np.generic], values: Sequence[Value]) -> Int32Array:
    """The row of each value, int32 (n,): looked up once per distinct value."""
    numbers = {value: row for row, value in enumerate(values)}
    try:
        distinct, inverse = np.unique(column, return_inverse=True)
    except TypeError:  # values of types that do not compare
        listed = column.tolist()
        distinct = np.array(list(dict.fromkeys(listed)), dtype=object)
        at = {value: i for i, value in enumerate(distinct.tolist())}
        inverse = np.array([at[value] for value in listed], dtype=np.int64)
    rows = [numbers.get(value) for value in distinct.tolist()]
    if None in rows:
        at_row = int(np.flatnonzero(inverse == rows.index(None))[0])
        raise ConfigError(
            f"{parameter} has no such value",
            who=f"candidates of {space.task.name!r}",
            got=f"{column[at_row]!r} in candidate {at_row}",
            expected=f"one of: {', '.join(map(str, values))}"[:200],
        )
    found: Int32Array = np.array(rows, dtype=np.int32)[inverse.reshape(-1)]
    return found


def _checked(space: str, parameter: object, given: object) -> list[Value]:
    """The values of a parameter as Python's own numbers and texts."""
    who = f"space {space!r}, parameter {parameter!r}"
    if not isinstance(parameter, str) or not parameter:
        raise ConfigError("is no name", who=who, got=type(parameter).__name__, expected="a text, such as 'block'")
    if isinstance(given, str | bytes | Mapping) or not isinstance(given, Iterable):
        raise ConfigError(
            "has values of the wrong type",
            who=who,
            got=f"{type(given).__name__} {given!r}"[:80],
            expected="a list of values, such as [32, 64]",
        )
    values: list[Value] = list(given)
    if not values:
        raise ConfigError("has no values", who=who, expected="at least one")
    wrong = [
        value
        for value in values
        if not isinstance(value, int | float | bool | str | np.generic)
        or (isinstance(value, float | np.floating) and math.isnan(value))  # equal to nothing: it is never found
    ]
    if wrong:
        raise ConfigError(
            "has a value that is neither number nor text",
            who=who,
            got=f"{type(wrong[0]).__name__} {wrong[0]!r}"[:80],
            expected="whole numbers, numbers, texts, or True and False",
        )
    if len(set(values)) < len(values):
        twice = next(value for number, value in enumerate(values) if value in values[:number])
        raise ConfigError("has a value twice", who=who, got=repr(twice), expected="different values")
    return [value.item() if isinstance(value, np.generic) else value for value in values]


def _table(values: NDArray[np.generic]) -> Int32Array:
    """What stands for the values in the choice table: whole numbers themselves, other values their positions."""
    if values.dtype.kind in "biu" and (np.abs(values.astype(np.float64)) < 2**31).all():
        return values.astype(np.int32)
    return np.arange(len(values), dtype=np.int32)


def _digest(text: str, size: int) -> str:
    return hashlib.blake2b(text.encode(), digest_size=size).hexdigest()
