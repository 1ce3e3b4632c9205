"""One small step from a choice: checked against the definition, pair by pair."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from prune_engine_explore.keys import KeySet, row_keys
from prune_engine_explore.neighbours import NeighbourTables, all_steps

from prune_engine.space import Sketch, Variable, VariableKind, perfect_tile_table


def tile(extent: int, parts: int, limit: int = 64) -> Variable:
    return Variable.of("0.x", VariableKind.TILE, perfect_tile_table(extent, parts, limit))


def listed(n: int, kind: VariableKind = VariableKind.CATEGORICAL) -> Variable:
    return Variable.of("0.x", kind, np.arange(n, dtype=np.int32)[:, None])


def neighbours(variable: Variable) -> list[set[int]]:
    found = NeighbourTables().of(variable)
    return [set(found.rows[found.starts[i] : found.starts[i + 1]].tolist()) for i in range(len(variable.table))]


def is_step(a: list[int], b: list[int]) -> bool:
    """One level gives one prime factor, another takes it."""
    changed = [(x, y) for x, y in zip(a, b, strict=True) if x != y]
    if len(changed) != 2:
        return False
    (p, q), (r, s) = changed
    (small, big), (given, taken) = ((q, p), (r, s)) if q < p else ((s, r), (p, q))
    prime = big // small
    return small * prime == big and given * prime == taken and all(prime % d for d in range(2, prime))


@pytest.mark.parametrize(("extent", "parts"), [(48, 3), (60, 3), (7, 2), (1, 4), (13, 2)])
def test_tiles_move_one_prime_factor(extent: int, parts: int) -> None:
    variable = tile(extent, parts)
    rows = variable.table.tolist()
    expected = [{j for j, b in enumerate(rows) if is_step(a, b)} for a in rows]
    assert neighbours(variable) == expected
    assert extent == 1 or any(expected)


def test_rows_that_were_cut_are_nobodys_neighbours() -> None:
    variable = tile(48, 3)
    keep = variable.table[:, 2] % 2 == 0
    whole, cut = neighbours(variable), neighbours(variable.restrict(keep))
    assert cut == [{j for j in near if keep[j]} for near in whole]
    assert cut != whole


@pytest.mark.parametrize("kind", [VariableKind.CATEGORICAL, VariableKind.LOCATION])
def test_short_lists_are_all_near(kind: VariableKind) -> None:
    assert neighbours(listed(4, kind)) == [{1, 2, 3}, {0, 2, 3}, {0, 1, 3}, {0, 1, 2}]
    assert neighbours(listed(1, kind)) == [set()]


def test_in_long_lists_only_those_close_by_are_near() -> None:
    near = neighbours(listed(100))
    assert near[0] == {1, 2}
    assert near[50] == {48, 49, 51, 52}


def test_all_steps_of_candidates() -> None:
    sketch = Sketch(0, "s", (tile(8, 2), listed(3), listed(1)))
    tables = NeighbourTables().of_sketch(sketch)
    start = np.array([[1, 0, 0], [3, 2, 0]], dtype=np.int32)
    steps = sorted(map(tuple, all_steps(start, tables).tolist()))
    near = [neighbours(v) for v in sketch.variables]
    expected = []
    for row in start.tolist():
        for v, others in enumerate(near[i][row[i]] for i in range(3)):
            expected += [(*row[:v], other, *row[v + 1 :]) for other in others]
    assert steps == sorted(expected)
    second = {tuple(row) for row in all_steps(start, tables, [1]).tolist()}
    assert second == {(1, 1, 0), (1, 2, 0), (3, 0, 0), (3, 1, 0)}


def test_drawn_neighbours_are_neighbours_and_all_come_up() -> None:
    variable = tile(48, 3)
    table = NeighbourTables().of(variable)
    rows = np.repeat(np.arange(len(variable.table), dtype=np.int32), 200)
    drawn = table.drawn(rows, np.random.default_rng(0))
    for i, near in enumerate(neighbours(variable)):
        assert set(drawn[rows == i].tolist()) == (near or {i})


def test_tables_are_told_apart_after_one_is_gone() -> None:
    tables = NeighbourTables()
    for n in itertools.chain(range(2, 12), range(2, 12)):
        assert len(tables.of(listed(n)).rows) == n * (n - 1)


def test_an_entry_of_another_table_is_not_believed() -> None:
    """Copies of an explorer keep numbers of tables that may be gone, and given to others."""
    tables, variable, other = NeighbourTables(), listed(5), tile(8, 3)
    tables._known[id(variable.table), variable.rows.tobytes()] = (other.table, tables.of(other))
    assert len(tables.of(variable).rows) == 20


def test_key_sets_are_sets() -> None:
    rng, known, seen = np.random.default_rng(0), KeySet(), set()
    for _ in range(5):
        rows = rng.integers(6, size=(50, 3), dtype=np.int32)
        new = known.add(row_keys(rows))
        expected = []
        for i, row in enumerate(map(tuple, rows.tolist())):
            if row not in seen:
                seen.add(row)
                expected.append(i)
        assert new.tolist() == expected
        assert len(known) == len(seen)
    everything = np.array(list(itertools.product(range(6), repeat=3)), dtype=np.int32)
    assert known.holds(row_keys(everything)).tolist() == [tuple(row) in seen for row in everything.tolist()]


def test_keys_of_many_rows_are_distinct() -> None:
    grid = np.stack(np.meshgrid(*[np.arange(50, dtype=np.int32)] * 3, indexing="ij"), axis=-1).reshape(-1, 3)
    assert len(np.unique(row_keys(grid))) == 50**3
