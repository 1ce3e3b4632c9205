"""Stages 3 and 4: the draft list, what the verifier skips, and what explorers climb on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from kits.pipeline import Draft, Judge, MaskRule, Picker, assert_adds_up, no_heuristic_keeps, pipeline, run, truth

from prune_engine.candidates import CandidateBatch
from prune_engine.pipeline import AUDIT_PREFIX, PruneResult
from prune_engine.stages.scoring import comparable
from prune_engine.testing import make_batch, make_space
from prune_engine.testing.planted import opaque_twin
from prune_engine.verdicts import (
    DraftScores,
    Float64Array,
    Outcome,
    Selection,
    SelectionReason,
    Stage,
    VerifyScores,
)

VERIFY = (Stage.VERIFY, "acme.judge")


def distinct(batch: CandidateBatch) -> Float64Array:
    """Scores without ties."""
    primes = np.array([1, 101, 10_007, 1_000_003, 100_000_007])[: batch.indices.shape[1]]
    return np.asarray(1.0 + batch.indices.astype(np.int64) @ primes)


def is_good(batch: CandidateBatch) -> np.ndarray:
    return batch.indices[:, 3] == 0


def skipping(is_kept: Callable[[CandidateBatch], np.ndarray] = is_good, *, basis: str = "") -> Judge:
    """Thinks what ``is_kept`` says is worth measuring, and skips the rest."""

    def score(batch: CandidateBatch) -> VerifyScores:
        probs = np.where(is_kept(batch), 0.5, 0.9)
        return VerifyScores(truth(batch), probs, "v", True, skip_above=0.85, skip_basis=basis)

    return Judge(score)


def nothing(batch: CandidateBatch) -> np.ndarray:
    return np.zeros(len(batch), bool)


def ids(result: PruneResult, *reasons: SelectionReason) -> set[str]:
    pairs = zip(result.candidates, result.reasons, strict=True)
    return {c.candidate_id for c, r in pairs if r in reasons}


def best_ids(batch: CandidateBatch, scores: Float64Array, n: int) -> set[str]:
    return {batch.candidate(int(i)).candidate_id for i in np.argsort(-scores, kind="stable")[:n]}


def test_what_the_verifier_expects_nothing_of_is_dropped_and_audited() -> None:
    batch = make_batch(2000)
    made = pipeline(verifier=skipping(basis="0.99 of 80 winners kept"), audit_fraction=0.2, draft_size=4000)
    result = run(made, [batch], k=4000)
    n_good = int(is_good(batch).sum())
    assert len(result.candidates) - result.auditees.count(VERIFY) == n_good
    # a fifth of as many as are kept: 100 expected, sigma 9.7
    assert 60 <= result.auditees.count(VERIFY) <= 140
    (verdict,) = [v for v in result.verdicts if v.stage is Stage.VERIFY and v.outcome is Outcome.DROPPED]
    assert verdict.count == 2000 - len(result.candidates)
    assert verdict.reason == "probably slower than the best; the threshold: 0.99 of 80 winners kept"
    assert verdict.evidence == {"skip_above": 0.85, "lowest_prob": 0.9}
    (step,) = [s for s in result.funnel if s.stage is Stage.VERIFY]
    assert (step.n_in, step.n_out, step.n_audits) == (2000, n_good, result.auditees.count(VERIFY))
    assert not result.is_hopeless
    assert_adds_up(result)


def test_a_probability_at_the_threshold_is_measured() -> None:
    at = Judge(lambda b: VerifyScores(truth(b), np.full(len(b), 0.85), "v", True, skip_above=0.85))
    assert SelectionReason.AUDIT not in run(pipeline(verifier=at), [make_batch(50)]).reasons


def test_an_untrained_verifier_skips_nothing() -> None:
    untrained = Judge(lambda b: VerifyScores(np.ones(len(b)), np.ones(len(b)), "v", False, skip_above=0.5))
    result = run(pipeline(verifier=untrained), [make_batch(50)], k=50)
    assert len(result.candidates) == 50
    assert not result.is_hopeless


def test_probes_and_the_audits_of_rules_are_not_skipped() -> None:
    probes = make_batch(5, seed=1)
    guess = MaskRule("acme.guess", no_heuristic_keeps)
    result = run(pipeline(guess, verifier=skipping(nothing), audit_fraction=1.0), [make_batch(30)], [probes], k=99)
    assert {a for a in result.auditees if a} == {(Stage.RULE, "acme.guess")}
    assert ids(result, SelectionReason.PROBE) == {probes.candidate(i).candidate_id for i in range(5)}
    assert not result.is_hopeless, "a verifier that was asked about nothing has not given up"


def test_probes_are_measured_even_where_nothing_else_is_worth_it() -> None:
    probes = make_batch(3, seed=1)
    result = run(pipeline(verifier=skipping(nothing), audit_fraction=0), [make_batch(40)], [probes], k=16)
    assert ids(result, SelectionReason.PROBE) == {probes.candidate(i).candidate_id for i in range(3)}
    assert result.is_hopeless
    assert len(result.candidates) == 3 + 4, "and of what it skips the best quarter of a batch"


@pytest.mark.parametrize(("k", "n_measured"), [(1, 1), (2, 1), (16, 4), (64, 16)])
def test_where_nothing_is_worth_it_a_quarter_of_the_round_is_measured_all_the_same(k: int, n_measured: int) -> None:
    batch = make_batch(300)
    result = run(pipeline(verifier=skipping(nothing), audit_fraction=0), [batch], k=k)
    assert result.is_hopeless
    assert ids(result, SelectionReason.TOP) == best_ids(batch, truth(batch), n_measured)
    assert set(result.auditees) == {None}, "the best are no sample of what is skipped"
    (step,) = [s for s in result.funnel if s.stage is Stage.VERIFY]
    assert (step.n_in, step.n_out, step.n_audits) == (300, n_measured, 0)
    assert_adds_up(result)


@pytest.mark.parametrize(("fraction", "most"), [(0.02, 0.05), (0.1, 0.2)])
def test_audits_do_not_crowd_out_the_little_that_the_verifier_leaves(fraction: float, most: float) -> None:
    batch = make_batch(2000)
    best = np.sort(distinct(batch))[-40]
    few = Judge(lambda b: VerifyScores(distinct(b), 1.0 * (distinct(b) < best), "v", True, skip_above=0.85))
    guess = MaskRule("acme.guess", lambda b: b.indices[:, 3] != 0)
    n_audits = []
    for seed in range(5):
        made = pipeline(guess, verifier=few, audit_fraction=fraction, draft_size=4000)
        result = run(made, [batch], k=2000, seed=seed)
        assert_adds_up(result)
        n_audits.append(sum(auditee is not None for auditee in result.auditees))
        n_kept = len(result.candidates) - n_audits[-1]
        assert n_audits[-1] <= most * n_kept + 1
        assert any(v.reason == "an audit too many" for v in result.verdicts)
    assert sum(n_audits) > 0


def test_a_hopeless_round_measures_no_audits_of_others() -> None:
    guess = MaskRule("acme.guess", is_good)
    result = run(pipeline(guess, verifier=skipping(nothing), audit_fraction=0.2), [make_batch(500)], k=16)
    assert result.is_hopeless
    assert set(result.auditees) == {None}
    assert_adds_up(result)


def test_fewer_are_measured_where_few_are_worth_it() -> None:
    batch = make_batch(300)
    third = np.sort(distinct(batch))[-3]
    probs = Judge(lambda b: VerifyScores(distinct(b), 1.0 * (distinct(b) < third), "v", True, skip_above=0.85))
    result = run(pipeline(verifier=probs, audit_fraction=0), [batch], k=16)
    assert ids(result, SelectionReason.TOP) == best_ids(batch, distinct(batch), 3)
    assert len(result.candidates) == 3
    assert not result.is_hopeless


def test_the_draft_list_holds_the_best_of_both() -> None:
    """A verifier's favourite that the draft thinks little of is on the list, and the other way round."""
    batch = make_batch(1000)
    trained = Judge(lambda b: VerifyScores(1 / distinct(b), np.zeros(len(b)), "v", True))
    made = pipeline(
        draft=Draft(lambda b: DraftScores(distinct(b))), verifier=trained, draft_size=80, audit_fraction=0
    )
    result = run(made, [batch], k=1000)
    expected = best_ids(batch, distinct(batch), 40) | best_ids(batch, 1 / distinct(batch), 40)
    assert {c.candidate_id for c in result.candidates} == expected
    assert_adds_up(result)


