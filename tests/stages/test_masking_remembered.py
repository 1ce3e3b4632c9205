"""What rules said of a candidate is remembered, as long as the same rules judge it."""

from __future__ import annotations

import numpy as np
import pytest
from kits import nests

from prune_engine.candidates import CandidateBatch
from prune_engine.config import EngineConfig
from prune_engine.hardware.schema import HardwareProfile
from prune_engine.stages.masking import Masking
from prune_engine.stages.standing import Standing
from prune_engine.strategies import Rule, Strategy
from prune_engine.testing import make_profile
from prune_engine.verdicts import BoolArray


class Every(Rule):
    """Drops one row of a table in so many, and counts of how many candidates it was asked."""

    def __init__(self, name: str, every: int) -> None:
        self.name, self._every = name, every  # type: ignore[misc]
        self.n_asked = 0
        self.is_broken = False

    def mask(self, batch: CandidateBatch, profile: HardwareProfile) -> BoolArray:
        """Keep the others."""
        self.n_asked += len(batch)
        if self.is_broken:
            raise ValueError("broken")
        kept: BoolArray = batch.indices[:, 0] % self._every != 0
        return kept


@pytest.fixture
def batch() -> CandidateBatch:
    """Candidates that could be read, all different."""
    sketch = nests.gemm_cpu(64, 64, 64)
    rows = np.unique(nests.random_rows(sketch, 64), axis=0)
    return nests.batch_of(sketch, rows)


def masking(*rules: Rule) -> tuple[Masking, list[str]]:
    """The rules, and the names of those that fail."""
    failed: list[str] = []

    def note(strategy: Strategy, error: BaseException) -> None:
        failed.append(strategy.name)

    return Masking(rules, make_profile(), EngineConfig(), Standing(note)), failed


def test_rules_are_asked_once_of_each_candidate(batch: CandidateBatch) -> None:
    rule = Every("a", 3)
    stage, _ = masking(rule)
    half = batch.take(np.arange(len(batch) // 2))
    first = stage.kept(half)
    assert rule.n_asked == len(half)
    whole = stage.kept(batch)
    assert rule.n_asked == len(batch)
    assert whole.tolist() == stage.judge(batch)[1].tolist()
    assert whole[: len(half)].tolist() == first.tolist()
    assert 0 < whole.sum() < len(batch)


def test_what_a_rule_said_that_is_switched_off_is_forgotten(batch: CandidateBatch) -> None:
    stage, _ = masking(Every("a", 2), Every("b", 3))
    with_both = stage.kept(batch)
    stage._standing.switch_off("a", batch.space.task.task_id)
    without = stage.kept(batch)
    assert without.tolist() == stage.judge(batch)[1].tolist()
    assert without.sum() > with_both.sum()


def test_what_rules_said_beside_one_that_failed_is_not_taken_for_its_word(batch: CandidateBatch) -> None:
    broken = Every("a", 2)
    stage, failed = masking(broken, Every("b", 3))
    broken.is_broken = True
    kept = stage.kept(batch)
    assert failed == ["a"]
    assert kept.tolist() == stage.kept(batch).tolist() == (batch.indices[:, 0] % 3 != 0).tolist()
