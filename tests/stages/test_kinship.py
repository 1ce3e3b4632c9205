"""Classes by decisions: candidates share those of equal decisions in one sketch, and nothing across sketches."""

from __future__ import annotations

import numpy as np

from prune_engine.stages.kinship import decision_kinship
from prune_engine.stages.pool import NOT_AUDITED, Pool, joined
from prune_engine.testing import make_batch, make_space


def test_classes_are_those_of_equal_decisions() -> None:
    space = make_space()
    batches = [make_batch(30, space=space, sketch=s) for s in (0, 1, 1)]
    audits = [np.full(len(b), NOT_AUDITED) for b in batches]
    pool = joined(batches, audits, 0, ()).take(np.random.default_rng(0).permutation(90))
    kinship = decision_kinship(pool)
    assert kinship is not None
    assert kinship.dtype == np.int32
    assert kinship.shape == (90, 1 + max(len(b.sketch.variables) for b in batches))
    n_alike = 0
    for i in range(90):
        for j in range(i):
            a, b = (pool.batches[pool.owners[p]] for p in (i, j))
            ours, theirs = (x.indices[pool.rows[p]] for x, p in ((a, i), (b, j)))
            alike = (1 + int((ours == theirs).sum())) if a.sketch is b.sketch else 0
            assert int((kinship[i] == kinship[j]).sum()) == alike
            n_alike += alike > 1
    assert n_alike > 100


def test_an_empty_pool_has_none() -> None:
    assert decision_kinship(Pool.empty()) is None
