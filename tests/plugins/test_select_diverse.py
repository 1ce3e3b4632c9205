"""What the contract of selectors does not say: likeness costs, and what else is in the batch."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from prune_engine_select.diverse import DiverseSelector

from prune_engine.strategies import SelectionPool
from prune_engine.verdicts import SelectionReason

TOP, EXPLORE, AUDIT, PROBE = (SelectionReason(r) for r in ("top", "explore", "audit", "probe"))


def pool_of(
    scores: list[float],
    classes: list[list[int]] | None,
    *,
    is_learnt: bool = True,
    audits: int = 0,
    probes: int = 0,
) -> SelectionPool:
    n = len(scores)
    at = np.arange(n)
    return SelectionPool(
        scores=np.array(scores, dtype=np.float64),
        degradation_prob=np.full(n, 0.5 if is_learnt else 0.0),
        is_audit=at >= n - audits,
        is_probe=at < probes,
        is_trained=True,
        kinship=None if classes is None else np.array(classes, dtype=np.int32),
    )


def chosen(selector: DiverseSelector, pool: SelectionPool, k: int) -> list[int]:
    return selector.select(pool, k, np.random.default_rng(0)).indices.tolist()


ALIKE = [[1, 1, 1, 1], [1, 1, 1, 1], [1, 1, 1, 2], [5, 6, 7, 8]]


def test_a_copy_of_the_best_waits_for_one_that_is_not() -> None:
    selector = DiverseSelector(0.0, aversion=0.5)
    assert chosen(selector, pool_of([1.0, 0.99, 0.98, 0.62], ALIKE), 2) == [0, 3]  # 0.5, 0.61, 0.62
    assert chosen(selector, pool_of([1.0, 0.99, 0.98, 0.4], ALIKE), 2) == [0, 2]
    assert chosen(selector, pool_of([1.0, 0.99, 0.7, 0.4], ALIKE), 2) == [0, 1]


def test_likeness_is_averaged_over_those_chosen() -> None:
    pool = pool_of([1.0, 0.9, 0.8, 0.55], [[1, 1], [2, 2], [1, 2], [3, 3]])
    # Beside 0 and 1 the third shares half of its classes with each: 0.8 x 0.75 is more than 0.55.
    assert chosen(DiverseSelector(0.0, aversion=0.5), pool, 3) == [0, 1, 2]


def test_without_aversion_or_classes_the_best_are_taken_in_order() -> None:
    scores = [0.5, 1.0, 0.99, 0.98]
    assert chosen(DiverseSelector(0.0, aversion=0.0), pool_of(scores, ALIKE), 3) == [1, 2, 3]
    assert chosen(DiverseSelector(0.0, aversion=0.9), pool_of(scores, None), 3) == [1, 2, 3]


def test_likeness_costs_more_before_the_verifier_is_trained() -> None:
    selector = DiverseSelector(0.0, aversion=0.1, first_aversion=0.8)
    scores = [1.0, 0.99, 0.98, 0.5]
    assert chosen(selector, pool_of(scores, ALIKE, is_learnt=True), 2) == [0, 2]
    assert chosen(selector, pool_of(scores, ALIKE, is_learnt=False), 2) == [0, 3]


def test_probes_count_as_chosen() -> None:
    pool = pool_of([0.1, 1.0, 0.9], [[1, 1], [1, 1], [2, 2]], probes=1)
    assert chosen(DiverseSelector(0.0, aversion=0.5), pool, 2) == [0, 2]


def test_all_scores_zero_are_no_trouble() -> None:
    assert len(set(chosen(DiverseSelector(0.0), pool_of([0.0] * 4, ALIKE), 4))) == 4


@pytest.mark.parametrize("has_classes", [True, False])
def test_shares_of_random_ones_audits_and_probes(has_classes: bool) -> None:
    rng = np.random.default_rng(0)
    n = 1000
    classes = rng.integers(4, size=(n, 6)).tolist() if has_classes else None
    pool = pool_of(rng.random(n).tolist(), classes, audits=40, probes=2)
    count: Counter[SelectionReason] = Counter()
    for seed in range(100):
        count.update(DiverseSelector(0.1).select(pool, 16, np.random.default_rng(seed)).reasons)
    assert count[PROBE] == 200
    assert 0.06 <= count[EXPLORE] / 1400 <= 0.14
    assert 0.02 <= count[AUDIT] / 1600 <= 0.06
    assert sum(count.values()) == 1600
