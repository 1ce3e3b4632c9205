"""Numbers of candidates are worked out once, and forgotten when there are too many."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from kits import nests

from prune_engine.candidates import CandidateBatch
from prune_engine.row_memory import RowMemory
from prune_engine.space import Sketch, Variable, VariableKind

SKETCH = nests.gemm_cpu(64, 48, 32)


class Squares:
    """Two numbers of each candidate; notes which candidates it was asked about."""

    def __init__(self) -> None:
        self.asked: list[CandidateBatch] = []

    def __call__(self, batch: CandidateBatch) -> np.ndarray:  # type: ignore[type-arg]
        self.asked.append(batch)
        return numbers(batch)

    @property
    def counts(self) -> list[int]:
        return list(map(len, self.asked))


def numbers(batch: CandidateBatch) -> np.ndarray:  # type: ignore[type-arg]
    weighed = batch.indices @ np.arange(1, batch.indices.shape[1] + 1)
    return np.stack([weighed, weighed**2], axis=1).astype(np.float64)


def distinct(sketch: Sketch, n: int, seed: int = 0) -> np.ndarray:  # type: ignore[type-arg]
    rows = np.unique(nests.random_rows(sketch, 4 * n, seed), axis=0)[:n]
    assert len(rows) == n
    return rows


def another() -> Sketch:
    """A sketch of the same tables that is another one."""
    return nests.gemm_cpu(64, 48, 32)


def test_only_unknown_candidates_are_worked_out() -> None:
    memory, compute = RowMemory[np.float64](1000), Squares()
    rows = distinct(SKETCH, 60)
    first, both = nests.batch_of(SKETCH, rows[:40]), nests.batch_of(SKETCH, rows[::-1].copy())
    assert np.array_equal(memory.of(first, compute), numbers(first))
    assert compute.asked == [first]  # the batch itself, which shares what others worked out of it
    assert np.array_equal(memory.of(both, compute), numbers(both))
    assert np.array_equal(memory.of(both, compute), numbers(both))
    assert compute.counts == [40, 20]
    assert len(memory) == 60


def test_repeated_candidates_are_remembered_once() -> None:
    memory, compute = RowMemory[np.float64](1000), Squares()
    rows = distinct(SKETCH, 5)[[0, 1, 1, 0, 2]]
    batch = nests.batch_of(SKETCH, rows)
    assert np.array_equal(memory.of(batch, compute), numbers(batch))
    assert np.array_equal(memory.of(batch, compute), numbers(batch))
    assert compute.counts == [5]
    assert len(memory) == 3


def test_sketches_are_told_apart() -> None:
    memory, compute, other = RowMemory[np.float64](1000), Squares(), another()
    rows = distinct(SKETCH, 10)
    memory.of(nests.batch_of(SKETCH, rows), compute)
    memory.of(nests.batch_of(other, rows), compute)
    assert compute.counts == [10, 10]


def test_a_restricted_sketch_is_the_same_one() -> None:
    memory, compute = RowMemory[np.float64](1000), Squares()
    rows = distinct(SKETCH, 10)
    memory.of(nests.batch_of(SKETCH, rows), compute)
    keep = np.ones(len(SKETCH.variables[0].table), dtype=np.bool_)
    keep[0] = False
    cut = replace(SKETCH, variables=(SKETCH.variables[0].restrict(keep), *SKETCH.variables[1:]))
    memory.of(nests.batch_of(cut, rows), compute)
    assert compute.counts == [10]


def test_the_sketch_asked_about_longest_ago_is_forgotten() -> None:
    memory, compute = RowMemory[np.float64](100), Squares()
    sketches = [SKETCH, another(), another()]
    rows = distinct(SKETCH, 40)
    for sketch in sketches[:2]:
        memory.of(nests.batch_of(sketch, rows), compute)
    memory.of(nests.batch_of(sketches[0], rows), compute)  # asked about again
    memory.of(nests.batch_of(sketches[2], rows), compute)  # no room for three
    assert len(memory) == 80
    memory.of(nests.batch_of(sketches[0], rows), compute)
    assert compute.counts == [40, 40, 40]
    memory.of(nests.batch_of(sketches[1], rows), compute)
    assert compute.counts == [40, 40, 40, 40]


def test_one_sketch_alone_stays_within_the_limit() -> None:
    memory, compute = RowMemory[np.float64](50), Squares()
    rows = distinct(SKETCH, 160)
    for start in range(0, 100, 20):
        batch = nests.batch_of(SKETCH, rows[start : start + 20])
        assert np.array_equal(memory.of(batch, compute), numbers(batch))
        assert len(memory) <= 50
    large = nests.batch_of(SKETCH, rows[100:])
    assert np.array_equal(memory.of(large, compute), numbers(large))
    assert len(memory) <= 50


def test_of_what_could_not_be_read_nothing_is_remembered() -> None:
    memory, compute = RowMemory[np.float64](1000), Squares()
    batch = nests.batch_of(replace(SKETCH, nests=None), distinct(SKETCH, 5))
    memory.of(batch, compute)
    memory.of(batch, compute)
    assert len(compute.counts) == 2
    assert not len(memory)


@pytest.mark.parametrize(("n_variables", "size"), [(4, 60_000), (8, 300)], ids=["numbered", "too-many-to-number"])
def test_large_spaces(n_variables: int, size: int) -> None:
    tables = [np.arange(size, dtype=np.int32)[:, None]] * n_variables
    variables = tuple(Variable.of(f"v{n}", VariableKind.CATEGORICAL, table) for n, table in enumerate(tables))
    sketch = replace(SKETCH, variables=variables)
    memory, compute = RowMemory[np.float64](10_000), Squares()
    # Candidates that differ in one variable only, each in turn.
    rows = np.zeros((1 + 9 * n_variables, n_variables), dtype=np.int32)
    for v in range(n_variables):
        rows[1 + 9 * v : 10 + 9 * v, v] = np.arange(1, 10)
    batch = nests.batch_of(sketch, rows)
    memory.of(batch, compute)
    assert len(memory) == len(rows)
    shuffled = nests.batch_of(sketch, rows[np.random.default_rng(0).permutation(len(rows))])
    assert np.array_equal(memory.of(shuffled, compute), numbers(shuffled))
    assert compute.counts == [len(rows)]


def test_an_empty_batch() -> None:
    memory, compute = RowMemory[np.float64](1000), Squares()
    assert memory.of(nests.batch_of(SKETCH, distinct(SKETCH, 3)[:0]), compute).shape == (0, 2)
