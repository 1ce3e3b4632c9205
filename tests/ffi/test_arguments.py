"""What is passed in: read once, and the caller's again when the call returns."""

from __future__ import annotations

import numpy as np
import pytest
import tvm_ffi

from prune_engine.ffi.arguments import ArgumentError, TensorError, TextError, json_object, plain_map
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


def test_maps_become_plain_and_keep_other_objects() -> None:
    marker = object()
    source = tvm_ffi.convert({"a": [1, {"b": "c"}], "d": None})
    assert plain_map(source, "test") == {"a": [1, {"b": "c"}], "d": None}
    assert plain_map({"e": marker}, "test") == {"e": marker}
    assert plain_map('{"a": 1}', "test") == {"a": 1}
    with pytest.raises(ArgumentError, match="got null"):
        plain_map(None, "test")


def test_texts_that_are_no_objects() -> None:
    for text in ("", "nul", "[]", "1", '"a"', "[" * 100_000):
        with pytest.raises(TextError):
            json_object(text, "test")
    with pytest.raises(ArgumentError, match="bytes"):
        json_object(b"{}", "test")
