"""What the contract of selectors does not say: shares of probes, audits and probes."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from prune_engine_select.epsilon_greedy import EpsilonGreedySelector

from prune_engine.strategies import SelectionPool
from prune_engine.verdicts import SelectionReason

TOP, EXPLORE, AUDIT, PROBE = (SelectionReason(r) for r in ("top", "explore", "audit", "probe"))


def make_pool(n: int, *, is_trained: bool = True, audits: int = 0, probes: int = 0) -> SelectionPool:
    """Random scores; the first ``audits`` are audits, the last ``probes`` probes."""
    at, rng = np.arange(n), np.random.default_rng(0)
    return SelectionPool(
        scores=rng.random(n) if is_trained else np.ones(n),
        degradation_prob=np.zeros(n),
        is_audit=at < audits,
        is_probe=at >= n - probes,
        is_trained=is_trained,
    )


def reasons(epsilon: float, k: int, pool: SelectionPool, n_draws: int = 200) -> Counter[SelectionReason]:
    count: Counter[SelectionReason] = Counter()
    for seed in range(n_draws):
        count.update(EpsilonGreedySelector(epsilon).select(pool, k, np.random.default_rng(seed)).reasons)
    return count


def test_without_probes_it_takes_the_best_in_order() -> None:
    pool = make_pool(100)
    selection = EpsilonGreedySelector(0.0).select(pool, 10, np.random.default_rng(0))
    assert selection.indices.tolist() == np.argsort(-pool.scores, kind="stable")[:10].tolist()
    assert set(selection.reasons) == {TOP}


def test_equal_scores_keep_their_order() -> None:
    pool = replace(make_pool(50), scores=np.ones(50))
    assert EpsilonGreedySelector(0.0).select(pool, 5, np.random.default_rng(0)).indices.tolist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("k", [1, 16])
def test_the_share_of_probes_is_epsilon_for_small_batches_too(k: int) -> None:
    count = reasons(0.1, k, make_pool(300), n_draws=3200 // k)
    assert 0.07 <= count[EXPLORE] / 3200 <= 0.13


def test_all_are_probes_until_something_can_judge() -> None:
    assert set(reasons(0.0, 16, make_pool(100, is_trained=False), 5)) == {EXPLORE}


def test_probes_come_first_in_their_order_and_take_at_most_half() -> None:
    pool = make_pool(100, probes=30)
    selection = EpsilonGreedySelector(0.0).select(pool, 16, np.random.default_rng(0))
    assert selection.indices[:8].tolist() == list(range(70, 78))
    assert selection.reasons[:8] == (PROBE,) * 8
    assert PROBE not in selection.reasons[8:]


def test_few_probes_are_all_taken() -> None:
    selection = EpsilonGreedySelector(0.0).select(make_pool(4, probes=4), 16, np.random.default_rng(0))
    assert set(selection.reasons) == {PROBE}


def test_audits_get_their_share_of_the_pool() -> None:
    """A rule that drops much would else take half of all trials for its audits."""
    count = reasons(0.0, 16, make_pool(1000, audits=40))
    assert 0.025 <= count[AUDIT] / (200 * 16) <= 0.055


def test_audits_take_at_most_half_unless_there_is_nothing_else() -> None:
    assert reasons(0.0, 16, make_pool(1000, audits=950), 20) == {AUDIT: 160, TOP: 160}
    assert reasons(0.0, 16, make_pool(30, audits=30), 1) == {AUDIT: 16}
    assert reasons(0.0, 16, make_pool(30, audits=27), 1)[TOP] == 3


def test_small_pools_are_taken_whole() -> None:
    for pool in (make_pool(9, audits=3, probes=2), make_pool(9, audits=3, is_trained=False)):
        selection = EpsilonGreedySelector(0.3).select(pool, 16, np.random.default_rng(1))
        assert sorted(selection.indices.tolist()) == list(range(9))
