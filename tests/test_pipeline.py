"""Stages 1 to 5 without an engine: order, audits, accounts, and strategies that fail."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from prune_engine_select.epsilon_greedy import EpsilonGreedySelector

from prune_engine.candidates import CandidateBatch, SeenRows
from prune_engine.config import EngineConfig
from prune_engine.pipeline import Pipeline, PruneResult
from prune_engine.space import DesignSpace, SpaceRestriction
from prune_engine.strategies import DraftScorer, Rule, Selector, Strategy, Verifier
from prune_engine.testing import FakeWorkbench, make_batch, make_profile, make_space
from prune_engine.verdicts import (
    DraftScores,
    Outcome,
    RuleKind,
    Selection,
    SelectionReason,
    Stage,
    Verdict,
    VerifyScores,
)

LEGALITY, HEURISTIC = RuleKind.LEGALITY, RuleKind.HEURISTIC


class MaskRule(Rule):
    """Keeps where ``keep(batch)`` is True; remembers when it was asked."""

    def __init__(
        self,
        name: str,
        keep: Callable[[CandidateBatch], Any] = lambda b: np.ones(len(b), bool),
        kind: RuleKind = HEURISTIC,
        order: int = 100,
        log: list[str] | None = None,
    ) -> None:
        self.name, self.kind, self.order = name, kind, order  # type: ignore[misc]
        self._keep, self._log = keep, log if log is not None else []

    def mask(self, batch: CandidateBatch, profile: object) -> Any:
        self._log.append(self.name)
        return self._keep(batch)


class RestrictRule(Rule):
    def __init__(self, name: str, cut: Callable[[DesignSpace], Any]) -> None:
        self.name, self._cut = name, cut  # type: ignore[misc]

    def restrict(self, space: DesignSpace, profile: object) -> Any:
        return self._cut(space)


class Draft(DraftScorer):
    name = "acme.draft"

    def __init__(self, score: Callable[[CandidateBatch], Any]) -> None:
        self._score = score

    def score(self, batch: CandidateBatch, profile: object) -> Any:
        return self._score(batch)


class Judge(Verifier):
    name = "acme.judge"

    def __init__(self, score: Callable[[CandidateBatch], Any]) -> None:
        self._score = score

    def score(self, batch: CandidateBatch) -> Any:
        return self._score(batch)

    def update(self, batch: object, measurements: object) -> None: ...

    def save(self, path: object) -> None: ...

    def load(self, path: object) -> None: ...


class Picker(Selector):
    name = "acme.picker"

    def __init__(self, select: Callable[..., Any]) -> None:
        self._select = select

    def select(self, pool: Any, k: int, rng: np.random.Generator) -> Any:
        return self._select(pool, k, rng)


Made = tuple[Pipeline, list[tuple[str, BaseException]]]


def pipeline(
    *rules: Rule,
    draft: DraftScorer | None = None,
    verifier: Verifier | None = None,
    selector: Selector | None = None,
    **options: Any,
) -> Made:
    failed: list[tuple[str, BaseException]] = []

    def on_failure(strategy: Strategy, error: BaseException) -> None:
        failed.append((strategy.name, error))

    made = Pipeline(
        rules=rules,
        draft_scorer=draft,
        verifier=verifier,
        selector=selector or EpsilonGreedySelector(0.0),
        profile=make_profile(),
        config=EngineConfig.of(**options),
        on_failure=on_failure,
    )
    return made, failed


def run(
    made: Made,
    proposals: Sequence[CandidateBatch],
    seeds: Sequence[CandidateBatch] = (),
    *,
    k: int = 16,
    seen: SeenRows | None = None,
    seed: int = 0,
) -> PruneResult:
    return made[0].run(proposals, seeds, k, seen or SeenRows(), np.random.default_rng(seed))


def assert_adds_up(result: PruneResult) -> None:
    stopped = sum(v.count for v in result.verdicts if v.outcome in (Outcome.DROPPED, Outcome.SKIPPED))
    chosen = sum(v.count for v in result.verdicts if v.stage is Stage.SELECT and v.outcome is Outcome.KEPT)
    assert stopped + chosen == result.n_proposed
    assert chosen == len(result.candidates)


def truth(batch: CandidateBatch) -> np.ndarray:
    return 1e-3 / FakeWorkbench().true_latency_secs(batch)


def no_heuristic_keeps(batch: CandidateBatch) -> np.ndarray:
    return np.zeros(len(batch), bool)


def dropped(result: PruneResult) -> dict[str, int]:
    return {v.strategy: v.count for v in result.verdicts if v.outcome is Outcome.DROPPED}


def test_rules_run_legality_first_then_by_order_then_by_name() -> None:
    log: list[str] = []
    rules = [
        MaskRule("z.guess", order=1, log=log),
        MaskRule("b.legal", kind=LEGALITY, order=5, log=log),
        MaskRule("a.guess", order=7, log=log),
        MaskRule("a.legal", kind=LEGALITY, order=5, log=log),
        MaskRule("c.legal", kind=LEGALITY, order=1, log=log),
        MaskRule("off.guess", log=log),
    ]
    run(pipeline(*rules, disabled_rules=("off.guess",)), [make_batch(50)])
    assert log == ["c.legal", "a.legal", "b.legal", "z.guess", "a.guess"]


def test_a_candidate_is_dropped_once_by_the_first_rule_that_objects() -> None:
    rules = [
        MaskRule("a.legal", lambda b: b.indices[:, 3] != 0, LEGALITY),
        MaskRule("b.guess", lambda b: b.indices[:, 3] >= 2),
    ]
    batch = make_batch(400)
    result = run(pipeline(*rules, audit_fraction=0), [batch])
    values = np.bincount(batch.indices[:, 3], minlength=4)
    assert dropped(result) == {"a.legal": values[0], "b.guess": values[1]}
    assert_adds_up(result)


def test_an_audit_share_of_what_a_guess_drops_is_measured_and_marked() -> None:
    made = pipeline(MaskRule("acme.guess", no_heuristic_keeps), audit_fraction=0.1)
    batch = make_batch(4000)
    result = run(made, [batch], k=4000)
    n_audits = result.reasons.count(SelectionReason.AUDIT)
    assert n_audits == len(result.candidates)
    assert 320 <= n_audits <= 480  # 400 expected, sigma 19
    marked = [v for v in result.verdicts if v.stage is Stage.RULE and v.outcome is Outcome.KEPT]
    assert {v.candidate_id for v in marked} == {c.candidate_id for c in result.candidates}
    assert {v.strategy for v in marked} == {"acme.guess"}
    assert_adds_up(result)


def test_legality_is_not_audited() -> None:
    made = pipeline(MaskRule("acme.legal", no_heuristic_keeps, LEGALITY), audit_fraction=1.0)
    result = run(made, [make_batch(100)])
    assert not result.candidates
    assert dropped(result) == {"acme.legal": 100}


def test_what_a_guess_spares_for_an_audit_a_later_rule_does_not_judge() -> None:
    rules = [MaskRule("a.guess", no_heuristic_keeps, order=1), MaskRule("b.guess", no_heuristic_keeps, order=2)]
    result = run(pipeline(*rules, audit_fraction=1.0), [make_batch(30)], k=30)
    assert {v.strategy for v in result.verdicts if v.stage is Stage.RULE} == {"a.guess"}


def test_seeds_pass_heuristics_but_no_legality_rule() -> None:
    seeds, proposals = make_batch(4, seed=1), make_batch(50, seed=2)
    guess = MaskRule("acme.guess", no_heuristic_keeps)
    result = run(pipeline(guess, audit_fraction=0), [proposals], [seeds])
    assert set(result.reasons) == {SelectionReason.SEED}
    assert len(result.candidates) == 4
    legal = MaskRule("acme.legal", no_heuristic_keeps, LEGALITY)
    assert not run(pipeline(legal, audit_fraction=0), [proposals], [seeds]).candidates


def test_seeds_are_measured_first() -> None:
    seeds = make_batch(3, seed=1)
    result = run(pipeline(), [make_batch(200, seed=2)], [seeds])
    assert result.reasons[:3] == (SelectionReason.SEED,) * 3
    assert {c.candidate_id for c in result.candidates[:3]} == {seeds.candidate(i).candidate_id for i in range(3)}


def test_what_several_batches_hold_is_measured_once() -> None:
    """Seeds among the proposals, two batches of one sketch, a batch twice."""
    space = make_space()
    batch = make_batch(40, space=space)
    result = run(pipeline(), [batch, batch.take(np.arange(20))], [batch.take(np.arange(5, 15))], k=100)
    ids = [c.candidate_id for c in result.candidates]
    assert len(ids) == len(set(ids)) == 40
    assert result.n_unseen == 40
    assert result.n_proposed == 70
    assert_adds_up(result)


def test_what_was_seen_is_not_proposed_again_but_accounted_for() -> None:
    batch, seen = make_batch(40), SeenRows()
    seen.add(0, batch.indices[:33])
    result = run(pipeline(), [batch], seen=seen)
    assert len(result.candidates) == 7
    assert_adds_up(result)
    assert seen.count(0) == 33, "choosing does not mark anything as seen"


def test_draft_keeps_the_best_and_audits_the_rest() -> None:
    made = pipeline(draft=Draft(lambda b: DraftScores(truth(b))), draft_size=50, audit_fraction=0.05)
    batch = make_batch(1000)
    result = run(made, [batch], k=1000)
    order = np.argsort(-truth(batch))
    best = {batch.candidate(int(i)).candidate_id for i in order[:50]}
    ids = {c.candidate_id for c, r in zip(result.candidates, result.reasons, strict=True) if r.value != "audit"}
    assert ids == best
    assert 25 <= result.reasons.count(SelectionReason.AUDIT) <= 75
    assert {v.strategy for v in result.verdicts if v.stage is Stage.DRAFT} == {"acme.draft"}
    assert_adds_up(result)


def test_draft_never_drops_seeds_or_audits() -> None:
    def worst_for_seeds(batch: CandidateBatch) -> DraftScores:
        return DraftScores(truth(batch) if len(batch) > 30 else np.zeros(len(batch)))

    made = pipeline(
        MaskRule("acme.guess", lambda b: b.indices[:, 3] > 0),
        draft=Draft(worst_for_seeds),
        draft_size=20,
        audit_fraction=0.5,
    )
    seeds = make_batch(12, seed=1)
    result = run(made, [make_batch(300, seed=2)], [seeds], k=400)
    ids = {c.candidate_id for c in result.candidates}
    assert {seeds.candidate(i).candidate_id for i in range(12)} <= ids
    assert_adds_up(result)


def test_verifier_decides_once_trained_and_the_draft_before() -> None:
    def judge(is_trained: bool) -> Judge:
        return Judge(lambda b: VerifyScores(truth(b), np.full(len(b), 0.25), "v", is_trained))

    worst = Draft(lambda b: DraftScores(1 / truth(b)))
    batches = [make_batch(300), make_batch(300, sketch=1)]
    everything = np.concatenate([truth(b) for b in batches])
    n_best = {}
    for is_trained in (True, False):
        result = run(pipeline(verifier=judge(is_trained), draft=worst, draft_size=1000), batches, k=10)
        evidence = [v for v in result.verdicts if v.stage is Stage.SELECT and v.outcome is Outcome.KEPT]
        scores = np.array([v.evidence["score"] for v in evidence])
        expected = everything if is_trained else 1 / everything
        np.testing.assert_allclose(scores, np.sort(expected)[::-1][:10])
        n_best[is_trained] = {v.evidence["degradation_prob"] for v in evidence}
    assert n_best == {True: {0.25}, False: {0.0}}


def test_without_any_judge_all_are_probes() -> None:
    untrained = Judge(lambda b: VerifyScores(np.ones(len(b)), np.zeros(len(b)), "v", False))
    result = run(pipeline(verifier=untrained), [make_batch(100)])
    assert set(result.reasons) == {SelectionReason.EXPLORE}


@pytest.mark.parametrize("n", [0, 1])
def test_tiny_rounds(n: int) -> None:
    made = pipeline(
        MaskRule("acme.guess"),
        draft=Draft(lambda b: DraftScores(truth(b))),
        verifier=Judge(lambda b: VerifyScores(truth(b), np.zeros(len(b)), "v", True)),
    )
    for proposals in ([make_batch(n)], [make_batch(n), make_batch(0, sketch=1)], []):
        result = run(made, proposals)
        assert len(result.candidates) == sum(map(len, proposals))
        assert_adds_up(result)
    assert not made[1]


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


def test_fitness_is_none_without_a_judge() -> None:
    untrained = Judge(lambda b: VerifyScores(np.ones(len(b)), np.zeros(len(b)), "v", False))
    assert pipeline(verifier=untrained)[0].fitness(make_batch(5)) is None
    failing = pipeline(verifier=Judge(raiser))
    assert failing[0].fitness(make_batch(5)) is None
    assert failing[0].fitness(make_batch(5)) is None
    assert len(failing[1]) == 1


def keep_first(n: int) -> Callable[[DesignSpace], SpaceRestriction]:
    def cut(space: DesignSpace) -> SpaceRestriction:
        return SpaceRestriction(
            {(s, 0): np.arange(len(k.variables[0].table)) < n for s, k in enumerate(space.sketches)}
        )

    return cut


def test_restrict_cuts_rows_and_says_how_many() -> None:
    space = make_space()
    made = pipeline(RestrictRule("acme.cut", keep_first(2)), RestrictRule("acme.nothing", lambda s: None))
    smaller, verdicts = made[0].restrict(space)
    assert [s.variables[0].size for s in smaller.sketches] == [2, 2]
    (verdict,) = verdicts
    assert verdict.stage is Stage.TASK_SPACE
    assert verdict.strategy == "acme.cut"
    assert verdict.count == space.size - smaller.size
    assert verdict.evidence == {"size_before": space.size, "size_after": smaller.size}


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


def test_a_verdict_of_a_count_that_no_integer_column_holds_is_capped() -> None:
    from prune_engine.space import Sketch, Variable, VariableKind
    from prune_engine.testing import make_task

    wide = Variable.of("x", VariableKind.CATEGORICAL, np.arange(2000, dtype=np.int32)[:, None])
    space = DesignSpace(make_task(), (Sketch(0, "s", (wide,) * 9),))
    cut = RestrictRule("acme.cut", lambda s: SpaceRestriction({(0, 0): np.arange(2000) < 1}))
    _, (verdict,) = pipeline(cut)[0].restrict(space)
    assert isinstance(verdict, Verdict)
    assert verdict.count == 2**62
