"""Verdicts say why in the rule's own words, with the numbers it read; the funnel counts and times strategies."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest
from kits.pipeline import Draft, MaskRule, RestrictRule, keep_first, no_heuristic_keeps, pipeline, run, truth

from prune_engine.candidates import CandidateBatch
from prune_engine.errors import PluginContractError
from prune_engine.explain.tasks import explain_verdicts
from prune_engine.funnel import Funnel, FunnelStep
from prune_engine.space import DesignSpace
from prune_engine.stages.reasons import CandidateSymbols, reason_of
from prune_engine.strategies import Rule
from prune_engine.symbols.structure import nest_symbol
from prune_engine.symbols.table import SymbolDef, symbol_table
from prune_engine.testing import make_batch, make_profile, make_space, make_task
from prune_engine.verdicts import Outcome, RuleKind, Stage, Verdict


def space_with_symbols(name: str = "matmul") -> DesignSpace:
    inner = SymbolDef("inner", "", "", "", lambda b: b.column(0)[:, -1].astype(np.int64))
    outer = SymbolDef("outer", "", "", "", lambda b: b.column(0)[:, 0].astype(np.int64))
    nothing = SymbolDef("nothing", "", "", "", lambda b: np.full(len(b), np.nan))
    loops = nest_symbol("loops", "", "", "", lambda nest: nest.is_refused)
    return replace(make_space(make_task(name)), symbols=symbol_table([inner, outer, nothing, loops]))


class SmallInner(Rule):
    """Keep innermost tiles of at most 2."""

    name = "acme.small-inner"
    kind = RuleKind.LEGALITY

    def mask(self, batch: CandidateBatch, profile: object) -> np.ndarray:
        return batch.symbol("inner") <= 2

    def reason(self, symbols: Mapping[str, float], profile: object) -> str:
        return f"inner is {symbols['inner']:g}, more than 2"


class GuessedSmallInner(SmallInner):
    name, kind = "acme.guess", RuleKind.HEURISTIC


def verdict_of(verdicts: tuple[Verdict, ...], strategy: str, outcome: Outcome = Outcome.DROPPED) -> Verdict:
    (found,) = (v for v in verdicts if v.strategy == strategy and v.outcome is outcome)
    return found


class TestCounts:
    def test_reason_and_evidence_are_those_of_the_first_that_is_dropped(self) -> None:
        batch = make_batch(100, space=space_with_symbols())
        verdict = verdict_of(run(pipeline(SmallInner()), [batch]).verdicts, SmallInner.name)
        first = next(x for x in batch.symbol("inner") if x > 2)
        assert verdict.reason == f"inner is {first}, more than 2"
        assert verdict.evidence == {"inner": first}
        assert verdict.count == int((batch.symbol("inner") > 2).sum())

    def test_later_rounds_give_the_same_reason_so_that_counts_add_up(self) -> None:
        made, space = pipeline(SmallInner()), space_with_symbols()
        reasons = {
            verdict_of(run(made, [make_batch(30, space=space, seed=seed)]).verdicts, SmallInner.name).reason
            for seed in range(8)
        }
        assert len(reasons) == 1

    def test_each_task_has_its_own(self) -> None:
        made = pipeline(SmallInner())
        for seed, name in enumerate(("one", "two", "three")):
            batch = make_batch(50, space=space_with_symbols(name), seed=seed)
            verdict = verdict_of(run(made, [batch]).verdicts, SmallInner.name)
            assert verdict.evidence == {"inner": next(x for x in batch.symbol("inner") if x > 2)}

    def test_a_rule_that_gives_no_reason_is_named(self) -> None:
        verdict = verdict_of(
            run(pipeline(MaskRule("acme.legal", no_heuristic_keeps)), [make_batch()]).verdicts, "acme.legal"
        )
        assert verdict.reason == "acme.legal"

    def test_a_rule_of_the_task_space_gives_its_reason(self) -> None:
        class Cut(RestrictRule):
            def reason(self, symbols: Mapping[str, float], profile: object) -> str:
                return f"too many, knowing {dict(symbols)}"

        _, (verdict,) = pipeline(Cut("acme.cut", keep_first(2)))[0].restrict(make_space())
        assert verdict.reason == "too many, knowing {}"


class TestAudits:
    def test_each_has_a_reason_of_its_own(self) -> None:
        batch = make_batch(200, space=space_with_symbols())
        result = run(pipeline(GuessedSmallInner(), audit_fraction=1.0), [batch], k=200)
        audited = [v for v in result.verdicts if v.strategy == "acme.guess" and v.outcome is Outcome.KEPT]
        by_id = {batch.candidate(i).candidate_id: int(x) for i, x in enumerate(batch.symbol("inner"))}
        assert len(audited) > 20
        for verdict in audited:
            inner = by_id[verdict.candidate_id or ""]
            assert verdict.reason == f"dropped, measured as an audit: inner is {inner}, more than 2"
            assert verdict.evidence == {"inner": inner}


class TestFailures:
    @pytest.mark.parametrize("bad", [None, "", " ", "two\nlines", 3], ids=repr)
    def test_a_reason_that_is_no_line_of_text_is_told_and_the_mask_holds(self, bad: object) -> None:
        rule = MaskRule("acme.legal", no_heuristic_keeps)
        rule.reason = lambda symbols, profile: bad  # type: ignore[method-assign, assignment, return-value]
        made = pipeline(rule, audit_fraction=0)
        for _ in range(2):
            assert verdict_of(run(made, [make_batch(10)]).verdicts, "acme.legal").reason == "acme.legal"
        ((name, error),) = made[1]
        assert name == "acme.legal"
        assert isinstance(error, PluginContractError)
        assert "one line of text" in str(error)

    def test_a_reason_that_raises(self) -> None:
        rule = MaskRule("acme.legal", no_heuristic_keeps)
        rule.reason = lambda symbols, profile: str(symbols["no such"])  # type: ignore[method-assign]
        made = pipeline(rule, audit_fraction=0)
        assert verdict_of(run(made, [make_batch(10)]).verdicts, "acme.legal").count == 10
        assert [(name, type(error)) for name, error in made[1]] == [("acme.legal", KeyError)]


class TestCandidateSymbols:
    def test_values_of_the_row(self) -> None:
        batch = make_batch(20, space=space_with_symbols())
        symbols = CandidateSymbols(batch, 7)
        assert symbols["inner"] == batch.symbol("inner")[7]
        assert symbols.asked == {"inner": batch.symbol("inner")[7]}

    def test_names_that_do_not_exist(self) -> None:
        symbols = CandidateSymbols(make_batch(space=space_with_symbols()), 0)
        assert "nope" not in symbols
        assert symbols.get("loops") is None, "a symbol of a nest that could not be read"
        assert set(symbols) == {"inner", "outer", "nothing", "loops"}
        assert len(symbols) == 4
        assert not symbols.asked

    def test_what_is_not_finite_is_no_evidence(self) -> None:
        rule = MaskRule("acme.rule")
        rule.reason = lambda symbols, profile: f"{symbols['nothing']} {symbols['outer']}"  # type: ignore[method-assign]
        _, evidence = reason_of(rule, CandidateSymbols(make_batch(space=space_with_symbols()), 0), make_profile())
        assert set(evidence) == {"outer"}


class TestFunnel:
    def test_counts_add_up_step_by_step(self) -> None:
        rules = [
            MaskRule("a.legal", lambda b: b.indices[:, 3] != 0, RuleKind.LEGALITY),
            MaskRule("b.all", kind=RuleKind.LEGALITY),
            MaskRule("c.guess", lambda b: b.indices[:, 3] >= 2),
        ]
        batches = [make_batch(400), make_batch(300, sketch=1)]
        made = pipeline(*rules, draft=Draft(lambda b: _scores(b)), draft_size=32, audit_fraction=0.1)
        result = run(made, batches, k=8)
        steps = {step.strategy: step for step in result.funnel}
        assert list(steps) == ["a.legal", "b.all", "c.guess", "acme.draft", "select.epsilon-greedy"]
        n_zero = sum(int((b.indices[:, 3] == 0).sum()) for b in batches)
        n_low = sum(int((b.indices[:, 3] == 1).sum()) for b in batches)
        assert (steps["a.legal"].n_in, steps["a.legal"].n_cut) == (700, n_zero)
        assert (steps["b.all"].n_in, steps["b.all"].n_out) == (700 - n_zero, 700 - n_zero)
        guess = steps["c.guess"]
        assert guess.n_in - guess.n_out == n_low
        assert 0 < guess.n_audits < n_low
        assert steps["acme.draft"].n_in == guess.n_out + guess.n_audits
        n_surplus = sum(v.count for v in result.verdicts if v.reason == "an audit too many")
        n_listed = steps["acme.draft"].n_out + steps["acme.draft"].n_audits
        assert steps["select.epsilon-greedy"].n_in == n_listed - n_surplus
        assert steps["select.epsilon-greedy"].n_out == 8
        cuts = {v.strategy: v.count for v in result.verdicts if v.outcome is Outcome.DROPPED}
        assert cuts == {s.strategy: s.n_cut for s in result.funnel if s.n_cut and s.stage is not Stage.SELECT}

    def test_kinds_and_times(self) -> None:
        rules = [MaskRule("a.legal", kind=RuleKind.LEGALITY), MaskRule("b.guess")]
        result = run(pipeline(*rules), [make_batch(50)])
        assert [s.kind for s in result.funnel] == [RuleKind.LEGALITY, RuleKind.HEURISTIC, None]
        assert all(step.seconds > 0 for step in result.funnel)
        assert sum(step.seconds for step in result.funnel) <= result.seconds

    def test_rules_that_do_not_mask_have_no_step_there(self) -> None:
        made, funnel = pipeline(RestrictRule("acme.cut", keep_first(2)), MaskRule("b.guess")), Funnel()
        space, _ = made[0].restrict(make_space(), funnel)
        (step,) = funnel.steps
        full = make_space().size
        assert (step.stage, step.strategy, step.n_in, step.n_out) == (
            Stage.TASK_SPACE,
            "acme.cut",
            full,
            space.size,
        )
        assert [s.strategy for s in run(made, [make_batch()]).funnel] == ["b.guess", "select.epsilon-greedy"]

    def test_a_restriction_that_cuts_nothing_has_a_step_and_no_verdict(self) -> None:
        funnel = Funnel()
        space, verdicts = pipeline(RestrictRule("acme.nothing", lambda s: None))[0].restrict(make_space(), funnel)
        assert not verdicts
        assert [(s.n_in, s.n_out) for s in funnel.steps] == [(space.size, space.size)]

    def test_steps_of_one_strategy_add_up(self) -> None:
        funnel = Funnel()
        for n in (10, 5):
            funnel.add(FunnelStep(Stage.RULE, "a.b", n, n - 4, 0.5, RuleKind.HEURISTIC, 1))
        assert funnel.steps == (FunnelStep(Stage.RULE, "a.b", 15, 7, 1.0, RuleKind.HEURISTIC, 2),)
        assert funnel.steps[0].n_cut == 6


def _scores(batch: CandidateBatch):
    from prune_engine.verdicts import DraftScores

    return DraftScores(truth(batch))


def test_the_explanation_of_a_count_says_that_the_reason_is_an_example() -> None:
    evidence = {"inner": 4.0}
    many = Verdict(Stage.RULE, "a.b", Outcome.DROPPED, "inner is 4", 12, None, evidence)
    one = Verdict(
        Stage.RULE, "a.b", Outcome.KEPT, "dropped, measured as an audit: inner is 4", 1, "c0ffee", evidence
    )
    plain = Verdict(Stage.RULE, "c.d", Outcome.DROPPED, "c.d", 12)
    texts = explain_verdicts(make_task(), [many, one, plain])
    assert "12 candidates were dropped by a.b (rule): for example, inner is 4 (inner 4)." in texts
    assert "12 candidates were dropped by c.d (rule): c.d." in texts
    assert not any("example" in text for text in texts if "c0ffee" in text)
