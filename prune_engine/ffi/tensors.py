"""Tensors that other languages pass: looked at once, copied, and only then read.

Calls come between milliseconds of other work, which leaves nothing of ours in the processor's caches: each step
costs several times what it does in a loop. So whether a tensor is what it must be is asked in few steps, and only
what is not is looked at in order, to say what is wrong with it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tvm_ffi import Map, Tensor, from_dlpack

from prune_engine.ffi.arguments import ArgumentError, TensorError, text, told
from prune_engine.space import Int32Array

#: Rows of one call. More is a mistake, or better asked in parts: scores of so many take seconds and gigabytes.
MAX_ROWS = 1 << 24
_CPU = 1
_UINT32 = np.dtype(np.uint32)
_ROW_DTYPES, _COLUMN_DTYPES = (np.dtype(np.int32),), (np.dtype(np.float64), np.dtype(np.int64))
#: Candidates whose row numbers are compared in one go: each by itself has few, and would be a loop of its own.
_SIDE_BY_SIDE = 256


class RowLimits:
    """How many rows the choice table of each variable of a sketch has, uint32 (v,)."""

    def __init__(self, sizes: NDArray[np.uint32]) -> None:
        """Lay the sizes out for several candidates."""
        self.sizes = sizes
        self._several = np.tile(sizes, (_SIDE_BY_SIDE, 1))

    def __len__(self) -> int:
        return len(self.sizes)

    def hold(self, rows: Int32Array) -> bool:
        """Whether all of these row numbers, C-contiguous int32 (n, v), are rows of their tables."""
        # As unsigned numbers the negative ones are the largest: one comparison finds both kinds.
        numbers = rows.view(_UINT32)
        n = len(numbers)
        if n > _SIDE_BY_SIDE:
            # Of candidates that lie whole groups apart, the largest number of each variable.
            n_groups, n = divmod(n, _SIDE_BY_SIDE)
            groups = numbers[n:].reshape(n_groups, self._several.size)
            largest = np.maximum.reduce(groups).reshape(self._several.shape)
            if True in (largest >= self._several).tobytes():
                return False
        # Looking for a byte takes the fewest steps: any() passes through Python.
        return True not in (numbers[:n] >= self._several[:n]).tobytes()


def row_numbers(value: object, limits: RowLimits, who: str) -> Int32Array:
    """Row numbers of the choice tables of a sketch, out of an int32 (n, v) tensor.

    Raises ArgumentError and TensorError.
    """
    rows: Int32Array = _copied(value, _ROW_DTYPES, (None, len(limits)), who)
    if not limits.hold(rows):
        row, variable = (int(at) for at in np.argwhere(rows.view(np.uint32) >= limits.sizes)[0])
        raise TensorError(
            "a row number that its choice table does not have",
            who=f"{who}, candidate {row}, variable {variable}",
            got=int(rows[row, variable]),
            expected=f"0 to {int(limits.sizes[variable]) - 1}",
        )
    return rows


def matrix(value: object, width: int, who: str) -> Int32Array:
    """The numbers of an int32 (n, width) tensor. Raises ArgumentError and TensorError."""
    numbers: Int32Array = _copied(value, _ROW_DTYPES, (None, width), who)
    return numbers


def columns(value: object, n: int, who: str) -> dict[str, NDArray[Any]]:
    """The columns of float64 or int64 (n,) tensors by name; none for null. Raises ArgumentError and TensorError."""
    if value is None:
        return {}
    if not isinstance(value, (Map, Mapping)):
        raise ArgumentError(
            "wrong type of argument", who=who, got=told(value), expected="a map of tensors, or null"
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


def tensor_of(array: NDArray[Any]) -> Tensor:
    """An array as a tensor that shares its memory; of one that is read-only or not contiguous, a copy."""
    # Read-only memory cannot be passed on, since nobody could protect it there.
    return from_dlpack(array if array.flags.carray else array.copy())


def _copied(value: object, dtypes: tuple[np.dtype[Any], ...], shape: tuple[int | None, ...], who: str) -> Any:
    """A tensor's numbers, C-contiguous. What it says of itself is checked before its memory is looked at.

    They are copied before they are checked: the memory is the caller's, who may write to it from another thread,
    or free it after the call, while a strategy still knows the batch.
    """
    # What numpy cannot see comes first: another device's memory, or none at all.
    if (
        isinstance(value, Tensor)
        and value.__dlpack_device__()[0] == _CPU
        and (address := value.data_ptr())
        and value.is_contiguous()
    ):
        try:
            view = np.from_dlpack(value)
        except (BufferError, RuntimeError, TypeError, ValueError):  # a type or a shape that numpy does not have
            return _empty_or_refused(value, dtypes, shape, who)
        got = view.shape
        if (
            len(got) == len(shape)
            and got[-1] == shape[-1]
            and got[0] <= MAX_ROWS
            and view.dtype in dtypes
            and not address % view.itemsize
        ):
            return view.copy()
    return _empty_or_refused(value, dtypes, shape, who)


def _empty_or_refused(
    value: object, dtypes: tuple[np.dtype[Any], ...], shape: tuple[int | None, ...], who: str
) -> NDArray[Any]:
    """What an empty tensor holds. Raises ArgumentError or TensorError for what is not as it must be."""
    if not isinstance(value, Tensor):
        raise ArgumentError(
            "wrong type of argument", who=who, got=told(value), expected=f"a tensor, {_form(dtypes, shape)}"
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
    dtype = next((dtype for dtype in dtypes if dtype.name == str(value.dtype)), None)
    if dtype is None:
        raise _wrong_form(value, dtypes, shape, who)
    if 0 in got:
        return np.empty(got, dtype)
    if not value.data_ptr():
        raise TensorError("the tensor has no memory", who=who, got="null", expected=_form(dtypes, shape))
    if value.data_ptr() % dtype.itemsize:
        raise TensorError(
            "the tensor's memory is not aligned",
            who=who,
            got=hex(value.data_ptr()),
            expected=f"an address that is a multiple of {dtype.itemsize}",
        )
    raise _wrong_form(value, dtypes, shape, who)


def _wrong_form(
    value: Tensor, dtypes: tuple[np.dtype[Any], ...], shape: tuple[int | None, ...], who: str
) -> TensorError:
    got = f"{value.dtype} {tuple(value.shape)}"
    return TensorError("wrong form of tensor", who=who, got=got, expected=_form(dtypes, shape))


def _form(dtypes: tuple[np.dtype[Any], ...], shape: tuple[int | None, ...]) -> str:
    axes = [("n" if axis is None else str(axis)) for axis in shape]
    names = " or ".join(dtype.name for dtype in dtypes)
    return f"{names} ({', '.join(axes)}{',' if len(axes) == 1 else ''})"
