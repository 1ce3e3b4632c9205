"""Decisions of other extents as rows of a choice table."""

from __future__ import annotations

import math

import numpy as np
import pytest
from prune_engine_transfer.rows import extent_of, nearest_choice, nearest_tiles, repaired, spread

from prune_engine.space import Variable, VariableKind, perfect_tile_table


def tile(extent: int, parts: int = 4, limit: int = 64) -> Variable:
    return Variable.of("tile", VariableKind.TILE, perfect_tile_table(extent, parts, limit))


def listed(kind: VariableKind, values: list[int]) -> Variable:
    return Variable.of("listed", kind, np.array(values)[:, None])


@pytest.mark.parametrize(
    ("factors", "extent", "expected"),
    [
        ((1, 8, 16, 4), 512, (1, 8, 16, 4)),
        ((1, 8, 16, 4), 1024, (2, 8, 16, 4)),
        ((1, 8, 16, 4), 197, (1, 1, 1, 197)),  # no factor divides: the innermost swallows all
        ((2, 8, 4, 4), 1000, (1, 1, 250, 4)),  # 4 divides, 4 does not divide 250
        ((4, 3, 2, 1), 35, (1, 1, 35, 1)),
        ((64, 8), 96, (12, 8)),
        ((7,), 9, (9,)),
    ],
)
def test_repair(factors: tuple[int, ...], extent: int, expected: tuple[int, ...]) -> None:
    assert repaired(factors, extent) == expected


def test_the_extent_is_the_product_of_a_row() -> None:
    assert extent_of(tile(360)) == 360


def test_nearest_is_the_source_itself_where_it_fits() -> None:
    variable = tile(1024)
    rows, distances = nearest_tiles(variable, (1, 8, 16, 4), 4)
    assert variable.table[rows[0]].tolist() == [2, 8, 16, 4]
    assert distances[0] == 0
    assert (np.diff(distances) >= 0).all()


def test_nearest_against_a_search_by_hand() -> None:
    variable, factors, n = tile(384), (2, 8, 16, 2), 4
    rows, distances = nearest_tiles(variable, factors, n)
    ratio = (384 / math.prod(factors)) ** (1 / 4)
    table = variable.table.tolist()

    def distance(row: list[int], wanted: tuple[float, ...]) -> float:
        return sum(abs(math.log(r / w)) for r, w in zip(row[1:], wanted[1:], strict=True))

    scaled = tuple(max(f * ratio, 1.0) for f in factors)
    expected: dict[int, float] = {}
    for wanted in (factors, scaled):
        by_distance = sorted(range(len(table)), key=lambda i: (round(distance(table[i], wanted), 9), i))
        for i in by_distance[:n]:
            expected[i] = min(expected.get(i, math.inf), distance(table[i], wanted))
    assert sorted(rows.tolist()) == sorted(expected)
    assert distances.tolist() == pytest.approx([expected[i] for i in rows.tolist()])


def test_nearest_takes_rows_that_are_allowed() -> None:
    variable = tile(1024)
    best = variable.index_of((2, 8, 16, 4))
    cut = variable.restrict(np.arange(len(variable.table)) != best)
    rows, distances = nearest_tiles(cut, (1, 8, 16, 4), 4)
    assert best not in rows
    assert set(rows.tolist()) <= set(cut.rows.tolist())
    assert distances[0] > 0


def test_a_prime_has_few_rows() -> None:
    rows, _ = nearest_tiles(tile(127), (1, 8, 16, 4), 4)
    assert len(rows) == len(set(rows.tolist())) == 3


@pytest.mark.parametrize(("wanted", "expected"), [(16, 16), (64, 64), (128, 64), (300, 512), (0, 0), (5, 0)])
def test_categoricals_by_value(wanted: int, expected: int) -> None:
    variable = listed(VariableKind.CATEGORICAL, [0, 16, 64, 512])
    chosen = variable.table[nearest_choice(variable, (wanted,))].item()
    assert chosen == expected or (wanted == 5 and chosen == 16)


@pytest.mark.parametrize(("wanted", "expected"), [(-2, -2), (-1, -1), (3, 3), (4, 3), (99, 7), (2, -1), (0, -1)])
def test_locations_are_clipped_outwards(wanted: int, expected: int) -> None:
    variable = listed(VariableKind.LOCATION, [-2, -1, 3, 7])
    assert variable.table[nearest_choice(variable, (wanted,))].item() == expected


def test_a_location_without_anything_outwards_takes_the_first() -> None:
    variable = listed(VariableKind.LOCATION, [3, 7])
    assert variable.table[nearest_choice(variable, (-1,))].item() == 3


def test_choices_that_rules_cut_are_not_taken() -> None:
    variable = listed(VariableKind.CATEGORICAL, [0, 16, 64, 512])
    cut = variable.restrict(np.array([True, True, False, True]))
    assert nearest_choice(cut, (64,)) in (1, 3)


def test_spread_takes_both_ends() -> None:
    variable = listed(VariableKind.LOCATION, list(range(20)))
    rows = spread(variable, 8)
    assert len(rows) == 8
    assert (rows[0], rows[-1]) == (0, 19)
    assert spread(listed(VariableKind.LOCATION, [4]), 8).tolist() == [0]
