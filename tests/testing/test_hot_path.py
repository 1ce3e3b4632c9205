"""Loops over candidates are found by counting steps; work on whole columns is left alone."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from functools import cache

import numpy as np
import pytest

from prune_engine.candidates import CandidateBatch
from prune_engine.hardware.schema import HardwareProfile
from prune_engine.strategies import Rule
from prune_engine.testing import make_batch, make_profile, make_space
from prune_engine.testing.hot_path import check_no_row_loop, find_row_loop
from prune_engine.verdicts import BoolArray


def columns(batch: CandidateBatch) -> BoolArray:
    keep = np.ones(len(batch), dtype=np.bool_)
    for number in range(len(batch.sketch.variables)):
        keep &= batch.column(number)[:, 0] < 64
    return keep


def blocks_of_rows(batch: CandidateBatch) -> BoolArray:
    parts = [batch.indices[start : start + 64, 0] > 1 for start in range(0, len(batch), 64)]
    return np.concatenate(parts)


def different_values(batch: CandidateBatch) -> BoolArray:
    keep = np.zeros(len(batch), dtype=np.bool_)
    for value in np.unique(batch.indices[:, 0]):
        if value % 2:
            keep[batch.indices[:, 0] == value] = True
    return keep


def one_line(batch: CandidateBatch) -> BoolArray:
    return np.array([row[0] > 1 for row in batch.indices], dtype=np.bool_)


def generator(batch: CandidateBatch) -> BoolArray:
    return np.fromiter((row[0] > 1 for row in batch.indices), dtype=np.bool_, count=len(batch))


def while_loop(batch: CandidateBatch) -> BoolArray:
    keep, row = np.zeros(len(batch), dtype=np.bool_), 0
    while row < len(batch):
        keep[row] = batch.indices[row, 0] > 1
        row += 1
    return keep


def called_back(batch: CandidateBatch) -> BoolArray:
    return np.apply_along_axis(lambda row: row[0] > 1, 1, batch.indices)


def some_of_them(batch: CandidateBatch) -> BoolArray:
    keep = np.ones(len(batch), dtype=np.bool_)
    for row in np.flatnonzero(batch.indices[:, 0] == batch.indices[0, 0]):
        keep[row] = False
    return keep


def vectorized(batch: CandidateBatch) -> BoolArray:
    return np.vectorize(lambda row: row > 1, otypes=[np.bool_])(batch.indices[:, 0])


def sorting(batch: CandidateBatch) -> BoolArray:
    order = sorted(range(len(batch)), key=lambda row: batch.indices[row, 0])
    return np.arange(len(batch)) < order[0]


def in_a_thread(batch: CandidateBatch) -> BoolArray:
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(one_line, batch).result()


@cache
def remembered(row: bytes) -> bool:
    return row[0] > 1


def cached(batch: CandidateBatch) -> BoolArray:
    return np.array([remembered(row.tobytes()) for row in batch.indices])


def different_candidates(batch: CandidateBatch) -> BoolArray:
    rows, where = np.unique(batch.indices, axis=0, return_inverse=True)
    return np.array([row[0] > 1 for row in rows])[where.reshape(-1)]


class Watched(Rule):
    name = "acme.watched"


SPACE = make_space()


@pytest.mark.parametrize("mask", [columns, blocks_of_rows, different_values], ids=lambda f: f.__name__)
def test_whole_columns_are_no_loop(mask) -> None:
    check_no_row_loop(Watched(), mask, make_batch(64, space=SPACE))


@pytest.mark.parametrize(
    "mask",
    [
        one_line,
        generator,
        while_loop,
        called_back,
        vectorized,
        sorting,
        in_a_thread,
        some_of_them,
        cached,
        different_candidates,
    ],
    ids=lambda f: f.__name__,
)
def test_loops_are_found(mask) -> None:
    with pytest.raises(
        AssertionError, match=r"acme.watched loops over candidates.*test_hot_path.py:\d+, in"
    ) as told:
        check_no_row_loop(Watched(), mask, make_batch(64, space=SPACE))
    assert "Work on whole columns" in str(told.value)


def test_the_line_is_the_strategys_own() -> None:
    """A loop that calls the engine for each row is blamed on who calls, not on what is called."""

    def mask(batch: CandidateBatch) -> BoolArray:
        for row in range(len(batch)):
            batch.candidate(row)
        return np.ones(len(batch), dtype=np.bool_)

    batch = make_batch(64, space=SPACE)
    loop = find_row_loop(lambda n: lambda: mask(batch.take(np.arange(n) % 64)), (64, 1024), 1 / 32)
    assert loop is not None
    assert (loop.file, loop.line) == (__file__, mask.__code__.co_firstlineno + 2)
    assert loop.inside != loop.function
    assert loop.steps_per_row >= 1


def test_counts_are_the_same_every_time() -> None:
    batch = make_batch(64, space=SPACE)
    found = {
        find_row_loop(lambda n: lambda: one_line(batch.take(np.arange(n) % 64)), (64, 1024), 0.1) for _ in "123"
    }
    assert len(found) == 1


def test_the_first_call_may_load_what_it_needs() -> None:
    loaded: list[int] = []

    def mask(batch: CandidateBatch) -> BoolArray:
        if not loaded:
            for number in range(5000):
                loaded.append(number)
        return np.ones(len(batch), dtype=np.bool_)

    check_no_row_loop(Watched(), mask, make_batch(64, space=SPACE))


def test_a_tracer_is_put_back_even_if_the_call_raises() -> None:
    def tracer(frame, event, argument):
        return None

    def mask(batch: CandidateBatch) -> BoolArray:
        if len(batch) > 64:
            raise ValueError("planted")
        return np.ones(len(batch), dtype=np.bool_)

    before = sys.gettrace()
    sys.settrace(tracer)
    try:
        with pytest.raises(ValueError, match="planted"):
            check_no_row_loop(Watched(), mask, make_batch(64, space=SPACE))
        assert sys.gettrace() is tracer
    finally:
        sys.settrace(before)


def test_a_sketch_without_candidates_has_nothing_to_loop_over() -> None:
    check_no_row_loop(Watched(), one_line, make_batch(0, space=SPACE))


def test_profiles_are_no_rows() -> None:
    profile: HardwareProfile = make_profile()
    check_no_row_loop(Watched(), lambda batch: Watched().mask(batch, profile), make_batch(64, space=SPACE))
