"""Stages 1 to 5 without an engine: order, audits, accounts."""

from __future__ import annotations

import numpy as np
import pytest
from kits.pipeline import (
    LEGALITY,
    Draft,
    Judge,
    MaskRule,
    RestrictRule,
    assert_adds_up,
    dropped,
    keep_first,
    no_heuristic_keeps,
    pipeline,
    run,
    truth,
)

from prune_engine.candidates import CandidateBatch, SeenRows
from prune_engine.space import DesignSpace, SpaceRestriction
from prune_engine.testing import make_batch, make_space
from prune_engine.verdicts import (
    DraftScores,
    Outcome,
    SelectionReason,
    Stage,
    Verdict,
    VerifyScores,
)


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


def test_probes_pass_heuristics_but_no_legality_rule() -> None:
    probes, proposals = make_batch(4, seed=1), make_batch(50, seed=2)
    guess = MaskRule("acme.guess", no_heuristic_keeps)
    result = run(pipeline(guess, audit_fraction=0), [proposals], [probes])
    assert set(result.reasons) == {SelectionReason.PROBE}
    assert len(result.candidates) == 4
    legal = MaskRule("acme.legal", no_heuristic_keeps, LEGALITY)
    assert not run(pipeline(legal, audit_fraction=0), [proposals], [probes]).candidates


def test_probes_are_measured_first() -> None:
    probes = make_batch(3, seed=1)
    result = run(pipeline(), [make_batch(200, seed=2)], [probes])
    assert result.reasons[:3] == (SelectionReason.PROBE,) * 3
    assert {c.candidate_id for c in result.candidates[:3]} == {probes.candidate(i).candidate_id for i in range(3)}


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
    made = pipeline(draft=Draft(lambda b: DraftScores(truth(b))), draft_size=50, audit_fraction=0.8)
    batch = make_batch(1000)
    result = run(made, [batch], k=1000)
    order = np.argsort(-truth(batch))
    best = {batch.candidate(int(i)).candidate_id for i in order[:50]}
    ids = {c.candidate_id for c, r in zip(result.candidates, result.reasons, strict=True) if r.value != "audit"}
    assert ids == best
    # 40 expected, sigma 6: no more than the share of what is kept, however much is dropped
    assert 20 <= result.reasons.count(SelectionReason.AUDIT) <= 60
    assert {v.strategy for v in result.verdicts if v.stage is Stage.DRAFT} == {"acme.draft"}
    assert_adds_up(result)


def test_draft_never_drops_probes_or_audits() -> None:
    def worst_for_probes(batch: CandidateBatch) -> DraftScores:
        return DraftScores(truth(batch) if len(batch) > 30 else np.zeros(len(batch)))

    made = pipeline(
        MaskRule("acme.guess", lambda b: b.indices[:, 3] > 0),
        draft=Draft(worst_for_probes),
        draft_size=20,
        audit_fraction=0.5,
    )
    probes = make_batch(12, seed=1)
    result = run(made, [make_batch(300, seed=2)], [probes], k=400)
    ids = {c.candidate_id for c in result.candidates}
    assert {probes.candidate(i).candidate_id for i in range(12)} <= ids
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


def test_a_verdict_of_a_count_that_no_integer_column_holds_is_capped() -> None:
    from prune_engine.space import Sketch, Variable, VariableKind
    from prune_engine.testing import make_task

    wide = Variable.of("x", VariableKind.CATEGORICAL, np.arange(2000, dtype=np.int32)[:, None])
    space = DesignSpace(make_task(), (Sketch(0, "s", (wide,) * 9),))
    cut = RestrictRule("acme.cut", lambda s: SpaceRestriction({(0, 0): np.arange(2000) < 1}))
    _, (verdict,) = pipeline(cut)[0].restrict(space)
    assert isinstance(verdict, Verdict)
    assert verdict.count == 2**62
