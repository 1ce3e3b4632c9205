"""What other languages pass: texts, numbers, maps and tensors, checked before anything is done with them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

import numpy as np
import tvm_ffi
from numpy.typing import NDArray

from prune_engine.bounded_files import json_of
from prune_engine.errors import ConfigError
from prune_engine.space import Int32Array

T = TypeVar("T")

#: Rows of one call. More is a mistake, or better asked in parts: scores of so many take seconds and gigabytes.
MAX_ROWS = 1 << 24
#: Bytes of a JSON text: what the largest models' spaces have is a hundredth of it.
MAX_TEXT_BYTES = 1 << 28
_CPU = 1
_INT32, _COLUMN_DTYPES = "int32", ("float64", "int64")


class ArgumentError(ConfigError, TypeError):
    """An argument is of the wrong type."""


class TensorError(ConfigError, ValueError):
    """A tensor has the wrong form, lies in the wrong memory, or is too large."""


class TextError(ConfigError, ValueError):
    """A text is no JSON, or does not say what it should."""


def instance(value: object, kind: type[T], who: str, what: str) -> T:
    """A value of a kind. Raises ArgumentError, for null too; True and False are no integers."""
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise ArgumentError("wrong type of argument", who=who, got=_told(value), expected=what)
    return value


def text(value: object, who: str, what: str) -> str:
    """A text. Raises ArgumentError, and TextError for one that is too long."""
    found = str(instance(value, str, who, what))
    if len(found) > MAX_TEXT_BYTES:
        raise TextError(
            "too long a text", who=who, got=f"{len(found):,} characters", expected=f"<= {MAX_TEXT_BYTES:,}"
        )
    return found


def json_object(value: object, who: str) -> dict[str, Any]:
    """The object of a JSON text. Raises ArgumentError and TextError."""
    source = text(value, who, "a JSON text")
    try:
        found = json_of(source)
    except ValueError as error:
        raise TextError(f"no JSON: {error}", who=who, got=_short(source), expected="a JSON object") from error
    if not isinstance(found, dict):
        raise TextError("not an object", who=who, got=_short(source), expected='a JSON object, as {"key": 1}')
    return found


def plain_map(value: object, who: str) -> dict[str, Any]:
    """A JSON text, or a map of texts to anything, as a dict; containers in it become Python's."""
    if isinstance(value, (tvm_ffi.Map, Mapping)):
        return {text(key, f"{who}, a key", "a text"): _plain(item) for key, item in value.items()}
    if isinstance(value, str):
        return json_object(value, who)
    raise ArgumentError("wrong type of argument", who=who, got=_told(value), expected="a JSON text, or a map")


def row_numbers(value: object, sizes: NDArray[np.uint32], who: str) -> Int32Array:
    """Row numbers of choice tables of these sizes, uint32 (v,), out of an int32 (n, v) tensor.

    Raises ArgumentError and TensorError.
    """
    rows: Int32Array = matrix(value, len(sizes), who)
    # As unsigned numbers the negative ones are the largest: one comparison finds both kinds.
    outside = rows.view(np.uint32) >= sizes
    if outside.any():
        row, variable = (int(at) for at in np.argwhere(outside)[0])
        raise TensorError(
            "a row number that its choice table does not have",
            who=f"{who}, candidate {row}, variable {variable}",
            got=int(rows[row, variable]),
            expected=f"0 to {int(sizes[variable]) - 1}",
        )
    return rows


def matrix(value: object, width: int, who: str) -> Int32Array:
    """The numbers of an int32 (n, width) tensor. Raises ArgumentError and TensorError."""
    numbers: Int32Array = _copied(value, (_INT32,), (None, width), who)
    return numbers


def columns(value: object, n: int, who: str) -> dict[str, NDArray[Any]]:
    """The columns of float64 or int64 (n,) tensors by name; none for null. Raises ArgumentError and TensorError."""
    if value is None:
        return {}
    if not isinstance(value, (tvm_ffi.Map, Mapping)):
        raise ArgumentError(
            "wrong type of argument", who=who, got=_told(value), expected="a map of tensors, or null"
        )
    found: dict[str, NDArray[Any]] = {}
    for key, tensor in value.items():
        name = text(key, f"{who}, a key", "a text")
        column = _copied(tensor, _COLUMN_DTYPES, (n,), f"{who}, {name!r}")
        if column.dtype == np.float64 and not np.isfinite(column).all():
            at = int((~np.isfinite(column)).argmax())
            raise TensorError(
                "not all are finite", who=f"{who}, {name!r}, candidate {at}", got=column[at], expected="numbers"
            )
        found[name] = column
    return found


