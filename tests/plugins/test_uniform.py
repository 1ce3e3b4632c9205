"""What the contract of explorers does not say: uniform draws, whole small spaces."""

from __future__ import annotations

import numpy as np
import pytest
from prune_engine_explore.uniform import UniformExplorer

from prune_engine.space import DesignSpace, Sketch, SpaceRestriction, Variable, VariableKind
from prune_engine.testing import make_space, make_task


def sketch_of(index: int, *sizes: int) -> Sketch:
    variables = [
        Variable.of(f"x{i}", VariableKind.CATEGORICAL, np.arange(n, dtype=np.int32)[:, None])
        for i, n in enumerate(sizes)
    ]
    return Sketch(index, f"s{index}", tuple(variables))


def propose(space: DesignSpace, n: int, seed: int = 0) -> dict[int, np.ndarray]:
    batches = UniformExplorer().propose(space, n, None, np.random.default_rng(seed))
    return {b.sketch.index: b.indices for b in batches}


def test_a_small_space_is_proposed_completely() -> None:
    space = DesignSpace(make_task(), (sketch_of(0, 2, 3), sketch_of(1), sketch_of(2, 5)))
    found = propose(space, 100)
    assert {index: len(rows) for index, rows in found.items()} == {0: 6, 1: 1, 2: 5}
    assert len(np.unique(found[0], axis=0)) == 6


def test_a_small_restricted_space_is_proposed_completely() -> None:
    space = DesignSpace(make_task(), (sketch_of(0, 4, 4),))
    cut = space.restrict(SpaceRestriction({(0, 1): np.array([False, True, False, True])}))
    rows = propose(cut, 100)[0]
    assert sorted(map(tuple, rows.tolist())) == [(a, b) for a in range(4) for b in (1, 3)]


def test_what_small_sketches_leave_goes_to_the_large() -> None:
    space = DesignSpace(make_task(), (sketch_of(0, 50, 50, 50), sketch_of(1, 3), sketch_of(2, 60, 60, 60)))
    found = propose(space, 1000)
    assert len(found[1]) == 3
    assert len(found[0]) + len(found[2]) == pytest.approx(997, abs=5)
    assert abs(len(found[0]) - len(found[2])) <= 5


def test_every_row_is_equally_likely() -> None:
    rows = propose(DesignSpace(make_task(), (sketch_of(0, 8, 1000, 1000),)), 8000)[0]
    counts = np.bincount(rows[:, 0], minlength=8)
    assert counts.min() > 850  # 1000 expected, sigma 30
    assert counts.max() < 1150


@pytest.mark.parametrize("n", [1, 2, 3])
def test_fewer_than_sketches(n: int) -> None:
    found = propose(make_space(), n)
    assert sum(map(len, found.values())) == n


@pytest.mark.parametrize("sizes", [(101,), (40, 20, 50), (300, 300)])
def test_draws_are_distinct_and_as_many_as_asked_for(sizes: tuple[int, ...]) -> None:
    rows = propose(DesignSpace(make_task(), (sketch_of(0, *sizes),)), 100)[0]
    assert len(np.unique(rows, axis=0)) == len(rows) == 100


def test_repeated_draws_reach_every_candidate_of_a_middling_space() -> None:
    space, seen = DesignSpace(make_task(), (sketch_of(0, 10, 10, 10),)), set()
    rng = np.random.default_rng(0)
    for _ in range(30):
        (batch,) = UniformExplorer().propose(space, 300, None, rng)
        seen |= set(map(tuple, batch.indices.tolist()))
    assert len(seen) == 1000
