"""The loop from tasks to winners, on a workbench that is a formula."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from kits.engine import Batches, Clock, FixedSeeds, RunEngine, StrategyPlugin, small_space, stored_ids

from prune_engine.candidates import Candidate
from prune_engine.config import EngineConfig
from prune_engine.engine import Engine
from prune_engine.errors import ConfigError
from prune_engine.measurement import MeasuredCandidate, MeasureErrorKind
from prune_engine.space import DesignSpace, Sketch
from prune_engine.store.base import Store
from prune_engine.store.sql import SqlStore
from prune_engine.testing import FakeWorkbench, make_batch, make_space, make_task
from prune_engine.verdicts import Outcome, Stage


def test_finds_something_faster_and_stores_everything(run_engine: RunEngine, store: Store) -> None:
    task = make_task()
    run = run_engine([task], n_trials=64)
    (outcome,) = run.result.tasks
    assert run.result.stop_reason == "trials"
    assert outcome.summary.speedup is not None
    assert outcome.summary.speedup > 1.3
    assert outcome.trace_json is not None
    assert run.result.n_new == outcome.summary.n_trials == len(run.asked) == 64
    assert sorted(stored_ids(store, task)) == sorted(["default", *run.asked])
    assert store.runs()[0].finished_at is not None
    assert {"at", "load_average"} <= set(store.runs()[0].manifest["load_after"])  # type: ignore[call-overload]
    assert not run.failures


def test_learning_beats_guessing(run_engine: RunEngine, profile: object) -> None:
    """The best of as many trials, with and without the verifier, over three seeds."""
    best: dict[str | None, list[float]] = {None: [], "lightgbm.decisions": []}
    for verifier, found in best.items():
        for seed in range(3):
            with_store = SqlStore("sqlite://")
            run = run_engine([make_task()], n_trials=96, seed=seed, verifier=verifier, into=with_store)
            found.append(run.result.tasks[0].summary.best_secs or 1.0)
    assert np.mean(best["lightgbm.decisions"]) < 0.9 * np.mean(best[None])


def test_the_default_is_measured_first_and_always(run_engine: RunEngine) -> None:
    order: list[Candidate | None] = []
    run_engine([make_task("a"), make_task("b")], FakeWorkbench(on_measure=order.append), n_trials=32)
    assert order[:2] == [None, None]
    assert None not in order[2:]


@pytest.mark.parametrize("n_trials", [0, 1])
def test_the_default_is_measured_even_without_trials(run_engine: RunEngine, n_trials: int) -> None:
    run = run_engine([make_task("a"), make_task("b")], n_trials=n_trials)
    assert run.result.stop_reason == "trials"
    assert [t.summary.default_secs is not None for t in run.result.tasks] == [True, True]
    assert len(run.asked) == n_trials


@pytest.mark.parametrize("n_trials", [1, 15, 16, 17, 50])
def test_trials_are_counted_exactly(run_engine: RunEngine, n_trials: int) -> None:
    run = run_engine([make_task("a"), make_task("b")], n_trials=n_trials)
    assert len(run.asked) == run.result.n_new == n_trials


def test_failures_are_trials_too(run_engine: RunEngine) -> None:
    workbench = FakeWorkbench(failures={MeasureErrorKind.CRASH: 0.5})
    assert len(run_engine([make_task()], workbench, n_trials=40).asked) == 40


def test_every_task_gets_a_batch_before_any_gets_a_second(run_engine: RunEngine) -> None:
    batches = Batches()
    tasks = [make_task(name, weight=weight) for name, weight in (("a", 100), ("b", 1), ("c", 10), ("d", 1))]
    run_engine(tasks, plugins={"watch": batches}, n_trials=160)
    assert sorted(batches.tasks[:4]) == ["a", "b", "c", "d"]
    assert batches.tasks[0] == "a", "the most expensive first"
    assert max(batches.tasks[4:], key=batches.tasks[4:].count) == "a"


def test_few_trials_are_spread_over_many_tasks(run_engine: RunEngine) -> None:
    tasks = [make_task(f"t{i}") for i in range(10)]
    run = run_engine(tasks, n_trials=40)
    assert all(t.summary.n_trials >= 1 for t in run.result.tasks)
    assert len(run.asked) == 40


def test_same_seed_same_trials_other_seed_others(run_engine: RunEngine) -> None:
    asked = []
    for seed in (3, 3, 4):
        into = SqlStore("sqlite://")
        run = run_engine(
            [make_task("a"), make_task("b")],
            FakeWorkbench(noise=0.05),
            into=into,
            n_trials=64,
            seed=seed,
            verifier="lightgbm.decisions",
        )
        asked.append(list(run.workbench.asked))
    assert asked[0] == asked[1]
    assert set(asked[0]) != set(asked[2])


# --- ends


def test_seconds_are_kept_within_a_batch(run_engine: RunEngine) -> None:
    clock = Clock()
    workbench = FakeWorkbench(on_measure=clock.pass_(1.0))
    run = run_engine([make_task("a"), make_task("b")], workbench, budget_secs=100, clock=clock, plateau_trials=9999)
    assert run.result.stop_reason == "seconds"
    assert 100 - 2 - 16 <= clock.secs <= 100
    assert run.result.elapsed_secs == pytest.approx(clock.secs)


def test_seconds_are_kept_when_candidates_become_slow(run_engine: RunEngine) -> None:
    clock, n = Clock(), iter(range(10_000))
    workbench = FakeWorkbench(on_measure=lambda _: clock.pass_(1.0 if next(n) < 40 else 5.0)(None))
    run_engine([make_task()], workbench, budget_secs=100, clock=clock)
    assert clock.secs <= 100 + 16 * 5


def test_defaults_alone_may_use_up_the_seconds(run_engine: RunEngine) -> None:
    clock = Clock()
    tasks = [make_task(f"t{i}") for i in range(5)]
    run = run_engine(tasks, FakeWorkbench(on_measure=clock.pass_(4.0)), budget_secs=10, clock=clock)
    assert run.result.stop_reason == "seconds"
    assert sum(t.summary.default_secs is not None for t in run.result.tasks) == 3
    assert {t.summary.stop_reason for t in run.result.tasks} == {"seconds"}
    assert not run.asked


def test_the_seconds_of_one_run_do_not_count_for_the_next(run_engine: RunEngine) -> None:
    clock, workbench = Clock(), FakeWorkbench()
    workbench._on_measure = clock.pass_(1.0)
    for _ in range(2):
        before, started = len(workbench.asked), clock.secs
        run_engine([make_task()], workbench, budget_secs=40, clock=clock, plateau_trials=9999)
        assert 20 <= len(workbench.asked) - before <= 40
        assert clock.secs - started <= 40


def test_plateau(run_engine: RunEngine) -> None:
    run = run_engine([make_task()], plateau_trials=24, plateau_gain=0.9)
    assert run.result.stop_reason == "plateau"
    assert run.result.n_new == 32, "the first batch after 24 trials without a gain"


@pytest.mark.parametrize("n_known", [0, 5, 6])
def test_a_small_space_ends(run_engine: RunEngine, n_known: int) -> None:
    task = make_task()
    space = small_space(task)
    workbench = FakeWorkbench(spaces={task.task_id: space})
    if n_known:
        run_engine([task], workbench, n_trials=n_known)
    run = run_engine([task], workbench)
    assert run.result.stop_reason == "exhausted"
    assert len(run.asked) == 6
    assert run.n_repeats == 0


def test_a_space_without_choices_is_left_alone(run_engine: RunEngine) -> None:
    task = make_task()
    workbench = FakeWorkbench(spaces={task.task_id: DesignSpace(task, (Sketch(0, "bare", ()),))})
    run = run_engine([task], workbench, n_trials=10)
    assert run.result.stop_reason == "nothing_to_tune"
    assert run.result.tasks[0].summary.default_secs is not None
    assert not run.asked


def test_no_tasks(run_engine: RunEngine, store: Store) -> None:
    run = run_engine([], n_trials=10)
    assert (run.result.tasks, run.result.stop_reason) == ((), "nothing_to_tune")
    assert store.runs()[0].finished_at is not None


def test_should_stop_ends_after_the_batch_with_winners(run_engine: RunEngine, store: Store) -> None:
    workbench = FakeWorkbench()
    run = run_engine([make_task()], workbench, should_stop=lambda: len(workbench.asked) > 20, n_trials=999)
    assert run.result.stop_reason == "interrupted"
    assert len(run.asked) == 32
    assert run.result.tasks[0].trace_json is not None
    assert len(stored_ids(store, make_task())) == 33
    assert store.runs()[0].finished_at is not None


def test_stopped_at_once_it_still_ships_what_earlier_runs_found(run_engine: RunEngine) -> None:
    tasks = [make_task(name) for name in "abc"]
    first = run_engine(tasks, n_trials=90)
    again = run_engine([*tasks, make_task("new")], should_stop=lambda: True, n_trials=900)
    assert again.result.stop_reason == "interrupted"
    assert [t.trace_json for t in again.result.tasks] == [*(t.trace_json for t in first.result.tasks), None]
    assert again.result.n_new == 0
    assert again.result.tasks[3].summary.stop_reason == "interrupted"


# --- what ships


def test_a_task_never_ships_something_slower_than_its_default(run_engine: RunEngine) -> None:
    task = make_task()
    workbench = FakeWorkbench(default_ratio=0.5)
    run = run_engine([task], workbench, n_trials=64)
    (outcome,) = run.result.tasks
    assert outcome.trace_json is None
    assert outcome.summary.best_candidate_id == "default"
    assert outcome.summary.best_secs == pytest.approx(workbench.default_latency_secs(task))


def test_noise_makes_nothing_slower_ship(profile: Any) -> None:
    """The default is 10 % better than the best there is; 30 runs with 20 % noise."""
    shipped = 0
    for seed in range(30):
        task = make_task(f"noisy{seed}")
        space = small_space(task, 12)
        floor = FakeWorkbench().true_latency_secs(make_batch(12, space=space)).min()
        ratio = floor * 1e9 / task.flop_count / 1.1
        workbench = FakeWorkbench(spaces={task.task_id: space}, noise=0.2, seed=seed, default_ratio=float(ratio))
        config = EngineConfig.of(n_trials=12, verifier=None)
        result = Engine(config, workbench, SqlStore("sqlite://"), profile).run([task])
        shipped += result.tasks[0].trace_json is not None
    assert shipped <= 1


def test_seeds_are_measured_first_and_never_twice(run_engine: RunEngine) -> None:
    watch = Batches()
    plugins = {"acme": StrategyPlugin(FixedSeeds(6)), "watch": watch}
    run = run_engine([make_task()], plugins=plugins, n_trials=48)
    seeds = make_batch(6, space=make_space(make_task()), seed=9)
    assert watch.batches[0][:6] == [seeds.candidate(i).candidate_id for i in range(6)]
    assert run.n_repeats == 0


def test_seeds_are_at_most_a_batch(run_engine: RunEngine) -> None:
    watch = Batches()
    run_engine([make_task()], plugins={"acme": StrategyPlugin(FixedSeeds(500)), "watch": watch}, n_trials=16)
    assert watch.summaries[0].n_proposed <= 2048 + 2 + 16


def test_accounts_add_up_over_a_run(run_engine: RunEngine, store: Store) -> None:
    task, watch = make_task(), Batches()
    run_engine([task], plugins={"watch": watch}, n_trials=64, verifier="lightgbm.decisions")
    verdicts = store.verdicts(task.task_id)
    stopped = sum(
        v.count
        for v in verdicts
        if v.outcome in (Outcome.DROPPED, Outcome.SKIPPED) and v.stage is not Stage.MEASURE
    )
    chosen = sum(v.count for v in verdicts if v.stage is Stage.SELECT and v.outcome is Outcome.KEPT)
    assert stopped + chosen == sum(s.n_proposed for s in watch.summaries)
    assert chosen == 64


@pytest.mark.parametrize("option", ["explorer", "verifier", "selector", "draft_scorer"])
def test_an_unknown_strategy_is_a_config_error(run_engine: RunEngine, option: str) -> None:
    with pytest.raises(ConfigError, match="no such strategy"):
        run_engine([make_task()], **{option: "acme.unknown"})


def test_an_unknown_rule_is_a_config_error(run_engine: RunEngine) -> None:
    with pytest.raises(ConfigError, match="unknown rule"):
        run_engine([make_task()], disabled_rules=("acme.unknown",))


def test_observers_hear_of_all_tasks(store: Store, profile: Any) -> None:
    heard: list[tuple[int, float | None, int | None]] = []

    class Ears:
        def on_status(self, message: str) -> None: ...

        def on_tasks(self, tasks: Any, elapsed: float, left: float | None, n_left: int | None) -> None:
            heard.append((len(tasks), left, n_left))

    watch = Batches()
    config = EngineConfig.of(n_trials=32, verifier=None, budget_secs=1000)
    from prune_engine.plugins import PluginHost

    host = PluginHost(config)
    host.load()
    host.register(watch, "watch")
    Engine(config, FakeWorkbench(), store, profile, host=host, observer=Ears()).run(
        [make_task("a"), make_task("b")]
    )
    assert {n for n, _, _ in heard} == {2}
    lefts = [n_left for _, _, n_left in heard]
    assert (lefts[0], lefts[-1]) == (32, 0)
    assert sorted(s.name for s in watch.finished) == ["a", "b"]


def test_iterators_are_fine(run_engine: RunEngine) -> None:
    def measure(self: FakeWorkbench, *args: Any) -> Iterator[MeasuredCandidate]:
        return iter(list(FakeWorkbench.measure(self, *args)))

    workbench = FakeWorkbench()
    workbench.measure = measure.__get__(workbench)  # type: ignore[method-assign]
    assert len(run_engine([make_task()], workbench, n_trials=20).asked) == 20
