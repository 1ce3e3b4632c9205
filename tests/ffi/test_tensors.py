"""Tensors that are passed in: read once, and the caller's again when the call returns."""

from __future__ import annotations

import numpy as np
import pytest
import tvm_ffi
from numpy.typing import NDArray

from prune_engine.ffi.arguments import ArgumentError, TensorError
from prune_engine.ffi.tensors import MAX_ROWS, RowLimits, columns, matrix, row_numbers, tensor_of

LIMITS = RowLimits(np.array([4, 2], dtype=np.uint32))


def test_rows_are_the_callers_again() -> None:
    memory = np.array([[3, 1], [0, 0]], dtype=np.int32)
    rows = row_numbers(tvm_ffi.from_dlpack(memory), LIMITS, "test")
    memory[:] = 99
    assert rows.tolist() == [[3, 1], [0, 0]]


def test_columns_are_the_callers_again() -> None:
    memory = np.array([1.0, 2.0])
    found = columns({"a": tvm_ffi.from_dlpack(memory)}, 2, "test")
    memory[:] = np.nan
    assert found["a"].tolist() == [1.0, 2.0]


@pytest.mark.parametrize(("row", "is_there"), [([3, 1], True), ([4, 1], False), ([3, 2], False), ([-1, 0], False)])
def test_row_numbers_at_the_limit(row: list[int], is_there: bool) -> None:
    tensor = tvm_ffi.from_dlpack(np.array([row], dtype=np.int32))
    if is_there:
        assert row_numbers(tensor, LIMITS, "test").tolist() == [row]
    else:
        with pytest.raises(TensorError, match="candidate 0, variable"):
            row_numbers(tensor, LIMITS, "test")


@pytest.mark.parametrize(("n", "is_taken"), [(MAX_ROWS, True), (MAX_ROWS + 1, False)])
def test_as_many_candidates_as_are_taken(n: int, is_taken: bool) -> None:
    # One byte of memory for all of them would do: of a column of width 0 nothing is read.
    tensor = tvm_ffi.from_dlpack(np.empty((n, 0), dtype=np.int32))
    if is_taken:
        assert matrix(tensor, 0, "test").shape == (n, 0)
    else:
        with pytest.raises(TensorError, match="too many candidates at once; got 16,777,217"):
            matrix(tensor, 0, "test")


def test_results_share_memory_unless_it_is_read_only() -> None:
    ours = np.arange(3.0)
    assert np.shares_memory(np.from_dlpack(tensor_of(ours)), ours)
    ours.flags.writeable = False
    assert not np.shares_memory(np.from_dlpack(tensor_of(ours)), ours)


def test_results_lie_one_after_the_other() -> None:
    every_second = np.arange(6.0)[::2]
    result = tensor_of(every_second)
    assert result.is_contiguous()
    assert np.from_dlpack(result).tolist() == [0.0, 2.0, 4.0]


@pytest.mark.parametrize("n", [1, 255, 256, 257, 511, 512, 513, 1000])
def test_each_candidate_of_a_batch_is_looked_at(n: int) -> None:
    rows = np.tile(np.array([3, 1], dtype=np.int32), (n, 1))
    assert (row_numbers(tvm_ffi.from_dlpack(rows), LIMITS, "test") == rows).all()
    for at in {0, n // 2, n - 257, n - 256, n - 1} & set(range(n)):
        for variable, wrong in ((0, 4), (1, 2), (0, -1), (1, -(2**31))):
            spoilt = rows.copy()
            spoilt[at, variable] = wrong
            with pytest.raises(TensorError, match=rf"candidate {at}, variable {variable}: .*got {wrong};"):
                row_numbers(tvm_ffi.from_dlpack(spoilt), LIMITS, "test")


@pytest.mark.parametrize("n", [0, 1, 256, 257, 512, 1000])
def test_a_sketch_without_variables(n: int) -> None:
    nothing = RowLimits(np.empty(0, dtype=np.uint32))
    tensor = tvm_ffi.from_dlpack(np.empty((n, 0), dtype=np.int32))
    assert row_numbers(tensor, nothing, "test").shape == (n, 0)


def _misaligned(values: NDArray[np.int32]) -> NDArray[np.int32]:
    memory = np.empty(values.nbytes + 1, dtype=np.uint8)
    lying: NDArray[np.int32] = memory[1:].view(np.int32).reshape(values.shape)
    lying[:] = values
    return lying


_ROWS = np.array([[3, 1], [0, 0]], dtype=np.int32)


@pytest.mark.parametrize(
    ("rows", "what"),
    [
        (_ROWS.astype(np.int64), "got int64 (2, 2); expected int32 (n, 2)"),
        (_ROWS.astype(np.uint32), "got uint32 (2, 2)"),
        (_ROWS.astype(np.float32), "got float32 (2, 2)"),
        (_ROWS[:0].astype(np.int64), "got int64 (0, 2)"),
        (_ROWS[:, :1].copy(), "got int32 (2, 1)"),
        (_ROWS[0].copy(), "got int32 (2,)"),
        (_ROWS[None].copy(), "got int32 (1, 2, 2)"),
        (_ROWS.T, "not contiguous; got strides (1, 2) of shape (2, 2)"),
        (np.tile(_ROWS, (1, 2))[:, :2], "not contiguous; got strides (4, 1)"),
        (_misaligned(_ROWS), "not aligned"),
    ],
)
def test_what_is_no_tensor_of_row_numbers(rows: NDArray[np.int32], what: str) -> None:
    with pytest.raises(TensorError) as caught:
        row_numbers(tvm_ffi.from_dlpack(rows), LIMITS, "test")
    assert what in str(caught.value)


@pytest.mark.parametrize(("value", "got"), [(None, "null"), (_ROWS, "ndarray"), ([[1, 2]], "list"), (7, "int 7")])
def test_what_is_no_tensor(value: object, got: str) -> None:
    with pytest.raises(ArgumentError, match=rf"got {got}; expected a tensor, int32 \(n, 2\)"):
        row_numbers(value, LIMITS, "test")


def test_columns_have_a_number_for_each_candidate() -> None:
    for column, got in ((np.ones(3), "float64 (3,)"), (np.ones((2, 1)), "float64 (2, 1)")):
        with pytest.raises(TensorError) as caught:
            columns({"a": tvm_ffi.from_dlpack(column)}, 2, "test")
        assert f"got {got}; expected float64 or int64 (2,)" in str(caught.value)
    with pytest.raises(TensorError, match="'a', candidate 1: not all are finite"):
        columns({"a": tvm_ffi.from_dlpack(np.array([0.0, np.inf]))}, 2, "test")