def test_a_huge_pool_is_cut_by_the_draft_before_the_verifier_sees_it() -> None:
    asked: list[int] = []

    def score(batch: CandidateBatch) -> VerifyScores:
        asked.append(len(batch))
        return VerifyScores(1 / truth(batch), np.zeros(len(batch)), "v", True)

    batches = [make_batch(300), make_batch(700, sketch=1)]
    made = pipeline(
        draft=Draft(lambda b: DraftScores(truth(b))), verifier=Judge(score), draft_size=60, audit_fraction=0
    )
    result = run(made, batches, k=5)
    assert sum(asked) == 60
    everything = np.concatenate([truth(b) for b in batches])
    listed = np.sort(everything)[-60:]
    scores = [v.evidence["score"] for v in result.verdicts if v.stage is Stage.SELECT and v.evidence]
    np.testing.assert_allclose(scores, np.sort(1 / listed)[::-1][:5])
    assert_adds_up(result)
    no_draft = pipeline(verifier=Judge(score), draft_size=60)
    asked.clear()
    run(no_draft, batches, k=5)
    assert sum(asked) == 1000, "without a draft there is no list, so the verifier judges all"


def test_a_verifier_that_reads_the_draft_does_not_pay_for_it_again() -> None:
    n_drafted: list[int] = []

    def draft(batch: CandidateBatch) -> DraftScores:
        n_drafted.append(len(batch))
        return DraftScores(truth(batch))

    class Reader(Judge):
        def score(self, batch: CandidateBatch, context: Any) -> VerifyScores:
            drafted = context.draft(batch)
            assert drafted is not None
            return VerifyScores(drafted.scores * 2, np.zeros(len(batch)), "v", True)

    made = pipeline(draft=Draft(draft), verifier=Reader(lambda b: None), draft_size=50)
    batches = [make_batch(100), make_batch(100, sketch=1)]
    run(made, batches)
    assert sum(n_drafted) == 200
    made[0].fitness(batches[0])
    assert sum(n_drafted) == 300, "what was drafted in another round is not kept: it may be calibrated anew"