def tensor_of(array: NDArray[Any]) -> tvm_ffi.Tensor:
    """An array as a tensor that shares its memory; of one that is read-only, a copy."""
    ours = np.ascontiguousarray(array)
    if not ours.flags.writeable:  # such memory cannot be passed on, since nobody could protect it there
        ours = ours.copy()
    return tvm_ffi.from_dlpack(ours)


def _copied(value: object, dtypes: tuple[str, ...], shape: tuple[int | None, ...], who: str) -> Any:
    """A tensor's numbers. What it says of itself is checked before its memory is looked at.

    They are copied before they are checked: the memory is the caller's, who may write to it from another thread,
    or free it after the call, while a strategy still knows the batch.
    """
    if not isinstance(value, tvm_ffi.Tensor):
        raise ArgumentError(
            "wrong type of argument", who=who, got=_told(value), expected=f"a tensor, {_form(dtypes, shape)}"
        )
    got = value.shape
    if value.__dlpack_device__()[0] != _CPU:
        raise TensorError(
            "the tensor is not in this machine's memory",
            who=who,
            got=str(value.device),
            expected="device cpu",
            remedy="Copy it to the host.",
        )
    fits = len(got) == len(shape) and all(b is None or a == b for a, b in zip(got, shape, strict=True))
    if not fits or min(got) < 0:
        raise _wrong_form(value, dtypes, shape, who)
    if got[0] > MAX_ROWS:
        raise TensorError(
            "too many candidates at once",
            who=who,
            got=f"{got[0]:,}",
            expected=f"<= {MAX_ROWS:,}",
            remedy="Ask in parts.",
        )
    if not value.is_contiguous():
        raise TensorError(
            "the tensor is not contiguous",
            who=who,
            got=f"strides {tuple(value.strides)} of shape {tuple(got)}",
            expected="rows one after the other",
            remedy="Copy it.",
        )
    if 0 in got:
        if str(value.dtype) not in dtypes:
            raise _wrong_form(value, dtypes, shape, who)
        return np.empty(got, np.dtype(str(value.dtype)))
    if not value.data_ptr():
        raise TensorError("the tensor has no memory", who=who, got="null", expected=_form(dtypes, shape))
    try:
        view = np.from_dlpack(value)
    except (BufferError, RuntimeError, TypeError, ValueError) as error:  # a type that numpy does not have
        raise _wrong_form(value, dtypes, shape, who) from error
    if view.dtype.name not in dtypes:  # much cheaper to ask numpy than the tensor
        raise _wrong_form(value, dtypes, shape, who)
    if not view.flags.aligned:
        raise TensorError(
            "the tensor's memory is not aligned",
            who=who,
            got=hex(value.data_ptr()),
            expected=f"an address that is a multiple of {view.dtype.itemsize}",
        )
    return view.copy()


def _wrong_form(
    value: tvm_ffi.Tensor, dtypes: tuple[str, ...], shape: tuple[int | None, ...], who: str
) -> TensorError:
    got = f"{value.dtype} {tuple(value.shape)}"
    return TensorError("wrong form of tensor", who=who, got=got, expected=_form(dtypes, shape))


def _form(dtypes: tuple[str, ...], shape: tuple[int | None, ...]) -> str:
    axes = [("n" if axis is None else str(axis)) for axis in shape]
    return f"{' or '.join(dtypes)} ({', '.join(axes)}{',' if len(axes) == 1 else ''})"


def _plain(value: object) -> Any:
    if isinstance(value, (tvm_ffi.Map, Mapping)):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (tvm_ffi.Array, list, tuple)):
        return [_plain(item) for item in value]
    return str(value) if isinstance(value, str) else value


def _told(value: object) -> str:
    if value is None:
        return "null"
    return (
        f"{type(value).__name__} {_short(value)}"
        if isinstance(value, (str, bytes, int, float))
        else type(value).__name__
    )


def _short(value: object, most: int = 60) -> str:
    told = repr(value)
    return told if len(told) <= most else f"{told[:most]}..."
