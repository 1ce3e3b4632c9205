"""What would have had to be different: found by search, and held against trying everything."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from prune_engine.candidates import CandidateBatch
from prune_engine.config import EngineConfig
from prune_engine.enumeration import drawn
from prune_engine.explain.counterfactual import Change, Counterfactuals
from prune_engine.explain.why_not import explain_why_not, why_not_record
from prune_engine.hardware.schema import HardwareProfile
from prune_engine.hardware.what_if import with_value
from prune_engine.pipeline import Pipeline
from prune_engine.space import DesignSpace, SpaceRestriction
from prune_engine.strategies import DraftScorer, Rule
from prune_engine.testing import make_profile, make_space
from prune_engine.verdicts import DraftScores, RuleKind, Selection, Stage


class Wide(Rule):
    """At most as many columns in the inner tile as the vectors have bytes / 9."""

    name, kind, hardware_basis = "acme.wide", RuleKind.LEGALITY, ("limits.vector_bytes",)

    def mask(self, batch: CandidateBatch, profile: HardwareProfile) -> Any:
        return 9 * batch.column(1)[:, -1] <= profile.value("limits.vector_bytes")

    def reason(self, symbols: Any, profile: HardwareProfile) -> str:
        return "too wide"


class NoSingle(Rule):
    """Cuts tiles of k whose inner part is one step out of the tables."""

    name = "acme.no-single"

    def restrict(self, space: DesignSpace, profile: HardwareProfile) -> SpaceRestriction:
        return SpaceRestriction({(s.index, 2): s.variables[2].table[:, -1] > 1 for s in space.sketches})


class Never(Rule):
    """Drops everything."""

    name = "acme.never"

    def mask(self, batch: CandidateBatch, profile: HardwareProfile) -> Any:
        return np.zeros(len(batch), dtype=np.bool_)


class Broken(Rule):
    """Raises."""

    name = "acme.broken"

    def mask(self, batch: CandidateBatch, profile: HardwareProfile) -> Any:
        raise RuntimeError("no")


class Inner(DraftScorer):
    """Likes a large inner part of i."""

    name = "acme.inner"

    def score(self, batch: CandidateBatch, profile: HardwareProfile) -> DraftScores:
        scores = batch.column(0)[:, -1].astype(np.float64)
        return DraftScores(scores, 1e-3 / scores)


class First:
    name = "acme.first"

    def select(self, pool: Any, k: int, rng: Any) -> Selection:
        raise AssertionError


def court(space: DesignSpace, *rules: Rule, draft: DraftScorer | None = None) -> Counterfactuals:
    failures: list[str] = []
    profile = make_profile()
    pipeline = Pipeline(
        rules=rules,
        draft_scorer=draft,
        verifier=None,
        selector=First(),  # type: ignore[arg-type]
        profile=profile,
        config=EngineConfig(),
        on_failure=lambda strategy, _: failures.append(strategy.name),
    )
    found = Counterfactuals(pipeline, space, profile)
    found.failures = failures  # type: ignore[attr-defined]
    return found


def candidate(space: DesignSpace, *choices: tuple[int, ...]) -> CandidateBatch:
    rows = [v.index_of(c) for v, c in zip(space.sketches[0].variables, choices, strict=True)]
    return CandidateBatch(space, space.sketches[0], np.array([rows], dtype=np.int32))


SPACE = make_space()
FINE = ((4, 4, 4), (3, 4, 4), (8, 4), (16,))


def test_a_candidate_that_passes_everything() -> None:
    found = court(SPACE, Wide(), NoSingle()).why_not(candidate(SPACE, *FINE), [], 512)
    assert found.objections == found.ways == ()
    assert found.standing is None
    assert why_not_record(found, make_profile())["stage"] is None


def test_the_profile_that_would_let_it_pass_is_exact() -> None:
    profile = make_profile()
    (limit,) = [profile.value("limits.vector_bytes")]
    assert limit is not None
    assert limit < 144, "an inner tile of 16 is too wide for it"
    found = court(SPACE, Wide()).why_not(candidate(SPACE, FINE[0], (3, 1, 16), *FINE[2:]), [], 512)
    (objection,) = found.objections
    assert (objection.stage, objection.reason) == (Stage.RULE, "too wide")
    (change,) = objection.changes
    assert (change.field, change.was, change.to) == ("limits.vector_bytes", limit, 144)
    text = "\n".join(explain_why_not(found, profile))
    assert f"would keep it if limits.vector_bytes were 144 instead of {limit}" in text
    assert "stopped by acme.wide (legality: it cannot run)" in text


def test_the_nearest_choice_is_found() -> None:
    batch = candidate(SPACE, FINE[0], (3, 1, 16), *FINE[2:])
    judge = court(SPACE, Wide())
    (way, *_) = judge.why_not(batch, [], 512).ways
    (change,) = way
    assert change.variable == "j"
    # Held against every row of the table.
    table = SPACE.sketches[0].variables[1].table
    far = np.abs(np.log2(table) - np.log2([3, 1, 16])).sum(axis=1)
    limit = make_profile().value("limits.vector_bytes") or 0
    best = far[9 * table[:, -1] <= limit].min()
    assert np.abs(np.log2(change.to) - np.log2([3, 1, 16])).sum() == pytest.approx(best)
    changed = candidate(SPACE, FINE[0], change.to, *FINE[2:])
    assert judge.keeps(changed).all()


def test_a_row_that_was_cut_out_is_named() -> None:
    batch = candidate(SPACE, *FINE[:2], (32, 1), FINE[3])
    found = court(SPACE, NoSingle()).why_not(batch, [], 512)
    (objection,) = found.objections
    assert objection.stage is Stage.TASK_SPACE
    assert objection.variables == ("k",)
    assert found.ways[0] == (Change("k", (32, 1), (16, 2)),)


def test_two_rules_need_two_changes() -> None:
    batch = candidate(SPACE, FINE[0], (3, 1, 16), (32, 1), FINE[3])
    judge = court(SPACE, NoSingle(), Wide())
    found = judge.why_not(batch, [], 512)
    assert [o.rule.name for o in found.objections] == ["acme.wide", "acme.no-single"], "legality first"
    assert {change.variable for change in found.ways[0]} == {"j", "k"}


def test_where_nothing_near_passes_the_nearest_that_does_is_told() -> None:
    class OnlyOne(Rule):
        """Keeps a single candidate, three changes away."""

        name = "acme.only"

        def mask(self, batch: CandidateBatch, profile: HardwareProfile) -> Any:
            return (batch.indices == candidate(SPACE, (64, 1, 1), (48, 1, 1), (32, 1), (0,)).indices).all(axis=1)

    judge = court(SPACE, OnlyOne())
    other = candidate(SPACE, (64, 1, 1), (48, 1, 1), (32, 1), (0,))
    found = judge.why_not(candidate(SPACE, *FINE), [other], 512)
    assert len(found.ways[0]) == 4
    assert judge.why_not(candidate(SPACE, *FINE), [], 512).ways == ()


def test_nothing_helps_against_a_rule_that_drops_all() -> None:
    found = court(SPACE, Never()).why_not(candidate(SPACE, *FINE), [], 512)
    assert found.ways == ()
    assert "would let it pass" in explain_why_not(found, make_profile())[-1]


def test_the_draft_says_how_much_better_it_must_be() -> None:
    rng = np.random.default_rng(0)
    others = CandidateBatch(SPACE, SPACE.sketches[0], drawn(SPACE.sketches[0], 400, rng))
    judge = court(SPACE, draft=Inner())
    batch = candidate(SPACE, (32, 2, 1), *FINE[1:])
    found = judge.why_not(batch, [others], 100)
    standing = found.standing
    assert standing is not None
    scores = np.sort(others.column(0)[:, -1])[::-1]
    assert standing.cut_score == scores[99]
    assert standing.rank == (scores > 1).sum() + 1
    assert standing.factor == scores[99]
    assert why_not_record(found, make_profile())["stage"] == "draft"
    for way in found.ways:
        (change,) = [c for c in way if c.variable == "i"]
        assert change.to[-1] >= scores[99]
    good = judge.why_not(candidate(SPACE, (1, 4, 16), *FINE[1:]), [others], 100)
    assert good.ways == ()
    assert "would be looked at closely" in explain_why_not(good, make_profile())[-1]


def test_a_rule_that_fails_is_left_out() -> None:
    judge = court(SPACE, Broken())
    found = judge.why_not(candidate(SPACE, *FINE), [], 512)
    assert not found.objections
    assert "acme.broken" in judge.failures  # type: ignore[attr-defined]


def test_another_number_in_a_profile() -> None:
    profile = make_profile()
    changed = with_value(profile, "memory.l2.capacity_bytes", 12345)
    assert changed is not None
    assert changed.value("memory.l2.capacity_bytes") == 12345 != profile.value("memory.l2.capacity_bytes")
    assert changed.value("limits.vector_bytes") == profile.value("limits.vector_bytes")
    assert with_value(profile, "limits.none", 1) is with_value(profile, "memory.none.capacity_bytes", 1) is None