@pytest.mark.parametrize("draft_size", [20, 1000])
def test_what_the_draft_thought_of_the_chosen_is_recorded(draft_size: int) -> None:
    def draft(batch: CandidateBatch) -> DraftScores:
        return DraftScores(distinct(batch), 1 / distinct(batch), penalties={"cores": 0.5 / distinct(batch)})

    batches = [make_batch(400), make_batch(400, sketch=1)]
    made = pipeline(draft=Draft(draft), draft_size=draft_size, audit_fraction=0.5)
    result = run(made, batches, k=25)
    scores = {
        batch.candidate(i).candidate_id: distinct(batch)[i]
        for batch in batches
        for i in range(400)
        if batch.candidate(i) in result.candidates
    }
    told = [v for v in result.verdicts if v.stage is Stage.DRAFT and not v.reason.startswith(AUDIT_PREFIX)]
    told = [v for v in told if v.outcome is Outcome.KEPT]
    audited = [a for a in result.auditees if a and a[0] is Stage.DRAFT]
    assert len(told) == 25 - len(audited)
    for verdict in told:
        assert verdict.candidate_id is not None
        score = scores[verdict.candidate_id]
        assert verdict.evidence == {"latency_secs": 1 / score, "cores": 0.5 / score}
    assert_adds_up(result)


def test_the_selector_is_given_the_kinship() -> None:
    pools: list[Any] = []

    def select(pool: Any, k: int, rng: object) -> Selection:
        pools.append(pool)
        return Selection(np.arange(k), (SelectionReason.TOP,) * k)

    def judge(widths: dict[int, int]) -> Judge:
        def score(batch: CandidateBatch) -> VerifyScores:
            width = widths.get(batch.sketch.index)
            kinship = None if width is None else np.repeat(batch.indices[:, :1], width, axis=1)
            return VerifyScores(truth(batch), np.zeros(len(batch)), "v", True, kinship=kinship)

        return Judge(score)

    batches = [make_batch(10), make_batch(10, sketch=1)]
    for widths in ({0: 3, 1: 3}, {0: 3, 1: 2}, {0: 3}, {0: 0, 1: 0}):
        run(pipeline(verifier=judge(widths), selector=Picker(select)), batches, k=4)
    first = np.concatenate([b.indices[:, :1] for b in batches])
    np.testing.assert_array_equal(pools[0].kinship, np.repeat(first, 3, axis=1))
    assert not pools[0].kinship.flags.writeable
    assert pools[1].kinship is None
    assert pools[2].kinship is None
    assert pools[3].kinship is None


