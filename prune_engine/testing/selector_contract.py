"""What every Selector must do, as a pytest class. Subclass it and give it your selector.

class TestMySelector(SelectorContract):
    @pytest.fixture
    def selector(self):
        return MySelector()
"""

from __future__ import annotations

import copy
from collections.abc import Callable

import numpy as np
import pytest

from prune_engine.contracts import check_selection
from prune_engine.strategies import SelectionPool, Selector
from prune_engine.testing.checks import check_name
from prune_engine.testing.hot_path import REPEATED_STEPS_PER_ROW, find_row_loop, told
from prune_engine.verdicts import Selection, SelectionReason


def make_pool(n: int, *, seed: int = 0, is_trained: bool = True, audits: int = 0, probes: int = 0) -> SelectionPool:
    """A pool of random scores; the first ``audits`` are audits, the last ``probes`` probes."""
    rng = np.random.default_rng(seed)
    at = np.arange(n)
    return SelectionPool(
        scores=rng.random(n) if is_trained else np.ones(n),
        degradation_prob=rng.random(n) if is_trained else np.zeros(n),
        is_audit=at < audits,
        is_probe=at >= n - probes,
        is_trained=is_trained,
    )


class SelectorContract:
    """Override ``selector``. Its copies (``copy.deepcopy``) must behave as it does."""

    @pytest.fixture
    def selector(self) -> Selector:
        """The selector under test."""
        raise NotImplementedError("give the contract a selector")

    def test_name(self, selector: Selector) -> None:
        """A dotted name."""
        check_name(selector)

    @pytest.mark.parametrize("is_trained", [True, False])
    @pytest.mark.parametrize(("n", "k"), [(0, 8), (8, 0), (1, 1), (5, 16), (16, 16), (500, 16)])
    def test_selects_at_most_k_distinct(self, selector: Selector, n: int, k: int, is_trained: bool) -> None:
        """Positions of the pool, distinct, a reason each; something of something."""
        selection = _select(selector, make_pool(n, is_trained=is_trained), k)
        assert all(isinstance(r, SelectionReason) for r in selection.reasons)
        assert len(selection.indices) > 0 or not min(n, k), "selected nothing although there was something"

    def test_reasons_are_true(self, selector: Selector) -> None:
        """Only audits are called audits, only probes probes, and neither anything else."""
        for seed in range(5):
            pool = make_pool(60, audits=10, probes=10, seed=seed)
            selection = _select(selector, pool, 24, seed=seed)
            for index, reason in zip(selection.indices, selection.reasons, strict=True):
                if reason is SelectionReason.AUDIT:
                    assert pool.is_audit[index], f"position {index} is no audit"
                elif reason is SelectionReason.PROBE:
                    assert pool.is_probe[index], f"position {index} is no probe"
                else:
                    assert not pool.is_audit[index], f"an audit was selected as {reason.value}"

    def test_prefers_the_better(self, selector: Selector) -> None:
        """Over many draws, what a trained pool is selected from is better than its average."""
        chosen, everything = [], []
        for seed in range(20):
            pool = make_pool(200, seed=seed)
            chosen.append(pool.scores[_select(selector, pool, 16, seed=seed).indices].mean())
            everything.append(pool.scores.mean())
        assert np.mean(chosen) > np.mean(everything), "no better than any other choice"

    def test_does_not_loop_over_the_pool(self, selector: Selector) -> None:
        """For as many as are chosen it may: a pool has thousands."""

        def select_of(n: int) -> Callable[[], object]:
            pool = make_pool(n, audits=5, probes=5)
            return lambda: selector.select(pool, 16, np.random.default_rng(0))

        loop = find_row_loop(select_of, (1024, 4096), REPEATED_STEPS_PER_ROW)
        assert loop is None, told(selector, loop)

    def test_seed_decides(self, selector: Selector) -> None:
        """The same generator state gives the same selection."""
        twin, pool = copy.deepcopy(selector), make_pool(200, audits=5, probes=5)
        first, second = _select(selector, pool, 16, seed=3), _select(twin, pool, 16, seed=3)
        assert first.indices.tolist() == second.indices.tolist()
        assert first.reasons == second.reasons

    def test_pool_is_not_changed(self, selector: Selector) -> None:
        """The pool's arrays stay as they were."""
        pool, same = make_pool(50, audits=5, probes=5), make_pool(50, audits=5, probes=5)
        _select(selector, pool, 16)
        for field in ("scores", "degradation_prob", "is_audit", "is_probe"):
            np.testing.assert_array_equal(getattr(pool, field), getattr(same, field))


def _select(selector: Selector, pool: SelectionPool, k: int, *, seed: int = 0) -> Selection:
    chosen = selector.select(pool, k, np.random.default_rng(seed))
    # The engine would convert them; a contract says what is right, not what is put up with.
    dtype = getattr(getattr(chosen, "indices", None), "dtype", None)
    assert dtype == np.int64, f"indices are {dtype}, not int64"
    return check_selection(selector.name, chosen, len(pool), k)
