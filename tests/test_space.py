from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prune_engine.space import (
    DesignSpace,
    Sketch,
    SpaceRestriction,
    Variable,
    VariableKind,
    perfect_tile_table,
)
from prune_engine.testing import make_space, make_task


def factorisations(extent: int, n_parts: int, limit: int) -> set[tuple[int, ...]]:
    """Every ordered factorisation, by trying all divisors in all places."""
    if n_parts == 1:
        return {(extent,)}
    divisors = [d for d in range(1, extent + 1) if extent % d == 0]
    found = set()
    for head in itertools.product(divisors, repeat=n_parts - 1):
        product = math.prod(head)
        if extent % product == 0 and (limit <= 0 or extent // product <= limit):
            found.add((*head, extent // product))
    return found


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 120), st.integers(1, 4), st.sampled_from([-1, 0, 1, 2, 7, 16, 64, 1000]))
def test_tile_table_is_every_ordered_factorisation(extent: int, n_parts: int, limit: int) -> None:
    table = perfect_tile_table(extent, n_parts, limit)
    rows = [tuple(row) for row in table.tolist()]
    assert rows == sorted(factorisations(extent, n_parts, limit))


def n_factorisations(extent: int, n_parts: int) -> int:
    """Stars and bars per prime factor."""
    count, prime = 1, 2
    while extent > 1:
        power = 0
        while extent % prime == 0:
            extent, power = extent // prime, power + 1
        count *= math.comb(power + n_parts - 1, n_parts - 1)
        prime += 1
    return count


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 4096), st.integers(1, 5))
def test_large_tile_tables_have_the_exact_size(extent: int, n_parts: int) -> None:
    table = perfect_tile_table(extent, n_parts, -1)
    assert len(table) == n_factorisations(extent, n_parts)
    assert len(np.unique(table, axis=0)) == len(table)
    assert (table.prod(axis=1) == extent).all()
    limited = perfect_tile_table(extent, n_parts, 64)
    expected = table if n_parts == 1 else table[table[:, -1] <= 64]
    np.testing.assert_array_equal(limited, expected)


def test_tile_table_of_a_prime_above_the_limit_keeps_it_outside() -> None:
    assert perfect_tile_table(97, 2, 64).tolist() == [[97, 1]]


@pytest.mark.parametrize(("extent", "n_parts"), [(0, 2), (-4, 2), (4, 0), (2**31, 2)])
def test_tile_table_refuses(extent: int, n_parts: int) -> None:
    with pytest.raises(ValueError, match="extent"):
        perfect_tile_table(extent, n_parts, 64)


def test_tile_tables_are_shared_and_read_only() -> None:
    table = perfect_tile_table(64, 4, 64)
    assert perfect_tile_table(64, 4, 64) is table
    with pytest.raises(ValueError, match="read-only"):
        table[0, 0] = 5


def test_a_variable_cannot_be_changed_by_those_who_share_it() -> None:
    mine = np.array([[1], [2], [3]], dtype=np.int32)
    variable = Variable.of("x", VariableKind.CATEGORICAL, mine)
    mine[0] = 9
    assert variable.table.tolist() == [[1], [2], [3]]
    for array in (variable.table, variable.rows, variable.probs, variable.restrict(np.array([1, 0, 1], bool)).rows):
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 0


@pytest.mark.parametrize(
    ("table", "probs", "problem"),
    [
        (np.empty((0, 2)), None, "m >= 1"),
        (np.array([1, 2]), None, "m >= 1"),
        (np.array([[1], [2]]), (1.0,), "probabilities"),
        (np.array([[1], [2]]), (-1.0, 2.0), "probabilities"),
        (np.array([[1], [2]]), (0.0, 0.0), "probabilities"),
    ],
)
def test_variable_refuses(table: np.ndarray, probs: tuple[float, ...] | None, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        Variable.of("x", VariableKind.TILE, table, probs)


def test_index_of_finds_every_row_and_nothing_else() -> None:
    table = perfect_tile_table(48, 3, 16)
    variable = Variable.of("i", VariableKind.TILE, table)
    assert [variable.index_of(tuple(row)) for row in table.tolist()] == list(range(len(table)))
    assert variable.index_of(np.array(table[3])) == 3  # type: ignore[arg-type]
    for absent in [(48, 1), (1, 1, 48), (5, 1, 1), (), (1, 1, 48, 1)]:
        assert variable.index_of(absent) is None


def test_index_of_takes_the_first_of_equal_rows() -> None:
    variable = Variable.of("x", VariableKind.CATEGORICAL, np.array([[4], [7], [4]]))
    assert variable.index_of((4,)) == 0


def test_row_numbers_survive_a_restriction() -> None:
    variable = Variable.of("x", VariableKind.CATEGORICAL, np.array([[10], [20], [30], [40]]))
    cut = variable.restrict(np.array([True, False, True, True])).restrict(np.array([False, True, True, True]))
    assert cut.rows.tolist() == [2, 3]
    assert cut.index_of((30,)) == 2
    assert cut.size == 2
    assert variable.size == 4


@pytest.mark.parametrize("keep", [np.ones(3, bool), np.ones(5, bool), np.ones(4, np.int8)])
def test_a_restriction_covers_the_whole_table(keep: np.ndarray) -> None:
    variable = Variable.of("x", VariableKind.CATEGORICAL, np.array([[1], [2], [3], [4]]))
    with pytest.raises(ValueError, match="restriction"):
        variable.restrict(keep)


def test_size_is_an_exact_product() -> None:
    wide = Variable.of("x", VariableKind.CATEGORICAL, np.arange(1000, dtype=np.int32)[:, None])
    sketch = Sketch(0, "s", (wide,) * 9)
    assert DesignSpace(make_task(), (sketch, Sketch(1, "bare", ()))).size == 10**27 + 1
    assert not DesignSpace(make_task(), (Sketch(0, "bare", ()),)).has_choices
    assert not DesignSpace(make_task(), ()).has_choices


def test_restricting_a_space_keeps_sketches_in_place() -> None:
    space = make_space()
    nothing = np.zeros(len(space.sketches[0].variables[0].table), dtype=bool)
    smaller = space.restrict(SpaceRestriction({(0, 0): nothing}))
    assert [s.size for s in smaller.sketches] == [0, space.sketches[1].size]
    assert [s.index for s in smaller.sketches] == [0, 1]
