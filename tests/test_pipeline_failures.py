"""Strategies that raise or break their contract: named, set aside, and the round goes on."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from kits.pipeline import (
    HEURISTIC,
    LEGALITY,
    Draft,
    Judge,
    MaskRule,
    Picker,
    RestrictRule,
    assert_adds_up,
    keep_first,
    pipeline,
    run,
    truth,
)
from prune_engine_select.epsilon_greedy import EpsilonGreedySelector

from prune_engine.candidates import CandidateBatch, SeenRows
from prune_engine.config import EngineConfig
from prune_engine.pipeline import Pipeline
from prune_engine.space import SpaceRestriction
from prune_engine.strategies import Strategy
from prune_engine.testing import make_batch, make_profile, make_space
from prune_engine.verdicts import (
    DraftScores,
    RuleKind,
    Selection,
    SelectionReason,
    VerifyScores,
)


def raiser(*_: object) -> Any:
    raise RuntimeError("planted")


def quitter(*_: object) -> Any:
    raise SystemExit(3)


def writes_into_batch(batch: CandidateBatch) -> np.ndarray:
    batch.indices[:] = 0
    return np.ones(len(batch), bool)


BAD_MASKS = {
    "raises": raiser,
    "exits": quitter,
    "shape": lambda b: np.ones(len(b) + 1, bool),
    "dtype": lambda b: np.ones(len(b)),
    "none": lambda b: None,
    "mutates": writes_into_batch,
}


@pytest.mark.parametrize("kind", [LEGALITY, HEURISTIC])
@pytest.mark.parametrize("mask", BAD_MASKS.values(), ids=BAD_MASKS)
def test_a_failing_rule_fails_open_and_is_asked_no_more(kind: RuleKind, mask: Any) -> None:
    log: list[str] = []
    rules = [
        MaskRule("acme.bad", mask, kind, order=1, log=log),
        MaskRule("acme.good", lambda b: b.indices[:, 3] > 0, kind),
    ]
    made = pipeline(*rules, audit_fraction=0)
    batch = make_batch(100)
    for seed in (0, 1):
        result = run(made, [batch], k=100, seed=seed)
        assert len(result.candidates) == int((batch.indices[:, 3] > 0).sum())
        assert_adds_up(result)
    assert log.count("acme.bad") == 1
    assert [name for name, _ in made[1]] == ["acme.bad"]


BAD_SCORERS = {
    "raises": raiser,
    "exits": quitter,
    "none": lambda b: None,
    "nan": lambda b: np.full(len(b), np.nan),
    "negative": lambda b: -np.ones(len(b)),
    "infinite": lambda b: np.full(len(b), np.inf),
    "shape": lambda b: np.ones(len(b) + 1),
    "dtype": lambda b: np.ones(len(b), np.float32),
    "mutates": writes_into_batch,
}


@pytest.mark.parametrize("scores", BAD_SCORERS.values(), ids=BAD_SCORERS)
def test_a_failing_draft_or_verifier_scores_nothing(scores: Any) -> None:
    def verify(batch: CandidateBatch) -> VerifyScores:
        return VerifyScores(scores(batch), np.zeros(len(batch)), "v", True)

    batches = [make_batch(100), make_batch(100, sketch=1)]
    good = Draft(lambda b: DraftScores(truth(b)))
    made = pipeline(draft=Draft(lambda b: DraftScores(scores(b))), draft_size=50)
    assert set(run(made, batches).reasons) == {SelectionReason.EXPLORE}
    assert [name for name, _ in made[1]] == ["acme.draft"]
    made = pipeline(draft=good, verifier=Judge(verify), draft_size=150)
    result = run(made, batches)
    assert set(result.reasons) <= {SelectionReason.TOP, SelectionReason.AUDIT}
    assert [name for name, _ in made[1]] == ["acme.judge"]
    assert made[0].fitness(batches[0]) is not None, "the draft stands in as fitness"
    assert_adds_up(result)


def writes_into_pool(pool: Any, k: int, rng: object) -> Selection:
    pool.scores[:] = 0
    return Selection(np.arange(k), (SelectionReason.TOP,) * k)


BAD_SELECTORS = {
    "raises": raiser,
    "exits": quitter,
    "none": lambda *_: None,
    "out of range": lambda pool, k, _: Selection(np.array([len(pool)]), (SelectionReason.TOP,)),
    "negative": lambda *_: Selection(np.array([-1]), (SelectionReason.TOP,)),
    "duplicate": lambda *_: Selection(np.array([0, 0]), (SelectionReason.TOP,) * 2),
    "too many": lambda pool, k, _: Selection(np.arange(k + 1), (SelectionReason.TOP,) * (k + 1)),
    "nothing": lambda *_: Selection(np.empty(0, np.int64), ()),
    "text reasons": lambda *_: Selection(np.array([0]), ("top",)),  # type: ignore[arg-type]
    "mutates": writes_into_pool,
}


@pytest.mark.parametrize("select", BAD_SELECTORS.values(), ids=BAD_SELECTORS)
def test_a_failing_selector_is_replaced_by_the_best_by_score(select: Any) -> None:
    made = pipeline(
        selector=Picker(select), verifier=Judge(lambda b: VerifyScores(truth(b), np.zeros(len(b)), "v", True))
    )
    batch = make_batch(100)
    result = run(made, [batch], k=5)
    best = [batch.candidate(int(i)).candidate_id for i in np.argsort(-truth(batch), kind="stable")[:5]]
    assert [c.candidate_id for c in result.candidates] == best
    assert [name for name, _ in made[1]] == ["acme.picker"]
    assert_adds_up(result)


def test_fitness_without_a_judge_is_what_the_rules_say() -> None:
    untrained = Judge(lambda b: VerifyScores(np.ones(len(b)), np.zeros(len(b)), "v", False))
    rule = MaskRule("acme.guess", lambda b: b.indices[:, 3] > 0)
    batch = make_batch(50)
    kept = (batch.indices[:, 3] > 0).astype(float)
    np.testing.assert_array_equal(pipeline(rule, verifier=untrained)[0].fitness(batch), kept)
    failing = pipeline(rule, verifier=Judge(raiser))
    for _ in range(2):
        np.testing.assert_array_equal(failing[0].fitness(batch), kept)
    assert len(failing[1]) == 1


BAD_CUTS = {
    "empties": keep_first(0),
    "raises": raiser,
    "exits": quitter,
    "shape": lambda s: SpaceRestriction({(0, 0): np.ones(1, bool)}),
    "unknown": lambda s: SpaceRestriction({(7, 0): np.ones(1, bool)}),
    "type": lambda s: {},
    "mutates": lambda s: s.sketches[0].variables[0].rows.__setitem__(0, 5),
}


@pytest.mark.parametrize("cut", BAD_CUTS.values(), ids=BAD_CUTS)
def test_a_failing_restriction_cuts_nothing(cut: Any) -> None:
    space = make_space()
    made = pipeline(RestrictRule("acme.bad", cut), RestrictRule("acme.ok", keep_first(3)))
    smaller, verdicts = made[0].restrict(space)
    assert [s.variables[0].size for s in smaller.sketches] == [3, 3]
    assert [v.strategy for v in verdicts] == ["acme.ok"]
    assert [name for name, _ in made[1]] == ["acme.bad"]


def test_two_rules_that_together_empty_a_space_do_not() -> None:
    rest = RestrictRule(
        "acme.rest",
        lambda s: SpaceRestriction(
            {(i, 0): np.arange(len(k.variables[0].table)) >= 2 for i, k in enumerate(s.sketches)}
        ),
    )
    made = pipeline(RestrictRule("acme.a", keep_first(2)), rest)
    smaller, _ = made[0].restrict(make_space())
    assert smaller.size > 0
    assert [name for name, _ in made[1]] == ["acme.rest"]


def test_what_on_failure_raises_ends_the_round() -> None:
    def on_failure(strategy: Strategy, error: BaseException) -> None:
        raise ValueError("strict") from error

    made = Pipeline(
        rules=[MaskRule("acme.bad", raiser)],
        draft_scorer=None,
        verifier=None,
        selector=EpsilonGreedySelector(0.1),
        profile=make_profile(),
        config=EngineConfig(),
        on_failure=on_failure,
    )
    with pytest.raises(ValueError, match="strict"):
        made.run([make_batch(5)], [], 4, SeenRows(), np.random.default_rng(0))
