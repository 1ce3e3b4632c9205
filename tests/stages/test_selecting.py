"""Audits are bounded whatever a selector chooses."""

from __future__ import annotations

import numpy as np
import pytest

from prune_engine.stages.selecting import taken, with_few_audits
from prune_engine.strategies import SelectionPool
from prune_engine.verdicts import Selection, SelectionReason

N = 20


def pool(n_audits: int) -> SelectionPool:
    """Of N candidates the last are audits, and the best by score."""
    return SelectionPool(
        scores=np.arange(N, dtype=np.float64),
        degradation_prob=np.zeros(N),
        is_audit=np.arange(N) >= N - n_audits,
        is_probe=np.zeros(N, dtype=np.bool_),
        is_trained=True,
        kinship=np.arange(N, dtype=np.int32)[:, None],
    )


def best_8(part: SelectionPool) -> Selection:
    """The eight best, audits or not."""
    best = np.argsort(-part.scores, kind="stable")[:8].astype(np.int64)
    return Selection(best, tuple(SelectionReason.AUDIT if part.is_audit[i] else SelectionReason.TOP for i in best))


@pytest.mark.parametrize(
    ("n_audits", "limit", "chosen"),
    [
        (5, 5, [19, 18, 17, 16, 15, 14, 13, 12]),
        (5, 4, [19, 18, 17, 16, 14, 13, 12, 11]),
        (5, 1, [19, 14, 13, 12, 11, 10, 9, 8]),
        (5, 0, [14, 13, 12, 11, 10, 9, 8, 7]),
        (5, -3, [14, 13, 12, 11, 10, 9, 8, 7]),
        (20, 2, [19, 18]),
        (20, 0, []),
        (0, 0, [19, 18, 17, 16, 15, 14, 13, 12]),
    ],
)
def test_no_more_audits_than_the_limit(n_audits: int, limit: int, chosen: list[int]) -> None:
    selection = with_few_audits(pool(n_audits), limit, best_8)
    assert selection.indices.tolist() == chosen
    is_audit = [reason is SelectionReason.AUDIT for reason in selection.reasons]
    assert is_audit == [position >= N - n_audits for position in chosen]


def test_a_selector_that_stays_within_the_limit_is_asked_once() -> None:
    asked: list[int] = []

    def choose(part: SelectionPool) -> Selection:
        asked.append(len(part))
        return Selection(np.array([0, N - 1]), (SelectionReason.TOP, SelectionReason.AUDIT))

    assert with_few_audits(pool(5), 1, choose).indices.tolist() == [0, N - 1]
    assert asked == [N]


def test_a_part_of_a_pool_is_read_only() -> None:
    part = taken(pool(5), np.array([19, 3]))
    assert part.scores.tolist() == [19, 3]
    assert part.kinship is not None
    assert part.kinship.tolist() == [[19], [3]]
    assert part.is_audit.tolist() == [True, False]
    assert not part.scores.flags.writeable
    bare = SelectionPool(np.ones(3), np.ones(3), np.ones(3, bool), np.ones(3, bool), is_trained=False)
    assert taken(bare, np.array([1])).kinship is None
