"""Compute locations are opened a few at a time, and candidates of one sketch read as those of another."""

from __future__ import annotations

import itertools

import numpy as np
from prune_engine_explore.neighbours import NeighbourTables
from prune_engine_explore.structures import Structures
from prune_engine_explore.translation import Translations

from prune_engine.space import DesignSpace, Int32Array, Sketch, Variable, VariableKind, perfect_tile_table
from prune_engine.testing import make_space, make_task

RNG = np.random.default_rng(0)


def readable(n_locations: int = 6) -> Sketch:
    """A sketch whose loops count as read, with a tile and two compute locations."""
    at = np.arange(-2, n_locations - 2, dtype=np.int32)[:, None]
    variables = (
        Variable.of("0.x", VariableKind.TILE, perfect_tile_table(16, 3, 16)),
        Variable.of("1.a", VariableKind.LOCATION, at),
        Variable.of("2.b", VariableKind.LOCATION, at),
    )
    like = make_space(symbols={"some_symbol": [1]}).sketches[0]
    return Sketch(0, "read", variables, None, like.nests)


def everything(rows: Int32Array) -> Int32Array:
    return rows


def grid(sketch: Sketch) -> Int32Array:
    return np.array(list(itertools.product(*(range(v.size) for v in sketch.variables))), dtype=np.int32)


def test_nothing_is_open_at_first_and_then_as_many_as_asked_for() -> None:
    sketch = readable()
    structures = Structures(sketch)
    none = np.empty((0, 3), dtype=np.int32)
    assert not structures.admits(grid(sketch)).any()
    for n, expected in ((4, 4), (4, 8), (8, 16), (1000, 36)):
        structures.open(n, sketch, none, everything, RNG)
        assert len(structures) == expected
    found = grid(sketch)[structures.admits(grid(sketch))]
    assert len(np.unique(found[:, 1:], axis=0)) == len(structures)


def test_those_nearby_come_first_and_in_order() -> None:
    sketch, structures = readable(), Structures(readable())
    near = np.array([[0, 5, 5], [1, 5, 5], [0, 4, 4], [0, 3, 3]], dtype=np.int32)
    structures.open(2, sketch, near, everything, RNG)
    assert structures.admits(near).tolist() == [True, True, True, False]
    assert len(structures) == 2


def test_steps_lead_to_closed_structures_close_to_the_best_first() -> None:
    sketch, structures = readable(20), Structures(readable(20))
    best = np.array([[0, 10, 10], [3, 10, 10], [0, 2, 3]], dtype=np.int32)
    structures.open(2, sketch, best, everything, RNG)
    steps = structures.steps(best, NeighbourTables().of_sketch(sketch), RNG)
    assert not structures.admits(steps).any()
    assert {tuple(row) for row in steps[:4, 1:].tolist()} == {(9, 10), (11, 10), (10, 9), (10, 11)}
    assert len(steps) == 2 * 2 * 19


def test_what_cannot_run_is_not_opened() -> None:
    sketch, structures = readable(), Structures(readable())
    structures.open(30, sketch, grid(sketch), lambda rows: rows[rows[:, 1] == 2], RNG)
    assert set(grid(sketch)[structures.admits(grid(sketch))][:, 1].tolist()) == {2}


def test_imposed_and_clamped_candidates_have_open_structures() -> None:
    sketch, structures = readable(), Structures(readable())
    structures.open(10, sketch, grid(sketch), everything, RNG)
    rows = grid(sketch)[RNG.permutation(len(grid(sketch)))]
    structures.impose(rows, RNG, 3)
    assert structures.admits(rows).all()
    assert len(np.unique(rows[:, 1:], axis=0)) == 3
    children = grid(sketch)[: len(rows)]
    before = children.copy()
    was_open = structures.admits(children)
    structures.clamp(children, rows)
    assert structures.admits(children).all()
    assert (children[was_open] == before[was_open]).all()
    assert (children[:, 0] == before[:, 0]).all()


def test_some_are_those_of_given_candidates() -> None:
    sketch, structures = readable(), Structures(readable())
    structures.open(20, sketch, grid(sketch), everything, RNG)
    few = structures.some(np.array([[3, 1, 1], [4, 1, 1], [0, 2, 1]], dtype=np.int32))
    assert len(few) == 2
    assert few.admits(np.array([[0, 1, 1], [0, 2, 1], [0, 1, 2]], dtype=np.int32)).tolist() == [True, True, False]


def test_a_sketch_without_locations_and_one_that_is_not_read_are_open() -> None:
    for sketch in make_space().sketches:  # opaque: reading costs nothing
        structures = Structures(sketch)
        assert structures.is_single
        assert structures.admits(np.zeros((5, len(sketch.variables)), dtype=np.int32)).all()


def test_candidates_are_translated_by_meaning_and_value() -> None:
    def at(*values: int) -> Int32Array:
        return np.array(values, dtype=np.int32)[:, None]

    tile = perfect_tile_table(16, 3, 16)
    one = Sketch(
        0,
        "one",
        (Variable.of("0.x", VariableKind.TILE, tile), Variable.of("1.a", VariableKind.LOCATION, at(-1, 0, 7))),
    )
    other = Sketch(
        1,
        "other",
        (
            Variable.of("0.new", VariableKind.CATEGORICAL, at(5, 6)),
            Variable.of("1.x", VariableKind.TILE, tile),
            Variable.of("2.a", VariableKind.LOCATION, at(-2, -1, 0)),
        ),
    )
    translations = Translations()
    translation = translations.between(one, other)
    assert translation is not None
    rows = np.array([[4, 0], [5, 1], [6, 2]], dtype=np.int32)
    defaults = np.array([[1, 0, 0], [0, 0, 0], [1, 0, 2]], dtype=np.int32)
    assert translation(rows, defaults).tolist() == [[1, 4, 1], [0, 5, 2], [1, 6, 2]]  # 7 is not there: as before
    alien = Sketch(2, "alien", (Variable.of("0.y", VariableKind.TILE, tile), *other.variables[:1]))
    assert translations.between(one, alien) is None
    assert DesignSpace(make_task(), (one, other)).size