def readable(sketch: int, n: int) -> CandidateBatch:
    space = make_space(symbols={"x": [1.0]})
    return make_batch(n, space=space, sketch=sketch)


def test_what_could_not_be_read_gets_its_share_of_the_best() -> None:
    read, unread = readable(0, 30), make_batch(10, space=opaque_twin(make_space()), sketch=1)
    drafts = [DraftScores(np.arange(1.0, 31), np.ones(30)), DraftScores(np.full(10, 7.0))]
    scores = comparable(drafts, [read, unread])
    assert scores is not None
    np.testing.assert_array_equal(scores[:30], drafts[0].scores)
    order = np.argsort(-scores, kind="stable")
    for n_best in (8, 20, 40):
        assert abs(int((order[:n_best] >= 30).sum()) - n_best // 4) <= 1
    own_order = [DraftScores(np.arange(1.0, 31), np.ones(30)), DraftScores(np.arange(10.0) * 1e9)]
    ranked = comparable(own_order, [read, unread])
    assert ranked is not None
    assert (np.diff(ranked[30:]) > 0).all(), "their own order stays"
    assert ranked.max() <= 30


def test_a_draft_of_one_score_for_all_says_nothing() -> None:
    unread = make_batch(10, space=opaque_twin(make_space()))
    assert comparable([DraftScores(np.full(10, 3.0))], [unread]) is None
    assert comparable([], []) is None
    result = run(
        pipeline(draft=Draft(lambda b: DraftScores(np.ones(len(b)))), draft_size=5), [make_batch(50)], k=50
    )
    assert len(result.candidates) == 50
    assert set(result.reasons) == {SelectionReason.EXPLORE}


def test_fitness_is_0_where_a_rule_drops() -> None:
    rules = (MaskRule("acme.guess", lambda b: b.indices[:, 3] > 0),)
    batch = make_batch(200)
    keep = batch.indices[:, 3] > 0
    draft = Draft(lambda b: DraftScores(truth(b), np.ones(len(b))))
    np.testing.assert_array_equal(pipeline(*rules, draft=draft)[0].fitness(batch), truth(batch) * keep)
    judged = pipeline(*rules, draft=draft, verifier=skipping())[0].fitness(batch)
    np.testing.assert_array_equal(judged, truth(batch) * keep)
    assert not pipeline(MaskRule("acme.none", no_heuristic_keeps), draft=draft)[0].fitness(batch).any()
    assert pipeline(draft=draft)[0].fitness(batch.take(np.arange(0))).shape == (0,)


def test_fitness_in_chunks_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    made = pipeline(
        MaskRule("acme.guess", lambda b: b.indices[:, 3] > 0), draft=Draft(lambda b: DraftScores(truth(b)))
    )
    batch = make_batch(200)
    whole = made[0].fitness(batch)
    monkeypatch.setattr("prune_engine.pipeline._CHUNK", 33)
    np.testing.assert_array_equal(made[0].fitness(batch), whole)


def test_to_an_explorer_what_could_not_be_read_is_as_good_as_the_usual() -> None:
    def draft(batch: CandidateBatch) -> DraftScores:
        if batch.is_opaque:
            return DraftScores(np.full(len(batch), 1e9))
        return DraftScores(np.arange(1.0, len(batch) + 1), np.ones(len(batch)))

    made = pipeline(draft=Draft(draft))[0]
    made.fitness(readable(0, 31))
    unread = make_batch(10, space=opaque_twin(make_space()), sketch=1)
    assert set(made.fitness(unread).tolist()) == {16.0}


def test_kinship_is_asked_for_where_a_selector_looks_at_it() -> None:
    asked: list[bool] = []

    class Kin(Judge):
        def score(self, batch: CandidateBatch, context: Any) -> VerifyScores:
            asked.append(context.wants_kinship)
            return VerifyScores(truth(batch), np.zeros(len(batch)), "v", True)

    made = pipeline(verifier=Kin(truth))
    made[0].fitness(make_batch(20))
    assert asked == [False]
    run(made, [make_batch(20)])
    assert asked[1:]
    assert all(asked[1:])
