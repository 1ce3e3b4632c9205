"""Scores held against what building costs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from kits import nests
from kits.pipeline import Draft, Judge, pipeline

from prune_engine.candidates import CandidateBatch
from prune_engine.stages.patience import FREE_INSTANCES, patience
from prune_engine.verdicts import DraftScores, Float64Array, VerifyScores


@pytest.fixture(scope="module")
def batch() -> CandidateBatch:
    sketch = nests.gemm_cpu(64, 64, 64)
    return nests.batch_of(sketch, nests.random_rows(sketch, 200))


def test_each_doubling_of_the_body_costs_the_same(batch: CandidateBatch) -> None:
    instances = batch.symbol("unrolled_body_instances")
    factor = patience(batch, 0.1)
    assert len(np.unique(instances)) > 3
    doublings = np.log2(1 + instances / FREE_INSTANCES)
    np.testing.assert_allclose(1 - factor, 0.1 * doublings)
    assert ((factor > 0) & (factor <= 1)).all()


def test_nothing_is_lost_for_good(batch: CandidateBatch) -> None:
    assert patience(batch, 0.99).min() == 0.25
    assert (patience(batch, 0.0) == 1).all()


def test_what_cannot_be_read_loses_nothing(batch: CandidateBatch) -> None:
    opaque = CandidateBatch(batch.space, replace(batch.sketch, nests=None), batch.indices)
    assert (patience(opaque, 0.1) == 1).all()


def descending(batch: CandidateBatch) -> Float64Array:
    return np.linspace(2.0, 1.0, len(batch))


def test_draft_verifier_and_fitness_are_held_against_it(batch: CandidateBatch) -> None:
    def verified(asked: CandidateBatch) -> VerifyScores:
        return VerifyScores(descending(asked), np.zeros(len(asked)), "v", True)

    def drafted(asked: CandidateBatch) -> DraftScores:
        return DraftScores(descending(asked), latency_secs=1 / descending(asked))

    expected = descending(batch) * patience(batch, 0.08)
    without = pipeline(draft=Draft(drafted))[0]
    np.testing.assert_allclose(without.fitness(batch), expected)
    draft = without.scoring.draft(batch)
    assert draft is not None
    np.testing.assert_allclose(draft.latency_secs, 1 / descending(batch))  # a forecast, and no opinion
    judged = pipeline(draft=Draft(drafted), verifier=Judge(verified))[0]
    np.testing.assert_allclose(judged.fitness(batch), expected)


def test_scores_that_say_nothing_say_nothing_still(batch: CandidateBatch) -> None:
    equal = pipeline(draft=Draft(lambda b: DraftScores(np.ones(len(b)))))[0]
    assert (equal.fitness(batch) == 1).all()
