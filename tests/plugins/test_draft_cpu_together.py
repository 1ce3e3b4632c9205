"""Structures that are drafted together are drafted as each candidate alone."""

from __future__ import annotations

import numpy as np
import pytest
from kits.oracle import case, random_batch
from prune_engine_draft.cpu import cpu_terms
from prune_engine_draft.cpu_plan import plan_of
from prune_engine_draft.cpu_together import Together, together

from prune_engine.symbols.structure import group_columns
from prune_engine.testing import make_profile

_N = 32


@pytest.mark.parametrize("workload", ["softmax", "conv3x3"])
def test_each_is_drafted_as_if_it_were_alone(workload: str) -> None:
    space, _ = case(workload, "llvm")
    for sketch in space.sketches[:2]:
        batch = random_batch(space, sketch, _N)
        among = cpu_terms(batch, make_profile())
        alone = [cpu_terms(batch.take(np.array([row])), make_profile()) for row in range(_N)]
        for found in ("terms", "penalties"):
            for name, column in getattr(among, found).items():
                assert column.tolist() == [getattr(one, found)[name][0] for one in alone], name
        assert among.latency_secs.tolist() == [one.latency_secs[0] for one in alone]


def test_statements_that_are_alike_are_drafted_once() -> None:
    space, _ = case("softmax", "llvm")
    batch = random_batch(space, space.sketches[0], _N)
    groups = list(group_columns(batch, lambda nest: plan_of(nest).exprs))
    assert len(groups) > 4
    n_statements = sum(len(group.nest.statements) for group in groups)
    assert len(Together(groups).alike) < 0.6 * n_statements


@pytest.mark.parametrize("max_rows", [1, 8, _N, 10 * _N])
def test_no_more_are_taken_together_than_are_allowed(max_rows: int) -> None:
    space, _ = case("softmax", "llvm")
    batch = random_batch(space, space.sketches[0], _N)
    groups = list(group_columns(batch, lambda nest: plan_of(nest).exprs, 8))
    found = list(together(groups, max_rows))
    assert max(one.n for one in found) <= max(max_rows, max(len(group.columns[0]) for group in groups))
    rows = [np.arange(_N)[one.rows] for one in found]
    assert sorted(np.concatenate(rows).tolist()) == list(range(_N))
