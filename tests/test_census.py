"""The funnel's numbers on made-up spaces."""

from __future__ import annotations

from dataclasses import replace
from statistics import NormalDist

import numpy as np
import pytest
from kits.rules import with_nests
from prune_engine_select.epsilon_greedy import EpsilonGreedySelector

from prune_engine.candidates import CandidateBatch
from prune_engine.census import share_of, take_census
from prune_engine.config import EngineConfig
from prune_engine.funnel import FunnelStep, StrategyFailure, with_failures
from prune_engine.hardware.schema import HardwareProfile
from prune_engine.pipeline import Pipeline
from prune_engine.space import DesignSpace, SpaceRestriction
from prune_engine.strategies import Rule, Strategy
from prune_engine.testing import make_profile, make_space
from prune_engine.verdicts import BoolArray, RuleKind, Stage


class Innermost(Rule):
    """LEGALITY: the last factor of the first tile is at most 4."""

    name, kind = "test.innermost", RuleKind.LEGALITY

    def mask(self, batch: CandidateBatch, profile: HardwareProfile) -> BoolArray:
        return batch.column(0)[:, -1] <= 4


class NoUnroll(Rule):
    """HEURISTIC: nothing is unrolled. Cuts the first of its choices from the space, and the others one by one."""

    name = "test.no-unroll"

    def mask(self, batch: CandidateBatch, profile: HardwareProfile) -> BoolArray:
        return batch.column(3)[:, 0] < 64

    def restrict(self, space: DesignSpace, profile: HardwareProfile) -> SpaceRestriction:
        return SpaceRestriction({(s.index, 3): s.variables[3].table[:, 0] < 512 for s in space.sketches})


class Broken(Rule):
    name, kind = "test.broken", RuleKind.LEGALITY

    def mask(self, batch: CandidateBatch, profile: HardwareProfile) -> BoolArray:
        raise RuntimeError("planted")


def readable(n_readable: int = 2) -> DesignSpace:
    space = make_space()
    sketches = tuple(with_nests(s) if s.index < n_readable else s for s in space.sketches)
    return replace(space, sketches=sketches)


def pipeline_of(*rules: Rule, failures: list[str] | None = None) -> Pipeline:
    def fail(strategy: Strategy, error: BaseException) -> None:
        assert failures is not None, error
        failures.append(strategy.name)

    return Pipeline(
        rules=rules,
        draft_scorer=None,
        verifier=None,
        selector=EpsilonGreedySelector(0.0),
        profile=make_profile(),
        config=EngineConfig(audit_fraction=1.0),
        on_failure=fail,
    )


def test_complete_count() -> None:
    space = readable()
    told: list[tuple[int, int]] = []
    census = take_census(
        pipeline_of(NoUnroll(), Innermost()),
        space,
        sample_size=10,
        rng=np.random.default_rng(0),
        on_progress=lambda done, of: told.append((done, of)),
    )
    assert census.is_complete
    assert (census.full_size, census.size) == (space.size, space.size * 3 // 4)
    assert census.n_judged == census.size
    share = (space.sketches[0].variables[0].table[:, -1] <= 4).mean()
    assert census.n_legal == pytest.approx(share * census.size)
    assert census.n_kept == pytest.approx(share * census.size * 2 / 3)
    assert census.legal is not None
    assert census.legal.low == census.legal.value == census.legal.high == pytest.approx(share)
    # Legality comes first; each rule is reached by what those before it left; heuristics are not audited here.
    first, second = census.rule_steps
    assert (first.strategy, first.n_in, first.n_out) == ("test.innermost", census.n_judged, census.n_legal)
    assert (second.strategy, second.n_in, second.n_out) == ("test.no-unroll", census.n_legal, census.n_kept)
    assert second.n_audits == 0
    (step,) = census.space_steps
    assert (step.strategy, step.n_in, step.n_out) == ("test.no-unroll", census.full_size, census.size)
    assert told[-1] == (census.size, census.size)


def test_sample_of_a_large_space_bounds_the_share() -> None:
    space = readable()
    census = take_census(
        pipeline_of(Innermost()), space, sample_size=20_000, rng=np.random.default_rng(1), max_counted=100
    )
    exact = take_census(pipeline_of(Innermost()), space, sample_size=1, rng=np.random.default_rng(1))
    assert not census.is_complete
    assert census.n_judged == 20_000
    assert census.legal is not None
    assert exact.legal is not None
    assert census.legal.low <= exact.legal.value <= census.legal.high
    assert census.legal.high - census.legal.low < 0.02


def test_limit_itself_is_counted() -> None:
    space, rng = readable(), np.random.default_rng(0)
    for limit, is_complete in ((space.size, True), (space.size - 1, False)):
        census = take_census(pipeline_of(), space, sample_size=7, rng=rng, max_counted=limit)
        assert census.is_complete is is_complete


def test_opaque_sketches_are_not_judged() -> None:
    space = readable(1)
    census = take_census(pipeline_of(Innermost()), space, sample_size=1, rng=np.random.default_rng(0))
    assert census.n_judged == space.sketches[0].size
    assert census.n_opaque == space.sketches[1].size
    census = take_census(pipeline_of(Innermost()), readable(0), sample_size=1, rng=np.random.default_rng(0))
    assert (census.n_judged, census.legal, census.kept, census.per_sec) == (0, None, None, None)


def test_failing_rule_keeps_all_and_is_told_once() -> None:
    failures: list[str] = []
    census = take_census(
        pipeline_of(Broken(), failures=failures), readable(), sample_size=1, rng=np.random.default_rng(0)
    )
    assert failures == ["test.broken"]
    assert census.n_kept == census.size


def test_rule_that_fails_half_way_does_not_break_the_chain() -> None:
    steps = [
        FunnelStep(Stage.RULE, "first", 100, 90, 0.0),
        FunnelStep(Stage.RULE, "fails", 50, 40, 0.0),  # after 50 of the 90
        FunnelStep(Stage.RULE, "last", 80, 70, 0.0),
    ]
    first, failed, last = with_failures(steps, {"fails": StrategyFailure("TypeError: planted")}, 100)
    assert (failed.n_in, failed.n_out, failed.n_cut, failed.failed) == (90, 80, 10, "TypeError: planted")
    assert (first, last) == (steps[0], steps[2])


@pytest.mark.parametrize(("k", "n"), [(10, 100), (1, 50), (0, 50), (49, 50), (50, 50), (30, 1000)])
def test_wilsons_interval(k: int, n: int) -> None:
    """Its ends are the shares from which what was seen is just as far as 95 % of samples come."""
    share = share_of(k, n, is_exact=False)
    assert share is not None
    assert share.value == k / n
    assert 0 <= share.low <= share.value <= share.high <= 1
    z = NormalDist().inv_cdf(0.975)
    for end in (share.low, share.high):
        assert (share.value - end) ** 2 == pytest.approx(z**2 * end * (1 - end) / n, rel=1e-5)


def test_no_share_of_nothing() -> None:
    assert share_of(0, 0, is_exact=False) is None
