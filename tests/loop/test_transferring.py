"""Seeds in the engine's loop: asked for once, measured first, counted, and never in the way of a run."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from kits.engine import Batches, PlannedSeeds, RunEngine, StrategyPlugin

from prune_engine.candidates import Candidate, CandidateBatch
from prune_engine.hookspecs import hookimpl
from prune_engine.library import LibraryQuery
from prune_engine.lifecycle import TaskResult
from prune_engine.measurement import MeasureErrorKind
from prune_engine.space import DesignSpace
from prune_engine.store.base import Store
from prune_engine.strategies import Rule
from prune_engine.testing import FakeWorkbench, make_batch, make_entries, make_space, make_task
from prune_engine.testing.workbench import rewritten
from prune_engine.transfers.log import PolicyReport, TransferReport
from prune_engine.verdicts import BoolArray, Outcome, RuleKind, Stage


def some(n: int, seed: int = 9) -> Any:
    return lambda space: make_batch(n, space=space, seed=seed).indices


def planned(*args: Any, **options: Any) -> dict[str, object]:
    return {"acme": StrategyPlugin(PlannedSeeds(*args, **options))}


class RulePlugin:
    @hookimpl
    def register_rules(self) -> list[Rule]:
        return [NoWideTiles(), GuessNothing()]


def ids_of(rows: Any) -> list[str]:
    space = make_space(make_task())
    batch = CandidateBatch(space, space.sketches[0], rows(space))
    return [batch.candidate(i).candidate_id for i in range(len(batch))]


def transfer_of(outcome: TaskResult) -> TransferReport:
    assert outcome.transfer is not None
    return outcome.transfer


def policy_of(outcome: TaskResult, name: str) -> PolicyReport:
    return next(policy for policy in transfer_of(outcome).policies if policy.policy == name)


def test_seeds_fill_whole_batches_before_the_search_begins(run_engine: RunEngine) -> None:
    watch, transfer = Batches(), PlannedSeeds(some(12))
    plugins = {"acme": StrategyPlugin(transfer), "watch": watch}
    run = run_engine([make_task()], plugins=plugins, n_trials=24, batch_size=8)
    assert run.asked[:12] == ids_of(some(12))
    assert [len(batch) for batch in watch.batches] == [8, 4, 8, 4]
    assert transfer.limits == [16], "asked once, for as many as may be measured"
    assert run.n_repeats == 0
    policy = policy_of(run.result.tasks[0], "copied")
    assert (policy.n_seeds, policy.n_ran, policy.n_failed, policy.n_refused) == (12, 12, 0, 0)


@pytest.mark.parametrize(("options", "n_seeds"), [({"transfer": False}, 0), ({"transfer_trials": 3}, 3)])
def test_options_limit_seeds(run_engine: RunEngine, options: dict[str, Any], n_seeds: int) -> None:
    run = run_engine([make_task()], plugins=planned(some(12)), n_trials=16, **options)
    assert run.asked[:n_seeds] == ids_of(some(12))[:n_seeds]
    assert not set(run.asked[n_seeds:]) & set(ids_of(some(12))[n_seeds:])
    assert (run.result.tasks[0].transfer is None) == (n_seeds == 0)


def test_without_seeds_the_search_is_the_same_as_without_transfers(run_engine: RunEngine) -> None:
    from prune_engine.store.sql import SqlStore

    asked = []
    for plugins in ({}, planned()):
        asked.append(run_engine([make_task()], plugins=plugins, into=SqlStore("sqlite://"), n_trials=40).asked)
    assert asked[0] == asked[1]


class NoWideTiles(Rule):
    """Drops what has an innermost factor of j above 4."""

    name, kind = "test.narrow", RuleKind.LEGALITY

    def mask(self, batch: CandidateBatch, profile: object) -> BoolArray:
        return batch.column(1)[:, -1] <= 4


class GuessNothing(Rule):
    """A guess that drops everything."""

    name = "test.guess"

    def mask(self, batch: CandidateBatch, profile: object) -> BoolArray:
        return np.zeros(len(batch), dtype=np.bool_)


def test_legality_rules_drop_seeds_and_guesses_do_not(run_engine: RunEngine, store: Store) -> None:
    task = make_task()
    space = make_space(task)
    rows = some(12)(space)
    is_wide = space.sketches[0].variables[1].table[rows[:, 1], -1] > 4
    assert 0 < is_wide.sum() < 12
    plugins = {"acme": StrategyPlugin(PlannedSeeds(some(12))), "acme-rules": RulePlugin()}
    run = run_engine([task], plugins=plugins, n_trials=12, audit_fraction=0)
    (outcome,) = run.result.tasks
    legal = [i for i, wide in zip(ids_of(some(12)), is_wide, strict=True) if not wide]
    assert run.asked[: len(legal)] == legal
    policy = policy_of(outcome, "copied")
    assert policy.n_refused == is_wide.sum()
    assert policy.invalid_share == pytest.approx(is_wide.mean())
    dropped = [v for v in store.verdicts(task.task_id) if v.stage is Stage.TRANSFER]
    assert {v.reason for v in dropped} == {"copied: dropped by test.narrow"}
    assert sum(v.count for v in dropped) == is_wide.sum()


def test_what_the_compiler_refuses_costs_no_trial(run_engine: RunEngine) -> None:
    refused = set(ids_of(some(6))[:4])
    workbench = FakeWorkbench(refused=lambda candidate: candidate.candidate_id in refused)
    run = run_engine([make_task()], workbench, plugins=planned(some(6)), n_trials=8, batch_size=2)
    assert run.asked[:2] == ids_of(some(6))[4:], "the next best take their places"
    assert policy_of(run.result.tasks[0], "copied").n_refused == 4


def test_failures_are_counted_by_policy_and_misses_are_told(run_engine: RunEngine, store: Store) -> None:
    task, failing = make_task(), ids_of(some(4))[1]
    workbench = FakeWorkbench(planted={failing: MeasureErrorKind.CRASH})
    transfer = PlannedSeeds(
        some(4), floors=[1.5, 0], misses={("repair", "breaks the innermost limit"): 3}, n_sources={"strict": 7}
    )
    run = run_engine([task], workbench, plugins={"acme": StrategyPlugin(transfer)}, n_trials=8)
    report = transfer_of(run.result.tasks[0])
    assert [p.policy for p in report.policies] == ["ceil", "copied", "repair"]
    assert policy_of(run.result.tasks[0], "copied").n_failed == 1
    assert policy_of(run.result.tasks[0], "copied").invalid_share == 0.25
    assert policy_of(run.result.tasks[0], "ceil").misses == {"is no rewritten schedule": 1}
    assert policy_of(run.result.tasks[0], "repair").misses == {"breaks the innermost limit": 3}
    assert policy_of(run.result.tasks[0], "repair").invalid_share is None
    assert report.n_sources == {"strict": 7}
    told = {(v.reason, v.count) for v in store.verdicts(task.task_id) if v.stage is Stage.TRANSFER}
    assert told == {("repair: breaks the innermost limit", 3), ("ceil: is no rewritten schedule", 1)}
    kept = [v.reason for v in store.verdicts(task.task_id, failing) if v.outcome is Outcome.KEPT]
    assert kept == ["seed: copied of x"]


class Again(PlannedSeeds):
    """Another transfer, which is asked later."""

    name, order = "acme.again", 200


def test_a_schedule_of_two_transfers_is_measured_for_the_first(run_engine: RunEngine, store: Store) -> None:
    task, asked = make_task(), ids_of(some(4))
    later = Again(lambda space: np.concatenate([some(4)(space)[:2], some(2, seed=1)(space)]))
    plugins = {"later": StrategyPlugin(later), "first": StrategyPlugin(PlannedSeeds(some(4)))}
    run = run_engine([task], plugins=plugins, n_trials=8, transfer_trials=5)
    assert run.asked[:4] == asked
    assert run.asked[4] == ids_of(some(2, seed=1))[0], "of the second as many as there is room for"
    assert policy_of(run.result.tasks[0], "copied").n_ran == 5
    assert {v.strategy for v in store.verdicts(task.task_id, asked[0])} == {"acme.planned"}


# --- rewritten schedules


def test_a_rewritten_schedule_is_measured_and_can_win(run_engine: RunEngine, store: Store) -> None:
    task = make_task()
    plugins = planned(some(2), floors=[1.05, 2.0])
    run = run_engine([task], plugins=plugins, n_trials=20, verifier="lightgbm.decisions", draft_scorer=None)
    (outcome,) = run.result.tasks
    assert outcome.trace_json == rewritten(1.05)
    assert transfer_of(outcome).policy == "ceil"
    assert policy_of(outcome, "ceil").n_ran == 2
    assert not run.failures


def test_one_schedule_rewritten_twice_has_one_sketch(run_engine: RunEngine, store: Store) -> None:
    task = make_task()
    run = run_engine([task], plugins=planned(floors=[1.05, 1.05, 2.0]), n_trials=4)
    stored = store.candidates(task.task_id, "fake-cpu", 2)
    numbers = {row.sketch_id: row.sketch_index for row in stored if row.candidate_id in run.asked[:2]}
    assert numbers == {"fixed-1.05": 2, "fixed-2": 3}


@pytest.mark.parametrize("n_more", [0, 12])
def test_a_later_run_knows_rewritten_schedules_again(run_engine: RunEngine, n_more: int) -> None:
    task = make_task()
    first = run_engine([task], plugins=planned(floors=[2.5, 1.05]), n_trials=20)
    # Those of the earlier run come in another order, and the transfer proposes others now, or nothing.
    for floors in ((3.5, 1.05), ()):
        run = run_engine([task], plugins=planned(floors=floors), n_trials=20 + n_more)
        assert run.result.tasks[0].trace_json == first.result.tasks[0].trace_json == rewritten(1.05)
        assert run.result.tasks[0].summary.n_trials == 20 + n_more
    assert run.n_repeats == 0


def test_rewritten_schedules_that_fit_no_more_are_left(run_engine: RunEngine) -> None:
    """A later compiler does not take them: no crash, they still count as trials, and another schedule ships."""
    task = make_task()
    run_engine([task], plugins=planned(floors=[1.05]), n_trials=20)

    class Later(FakeWorkbench):
        fixed_sketch = None  # type: ignore[assignment]

    run = run_engine([task], Later(), n_trials=30)
    assert run.result.tasks[0].summary.n_trials == 30
    assert run.result.tasks[0].trace_json not in (None, rewritten(1.05))


def test_a_workbench_that_takes_no_rewritten_schedule_misses_them(run_engine: RunEngine) -> None:
    class Plain(FakeWorkbench):
        fixed_sketch = None  # type: ignore[assignment]

    plugins = planned(some(2), floors=[1.05])
    run = run_engine([make_task()], Plain(), plugins=plugins, n_trials=8)
    assert policy_of(run.result.tasks[0], "ceil").n_missed == 1
    assert len(run.asked) == 8


# --- ends


def flops(task: Any, floors: float) -> float:
    return float(FakeWorkbench()._flop_per_sec / floors)


@pytest.mark.parametrize(("floors", "is_end"), [(1.04, True), (1.07, False)])
def test_a_seed_as_good_as_the_library_ends_the_search(run_engine: RunEngine, floors: float, is_end: bool) -> None:
    task = make_task()
    transfer = PlannedSeeds(floors=[floors], goal_flop_per_sec=flops(task, 1.0))
    run = run_engine([task], plugins={"acme": StrategyPlugin(transfer)}, n_trials=12)
    assert run.result.stop_reason == ("transferred" if is_end else "trials")
    assert len(run.asked) == (1 if is_end else 12)
    assert transfer_of(run.result.tasks[0]).goal_secs == pytest.approx(task.flop_count / flops(task, 1.0))


def test_what_an_earlier_run_reached_ends_the_search_again(run_engine: RunEngine) -> None:
    transfer = PlannedSeeds(some(3), floors=[1.04], goal_flop_per_sec=flops(make_task(), 1.0))
    options = {"plugins": {"acme": StrategyPlugin(transfer)}, "transfer_only": True, "transfer_trials": 8}
    first = run_engine([make_task()], **options, first_batch_size=4)
    again = run_engine([make_task()], first.workbench, **options)
    assert first.result.tasks[0].summary.stop_reason == again.result.tasks[0].summary.stop_reason == "transferred"
    assert again.result.n_new == 0


def test_a_slow_candidate_of_the_search_does_not_end_it(run_engine: RunEngine) -> None:
    """The goal is for seeds: without one the search goes on, whatever it finds."""
    transfer = PlannedSeeds(goal_flop_per_sec=1.0)
    run = run_engine([make_task()], plugins={"acme": StrategyPlugin(transfer)}, n_trials=24)
    assert len(run.asked) == 24


def test_measurements_saved_are_those_of_the_source(run_engine: RunEngine, store: Store) -> None:
    task = make_task()
    source = make_batch(1, space=make_space(make_task("source")))
    (entry,) = make_entries(source, [1e-3], n_trials=64)
    store.add_entries([entry])

    class Reading(PlannedSeeds):
        def propose(self, task: Any, space: DesignSpace, context: Any, limit: int) -> Any:
            (found,) = context.library.find(LibraryQuery())
            proposal = super().propose(task, space, context, limit)
            return replace(
                proposal, rewritten=tuple(replace(one, source=found.entry_id) for one in proposal.rewritten)
            )

    transfer = Reading(floors=[1.0, 9.0], goal_flop_per_sec=flops(task, 1.0))
    plugins = {"acme": StrategyPlugin(transfer)}
    run = run_engine([task], plugins=plugins, n_trials=12, blocked_plugins=("transfer",))
    report = transfer_of(run.result.tasks[0])
    assert report.n_saved == 64 - 2
    assert report.source == "testing-model, source"
    assert report.best_secs == pytest.approx(task.flop_count / flops(task, 1.0))


def test_transfer_only_measures_seeds_and_nothing_else(run_engine: RunEngine) -> None:
    tasks = [make_task("a"), make_task("b")]
    plugins = planned(some(20))
    options = {"transfer_only": True, "transfer_trials": 5, "transfer_search_share": 0.0}
    run = run_engine(tasks, plugins=plugins, **options)
    assert run.result.stop_reason == "no_seeds_left"
    assert len(run.asked) == 10
    again = run_engine(tasks, run.workbench, plugins=plugins, **options)
    assert again.result.n_new == 0
    assert again.n_repeats == 0


def test_transfer_only_without_a_library_ends_at_once(run_engine: RunEngine) -> None:
    run = run_engine([make_task()], transfer_only=True, transfer_search_share=0.0)
    assert run.result.stop_reason == "no_seeds_left"
    assert not run.asked
    assert run.result.tasks[0].trace_json is None


# --- unmeasured


def test_the_best_ranked_ships_unmeasured(run_engine: RunEngine) -> None:
    refused = {ids_of(some(3))[0]}
    workbench = FakeWorkbench(refused=lambda candidate: candidate.candidate_id in refused)
    plugins = planned(some(3))
    run = run_engine([make_task()], workbench, plugins=plugins, transfer_only=True, transfer_trials=0)
    (outcome,) = run.result.tasks
    assert run.result.stop_reason == "ranked"
    assert not run.asked
    assert outcome.summary.best_candidate_id == ids_of(some(3))[1]
    assert outcome.summary.best_secs is None
    assert (transfer_of(outcome).policy, transfer_of(outcome).best_secs) == ("copied", None)
    assert outcome.summary.speedup is None
    assert outcome.trace_json is not None


def test_a_measured_winner_beats_an_unmeasured_seed(run_engine: RunEngine) -> None:
    first = run_engine([make_task()], n_trials=30)
    plugins = planned(some(3))
    run = run_engine([make_task()], plugins=plugins, transfer_only=True, transfer_trials=0)
    assert run.result.tasks[0].trace_json == first.result.tasks[0].trace_json
    assert run.result.tasks[0].summary.best_secs is not None


# --- resuming


def test_an_interrupted_run_goes_on_with_the_seeds_that_are_left(run_engine: RunEngine) -> None:
    plugins = planned(some(12))
    run_engine([make_task()], plugins=plugins, n_trials=5)
    run = run_engine([make_task()], plugins=plugins, n_trials=12)
    assert run.asked == ids_of(some(12))[5:]
    assert policy_of(run.result.tasks[0], "copied").n_known == 5


def test_no_seed_is_asked_for_when_enough_was_measured(run_engine: RunEngine) -> None:
    run_engine([make_task()], n_trials=16)
    transfer = PlannedSeeds(some(12))
    run_engine([make_task()], plugins={"acme": StrategyPlugin(transfer)}, n_trials=24)
    assert not transfer.limits


def test_repaired_seeds_are_not_proposed_again(run_engine: RunEngine) -> None:
    space = make_space(make_task())
    rows = make_batch(40, space=space, seed=3)
    asked = make_batch(2, space=space, seed=9)
    repaired: dict[str, Candidate] = {asked.candidate(i).candidate_id: rows.candidate(i) for i in range(2)}
    run = run_engine(
        [make_task()],
        FakeWorkbench(repaired=repaired),
        plugins=planned(some(2)),
        n_trials=10,
    )
    assert run.asked[:2] == [rows.candidate(i).candidate_id for i in range(2)]
    assert run.n_repeats == 0


# --- what a run adds to the library


@pytest.mark.parametrize("is_kept", [True, False])
def test_the_best_schedules_of_a_run_go_into_the_library(
    run_engine: RunEngine, store: Store, is_kept: bool
) -> None:
    tasks = [make_task("a"), make_task("b", shape=(32, 32, 32))]
    for _ in range(2):  # a second run adds nothing
        workbench = FakeWorkbench(default_ratio=9)
        run = run_engine(tasks, workbench, n_trials=60, harvest=is_kept, model_name="a model")
    entries = store.find(LibraryQuery())
    if not is_kept:
        assert not entries
        return
    assert {(e.model, e.task_name) for e in entries} == {("a model", "a"), ("a model", "b")}
    assert len(entries) <= 6
    for outcome in run.result.tasks:
        best = min((e for e in entries if e.task_name == outcome.summary.name), key=lambda e: e.latency_secs)
        assert best.trace_json == outcome.trace_json
        assert len(best.run_secs) > 5, "the repeats of the finals"


def test_schedules_of_one_model_are_measured_first_for_the_next(run_engine: RunEngine) -> None:
    """The whole way: tuned, kept, found, re-fitted, measured, ended early."""
    run_engine([make_task("a")], n_trials=80, harvest=True, model_name="first")
    run = run_engine([make_task("b", shape=(96, 48, 32))], FakeWorkbench(), n_trials=80)
    (outcome,) = run.result.tasks
    report = transfer_of(outcome)
    assert report.source == "first, a"
    assert report.n_sources == {"strict": 3}
    assert outcome.summary.n_trials < 40
    assert outcome.summary.stop_reason == "transferred"
    assert report.n_saved == 80 - outcome.summary.n_trials
