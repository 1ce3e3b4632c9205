"""Audits stay few over a whole task; guesses never leave a task untried."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import pytest
from kits.engine import Batches, RunEngine, small_space
from kits.pipeline import HEURISTIC, LEGALITY, Draft, Judge, MaskRule, RestrictRule, truth

from prune_engine.candidates import CandidateBatch
from prune_engine.hookspecs import hookimpl
from prune_engine.lifecycle import RunResult
from prune_engine.measurement import MeasureErrorKind
from prune_engine.pipeline import AUDIT_PREFIX
from prune_engine.space import DesignSpace, SpaceRestriction
from prune_engine.store.base import Store
from prune_engine.strategies import DraftScorer, Explorer, Rule, SelectionPool, Selector, Verifier
from prune_engine.testing import FakeWorkbench, make_batch, make_task
from prune_engine.verdicts import BoolArray, DraftScores, Outcome, Selection, SelectionReason, VerifyScores


class Plugin:
    """What a test brings along."""

    def __init__(
        self,
        *rules: Rule,
        draft: DraftScorer | None = None,
        verifier: Verifier | None = None,
        selector: Selector | None = None,
        explorer: Explorer | None = None,
    ) -> None:
        self._rules, self._draft, self._verifier = rules, draft, verifier
        self._selector, self._explorer = selector, explorer

    @hookimpl
    def register_rules(self) -> Iterable[Rule]:
        return self._rules

    @hookimpl
    def register_draft_scorers(self) -> Iterable[DraftScorer]:
        return filter(None, [self._draft])

    @hookimpl
    def register_verifiers(self) -> Iterable[Verifier]:
        return filter(None, [self._verifier])

    @hookimpl
    def register_selectors(self) -> Iterable[Selector]:
        return filter(None, [self._selector])

    @hookimpl
    def register_explorers(self) -> Iterable[Explorer]:
        return filter(None, [self._explorer])


class AuditsFirst(Selector):
    """Chooses as many audits as it can."""

    name = "acme.audits-first"

    def select(self, pool: SelectionPool, k: int, rng: np.random.Generator) -> Selection:
        order = np.argsort(~pool.is_audit, kind="stable")[:k].astype(np.int64)
        return Selection(
            order, tuple(SelectionReason.AUDIT if pool.is_audit[i] else SelectionReason.TOP for i in order)
        )


def workbench(n: int = 4000) -> FakeWorkbench:
    return FakeWorkbench(spaces={make_task().task_id: small_space(make_task(), n)})


def half(batch: CandidateBatch) -> BoolArray:
    return np.asarray(batch.indices[:, 0] % 2 == 0)


def audits_of(store: Store) -> set[str | None]:
    """What was chosen as an audit, measured or not."""
    verdicts = store.verdicts(make_task().task_id)
    return {v.candidate_id for v in verdicts if v.reason.startswith(AUDIT_PREFIX) and v.outcome is Outcome.KEPT}


def n_kept(trained: bool) -> Judge:
    """Skips all but one of a hundred."""
    return Judge(
        lambda b: VerifyScores(truth(b), 1.0 * (b.indices[:, 0] % 100 != 0), "v", trained, skip_above=0.85)
    )


@pytest.mark.parametrize(
    ("fraction", "most", "selector", "verifier"),
    [
        (0.02, 0.05, "select.epsilon-greedy", "acme.judge"),
        (0.02, 0.05, "select.diverse", "acme.judge"),
        (0.02, 0.05, "acme.audits-first", None),
        (0.2, 0.4, "acme.audits-first", None),
    ],
)
def test_audits_are_few_of_a_task_s_trials_at_every_time(
    run_engine: RunEngine, store: Store, fraction: float, most: float, selector: str, verifier: str | None
) -> None:
    watch = Batches()
    plugin = Plugin(MaskRule("acme.half", half, HEURISTIC), verifier=n_kept(True), selector=AuditsFirst())
    options: dict[str, Any] = {"audit_fraction": fraction, "plateau_trials": 1000, "batch_size": 8}
    options |= {"selector": selector, "verifier": verifier}
    run = run_engine([make_task()], workbench(), plugins={"acme": plugin, "watch": watch}, n_trials=160, **options)
    assert "acme" not in run.failures
    audits, n_audits, n_trials = audits_of(store), 0, 0
    for batch in watch.batches:
        n_audits += sum(identity in audits for identity in batch)
        n_trials += len(batch)
        assert n_audits <= most * n_trials
    assert n_trials == 160
    assert n_audits == sum(report.n_measured for report in run.result.tasks[0].audits)
    assert n_audits > 0
    if verifier is None:
        assert n_audits >= int(most * 152), "the limit binds, and all of it may be used"


def test_the_share_counts_earlier_runs_on_the_store(run_engine: RunEngine, store: Store) -> None:
    for n_trials in (40, 80, 120):
        plugin = Plugin(MaskRule("acme.half", half, HEURISTIC), selector=AuditsFirst())
        options: dict[str, Any] = {"selector": "acme.audits-first", "plateau_trials": 1000, "batch_size": 8}
        run = run_engine([make_task()], workbench(), plugins={"acme": plugin}, n_trials=n_trials, **options)
        (report,) = [r for r in run.result.tasks[0].audits if r.strategy == "acme.half"]
        assert 0.05 * (n_trials - 8) - 1 < report.n_measured <= 0.05 * n_trials


def nothing(batch: CandidateBatch) -> BoolArray:
    return np.zeros(len(batch), dtype=np.bool_)


def unroll_below(limit: int) -> Callable[[CandidateBatch], BoolArray]:
    return lambda batch: np.asarray(batch.indices[:, 0] < limit)


def unroll_from(limit: int) -> Callable[[CandidateBatch], BoolArray]:
    return lambda batch: np.asarray(batch.indices[:, 0] >= limit)


def switched_off(result: RunResult) -> dict[str, str]:
    return {report.strategy: report.switched_off for report in result.tasks[0].audits if report.switched_off}


@pytest.mark.parametrize("explorer", ["explore.uniform", "explore.evolution"])
@pytest.mark.parametrize("n", [6, 400])
def test_where_a_heuristic_drops_everything_it_is_switched_off(
    run_engine: RunEngine, store: Store, explorer: str, n: int
) -> None:
    plugins = {"acme": Plugin(MaskRule("acme.wrong", nothing, HEURISTIC))}
    run = run_engine([make_task()], workbench(n), plugins=plugins, n_trials=40, explorer=explorer)
    (task,) = run.result.tasks
    assert task.summary.n_trials == min(n, 40)
    assert task.trace_json is not None
    assert switched_off(run.result) == {"acme.wrong": "it leaves nothing of what was proposed"}
    told = [v for v in store.verdicts(make_task().task_id) if v.outcome is Outcome.FAILED]
    assert [v.reason for v in told] == ["switched off: it leaves nothing of what was proposed"]
    assert told[0].candidate_id in run.asked
    dropped = [v for v in store.verdicts(make_task().task_id) if v.outcome is Outcome.DROPPED]
    assert not dropped, "what was kept against a rule's word is not counted as dropped"


def test_the_best_of_what_it_drops_is_measured(run_engine: RunEngine) -> None:
    batch = make_batch(400, space=small_space(make_task(), 400))
    best = {batch.candidate(int(i)).candidate_id for i in np.argsort(-truth(batch), kind="stable")[:8]}
    plugin = Plugin(MaskRule("acme.wrong", nothing, HEURISTIC), draft=Draft(lambda b: DraftScores(truth(b))))
    options: dict[str, Any] = {"draft_scorer": "acme.draft", "epsilon": 0.0, "audit_fraction": 0.0}
    run = run_engine([make_task()], workbench(400), plugins={"acme": plugin}, n_trials=8, **options)
    assert set(run.asked) == best


def test_of_rules_that_leave_nothing_together_the_last_is_overruled(run_engine: RunEngine) -> None:
    first = MaskRule("acme.first", unroll_below(40), HEURISTIC, order=1)
    second = MaskRule("acme.second", unroll_from(40), HEURISTIC, order=2)
    run = run_engine([make_task()], workbench(400), plugins={"acme": Plugin(first, second)}, n_trials=30)
    assert list(switched_off(run.result)) == ["acme.second"]
    audited = sum(report.n_measured for report in run.result.tasks[0].audits)
    assert len(run.asked) == 30
    space = small_space(make_task(), 400)
    allowed = {c.candidate_id for c in _all(space) if c.decisions[0][0] < 40}
    assert len(set(run.asked) - allowed) == audited


def _all(space: DesignSpace) -> Sequence[Any]:
    batch = make_batch(space.size, space=space)
    return [batch.candidate(i) for i in range(len(batch))]


def test_a_legality_rule_is_never_overruled(run_engine: RunEngine) -> None:
    legal = MaskRule("acme.legal", unroll_below(2), LEGALITY)
    wrong = MaskRule("acme.wrong", unroll_from(100), HEURISTIC)
    run = run_engine([make_task()], workbench(400), plugins={"acme": Plugin(legal, wrong)}, n_trials=30)
    assert len(run.asked) == 4
    assert list(switched_off(run.result)) == ["acme.wrong"]
    impossible = MaskRule("acme.legal", nothing, LEGALITY)
    run = run_engine([make_task("b")], plugins={"acme": Plugin(impossible)}, n_trials=30)
    assert not run.asked
    assert run.result.tasks[0].summary.stop_reason == "exhausted"


def test_where_all_that_it_keeps_fails_the_rest_is_tried(run_engine: RunEngine) -> None:
    space = small_space(make_task(), 40)
    failing = {c.candidate_id: MeasureErrorKind.CRASH for c in _all(space) if c.decisions[0][0] < 3}
    bench = FakeWorkbench(spaces={make_task().task_id: space}, planted=failing)
    plugins = {"acme": Plugin(MaskRule("acme.wrong", unroll_below(3), HEURISTIC))}
    run = run_engine([make_task()], bench, plugins=plugins, n_trials=40, audit_fraction=0.0)
    assert run.result.tasks[0].summary.n_trials == 40
    assert "acme.wrong" in switched_off(run.result)


def test_a_rule_that_leaves_something_that_runs_stays(run_engine: RunEngine) -> None:
    plugins = {"acme": Plugin(MaskRule("acme.strict", unroll_below(3), HEURISTIC))}
    run = run_engine([make_task()], workbench(40), plugins=plugins, n_trials=40, audit_fraction=0.0)
    assert len(run.asked) == 6
    assert not switched_off(run.result)


def cuts_all_that_is_legal(space: DesignSpace) -> SpaceRestriction:
    return SpaceRestriction({(0, 0): np.arange(len(space.sketches[0].variables[0].table)) >= 100})


def test_rows_that_were_cut_come_back_where_nothing_else_is_legal(run_engine: RunEngine, store: Store) -> None:
    rules = RestrictRule("acme.cut", cuts_all_that_is_legal), MaskRule("acme.legal", unroll_below(50), LEGALITY)
    run = run_engine([make_task()], workbench(400), plugins={"acme": Plugin(*rules)}, n_trials=30)
    assert len(run.asked) == 30
    why = "nothing could be measured in what it leaves of the choice tables"
    assert switched_off(run.result) == {"acme.cut": why}


class OnlyTheFit(Explorer):
    """Proposes nothing that a rule drops."""

    name = "acme.only-the-fit"

    def propose(self, space: DesignSpace, n: int, fitness: Any, rng: np.random.Generator) -> Any:
        batch = make_batch(n, space=space)
        return [batch.take(fitness(batch) > 0)]


def test_an_explorer_that_finds_nothing_fit_does_not_leave_a_task_untried(run_engine: RunEngine) -> None:
    plugins = {"acme": Plugin(MaskRule("acme.wrong", nothing, HEURISTIC), explorer=OnlyTheFit())}
    run = run_engine([make_task()], workbench(400), plugins=plugins, n_trials=30, explorer="acme.only-the-fit")
    assert len(run.asked) == 30
