"""The loop from tasks to winners, on a workbench that is a formula."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest
from prune_engine_explore.uniform import UniformExplorer

from prune_engine.candidates import Candidate
from prune_engine.config import EngineConfig
from prune_engine.engine import Engine
from prune_engine.errors import ConfigError, MeasureServerError, NothingMeasuredError
from prune_engine.hookspecs import hookimpl
from prune_engine.measurement import MeasuredCandidate, MeasureErrorKind
from prune_engine.space import DesignSpace, Sketch, Variable, VariableKind
from prune_engine.store.base import Store
from prune_engine.store.sql import SqlStore
from prune_engine.strategies import ScheduleTransfer
from prune_engine.task import TuningTask
from prune_engine.testing import FakeWorkbench, make_batch, make_space, make_task
from prune_engine.verdicts import Outcome, Stage

RunEngine = Callable[..., Any]


class Clock:
    """Seconds that pass only when told to."""

    def __init__(self) -> None:
        self.secs = 0.0

    def __call__(self) -> float:
        return self.secs

    def pass_(self, secs: float) -> Callable[[object], None]:
        def advance(_: object) -> None:
            self.secs += secs

        return advance


def small_space(task: TuningTask, n: int = 6) -> DesignSpace:
    unroll = Variable.of("unroll", VariableKind.CATEGORICAL, np.arange(n // 2)[:, None])
    order = Variable.of("order", VariableKind.CATEGORICAL, np.array([[0], [1]]))
    return DesignSpace(task, (Sketch(0, "small", (unroll, order)),))


def stored_ids(store: Store, task: TuningTask) -> list[str]:
    return [c.candidate_id for c in store.candidates(task.task_id, "fake-cpu", 2)]


class Batches:
    """A plugin that notes the tasks and candidates of each batch."""

    def __init__(self) -> None:
        self.tasks: list[str] = []
        self.batches: list[list[str]] = []
        self.summaries: list[Any] = []
        self.finished: list[Any] = []

    @hookimpl
    def batch_measured(self, task: TuningTask, measured: Sequence[MeasuredCandidate]) -> None:
        self.tasks.append(task.name)
        self.batches.append([m.measurement.candidate_id for m in measured])

    @hookimpl
    def batch_pruned(self, summary: Any) -> None:
        self.summaries.append(summary)

    @hookimpl
    def task_finished(self, summary: Any) -> None:
        self.finished.append(summary)


# --- the good case


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


# --- resume


def test_the_same_job_again_measures_nothing(run_engine: RunEngine) -> None:
    tasks, workbench = [make_task("a"), make_task("b", shape=(96, 64, 48))], FakeWorkbench(noise=0.05)
    first = run_engine(tasks, workbench, n_trials=48)
    asked = dict(workbench.asked)
    compared: list[object] = []
    workbench.compare = lambda *args: compared.append(args)  # type: ignore[method-assign, assignment, return-value]
    second = run_engine(tasks, workbench, n_trials=48)
    assert dict(workbench.asked) == asked
    assert not compared, "finals of an unchanged field are not timed again"
    assert second.result.n_new == 0
    assert [t.summary.best_candidate_id for t in second.result.tasks] == [
        t.summary.best_candidate_id for t in first.result.tasks
    ]
    assert [t.trace_json for t in second.result.tasks] == [t.trace_json for t in first.result.tasks]


@pytest.mark.parametrize("verifier", [None, "lightgbm.decisions"])
def test_more_trials_continue_without_a_repeat(run_engine: RunEngine, verifier: str | None) -> None:
    workbench = FakeWorkbench(failures={MeasureErrorKind.BUILD_ERROR: 0.2})
    for n_trials in (20, 45, 90):
        run = run_engine([make_task("a"), make_task("b")], workbench, n_trials=n_trials, verifier=verifier)
        assert sum(t.summary.n_trials for t in run.result.tasks) == n_trials
    assert len(run.asked) == 90
    assert run.n_repeats == 0


def test_a_run_that_stopped_in_the_middle_is_continued(run_engine: RunEngine) -> None:
    task, workbench = make_task(), FakeWorkbench()
    calls = iter(range(1000))
    workbench._on_measure = lambda _: _raise_at(next(calls), 21)
    with pytest.raises(KeyboardInterrupt):
        run_engine([task], workbench, n_trials=64)
    assert len(workbench.asked) == 21
    workbench._on_measure = None
    run = run_engine([task], workbench, n_trials=64)
    assert (run.n_repeats, len(run.asked)) == (0, 64)


def test_what_is_known_is_not_even_asked_for_again(run_engine: RunEngine) -> None:
    """The workbench would leave it out, but a batch of such candidates is a batch lost."""
    task, asked = make_task(), []
    space = small_space(task, 60)

    class Listening(FakeWorkbench):
        def measure(self, space: Any, candidates: Any, *args: Any) -> Iterator[MeasuredCandidate]:
            asked.extend(c.candidate_id for c in candidates)
            return super().measure(space, candidates, *args)

    for n_trials in (20, 40, 60):
        run_engine([task], Listening(spaces={task.task_id: space}), n_trials=n_trials)
    assert len(asked) == len(set(asked)) == 60


def _raise_at(number: int, limit: int) -> None:
    if number >= limit:
        raise KeyboardInterrupt


def test_repaired_decisions_are_measured_once(run_engine: RunEngine, store: Store) -> None:
    """A space of 144 of which the compiler makes other candidates two times of three."""
    task = make_task(shape=(4, 4, 4))
    space = make_space(task)
    space = DesignSpace(task, space.sketches[:1])
    everything = make_batch(space.size, space=space)
    survivors = [everything.candidate(i) for i in range(0, space.size, 3)]
    repaired = {
        everything.candidate(i).candidate_id: survivors[i // 3 % len(survivors)] for i in range(space.size) if i % 3
    }
    workbench = FakeWorkbench(spaces={task.task_id: space}, repaired=repaired)
    for n_trials in (20, 10_000, 10_000):
        run = run_engine([task], workbench, n_trials=n_trials, plateau_trials=10_000)
    assert run.n_repeats == 0
    assert sorted(run.asked) == sorted(c.candidate_id for c in survivors)
    assert run.result.stop_reason == "exhausted"
    reasons = {v.reason for v in store.verdicts(task.task_id) if v.stage is Stage.MEASURE}
    assert reasons == {"the compiler repaired its decisions into another candidate"}


def test_another_tuners_work_is_not_repeated(run_engine: RunEngine, store: Store) -> None:
    """It writes into the same store while we run."""
    task, theirs = make_task(), FakeWorkbench()
    space = small_space(task, 40)
    batch = make_batch(40, space=space)
    calls = iter(range(1000))

    def meanwhile(_: object) -> None:
        if next(calls) == 5:
            run_id = store.start_run({})
            others = [batch.candidate(i) for i in range(30)]
            for one in theirs.measure(space, others, None, known_ids=set(stored_ids(store, task))):
                store.add_measured(run_id, task.task_id, ["small"], [one])

    mine = FakeWorkbench(spaces={task.task_id: space}, on_measure=meanwhile)
    run = run_engine([task], mine, n_trials=100, batch_size=6)
    both = set(mine.asked) & set(theirs.asked)
    assert len(both) <= 1, "but for the batch in flight"
    assert run.result.stop_reason == "exhausted"
    assert len(stored_ids(store, task)) == 41


def test_a_job_that_ended_on_a_plateau_measures_nothing_again(run_engine: RunEngine) -> None:
    workbench = FakeWorkbench()
    first = run_engine([make_task()], workbench, plateau_trials=32, plateau_gain=0.5)
    n = len(first.asked)
    second = run_engine([make_task()], workbench, plateau_trials=32, plateau_gain=0.5)
    assert first.result.stop_reason == second.result.stop_reason == "plateau"
    assert len(second.asked) == n


def test_measurements_on_another_device_do_not_count(run_engine: RunEngine) -> None:
    run_engine([make_task()], n_trials=16)
    for other in (FakeWorkbench(threads=4), FakeWorkbench(device="other")):
        assert len(run_engine([make_task()], other, n_trials=16).asked) == 16


def test_all_tasks_are_restored_although_the_first_has_used_the_budget(run_engine: RunEngine) -> None:
    """The winners of the others must not be forgotten."""
    tasks = [make_task(name) for name in "abc"]
    for n_trials in (90, 30):
        run = run_engine(tasks, n_trials=n_trials)
        assert all(t.summary.n_trials > 0 for t in run.result.tasks)
        assert all(t.trace_json for t in run.result.tasks)


def test_a_space_that_changed_keeps_what_still_means_something(run_engine: RunEngine) -> None:
    """Measured under a structure that is not generated any more: not ranked, not learnt, not repeated."""
    task = make_task()
    first = run_engine([task], FakeWorkbench(spaces={task.task_id: small_space(task, 20)}), n_trials=20)
    assert first.result.n_new == 20
    other = DesignSpace(task, (Sketch(0, "other structure", small_space(task, 20).sketches[0].variables),))
    run = run_engine(
        [task], FakeWorkbench(spaces={task.task_id: other}), n_trials=40, verifier="lightgbm.decisions"
    )
    assert run.result.n_new == 20
    assert not run.failures


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


# --- failures


def test_every_candidate_of_a_task_fails(run_engine: RunEngine, store: Store) -> None:
    bad, good = make_task("bad"), make_task("good")
    kinds = {MeasureErrorKind.BUILD_TIMEOUT: 0.5, MeasureErrorKind.WRONG_RESULT: 0.5}

    class HalfBroken(FakeWorkbench):
        def _error(self, task: TuningTask, candidate_id: str) -> Any:
            self._failures = kinds if task.task_id == bad.task_id else {}
            return super()._error(task, candidate_id)

    run = run_engine([bad, good], HalfBroken(), n_trials=64, plateau_trials=24)
    failed, fine = run.result.tasks
    assert failed.trace_json is None
    assert failed.summary.n_valid == 0
    assert set(failed.summary.failures) == {"build_timeout", "wrong_result"}
    assert sum(failed.summary.failures.values()) == failed.summary.n_trials > 0
    assert failed.failure_examples["wrong_result"] == "planted wrong_result"
    assert dict(run.result.census) == failed.summary.failures
    assert fine.trace_json is not None
    trail = [v for v in store.verdicts(bad.task_id) if v.stage is Stage.MEASURE]
    assert {v.outcome for v in trail} == {Outcome.FAILED}
    assert len(trail) == failed.summary.n_trials


def test_nothing_measurable_at_all(run_engine: RunEngine, store: Store) -> None:
    task = make_task()
    workbench = FakeWorkbench(
        failures={MeasureErrorKind.CRASH: 1.0}, planted={"default": MeasureErrorKind.RUN_TIMEOUT}
    )
    with pytest.raises(NothingMeasuredError) as caught:
        run_engine([task], workbench, n_trials=32)
    assert "default run_timeout: 1" in str(caught.value)
    assert "planted run_timeout" in str(caught.value)
    assert stored_ids(store, task) == ["default"]
    assert store.runs()[0].finished_at is not None


def test_a_task_whose_default_fails_is_left_alone(run_engine: RunEngine) -> None:
    broken, fine = make_task("broken"), make_task("fine")
    workbench = FakeWorkbench(planted={f"{broken.task_id}/default": MeasureErrorKind.WRONG_RESULT})
    run = run_engine([broken, fine], workbench, n_trials=48)
    first, second = run.result.tasks
    assert first.summary.stop_reason == "default_failed"
    assert first.summary.n_trials == 0
    assert first.trace_json is None
    assert "planted wrong_result" in first.failure_examples["default"]
    assert run.result.census == {"default wrong_result": 1}
    assert second.trace_json is not None


def test_a_failed_default_is_tried_again_in_the_next_run(run_engine: RunEngine) -> None:
    task = make_task()
    with pytest.raises(NothingMeasuredError):
        run_engine([task], FakeWorkbench(planted={"default": MeasureErrorKind.RUN_TIMEOUT}), n_trials=32)
    run = run_engine([task], n_trials=32)
    assert run.result.tasks[0].trace_json is not None


def test_a_task_without_a_space_keeps_its_default(run_engine: RunEngine) -> None:
    without, fine = make_task("without"), make_task("fine")
    run = run_engine([without, fine], FakeWorkbench(spaces={without.task_id: None}), n_trials=32)
    first, second = run.result.tasks
    assert first.summary.stop_reason == "no_space"
    assert first.summary.default_secs is not None
    assert "planted" in first.failure_examples["space"]
    assert second.trace_json is not None


def test_the_measure_server_dies_in_the_middle(run_engine: RunEngine, store: Store) -> None:
    task, calls = make_task(), iter(range(1000))

    def die(_: object) -> None:
        if next(calls) == 22:
            raise MeasureServerError("gone for good", who="measuring")

    workbench = FakeWorkbench(on_measure=die)
    with pytest.raises(MeasureServerError, match="gone for good"):
        run_engine([task], workbench, n_trials=64)
    assert len(stored_ids(store, task)) == 22
    assert store.runs()[0].finished_at is None
    skipped = [v for v in store.verdicts(task.task_id) if v.reason == "measuring broke down"]
    assert [v.count for v in skipped] == [11]
    run = run_engine([task], workbench, n_trials=64)
    assert (run.n_repeats, len(run.asked)) == (0, 64)


def test_a_store_that_fails_stops_the_run_without_believing_more(run_engine: RunEngine, store: Store) -> None:
    """What is not stored is not counted: store first, then believe."""
    task, original, n = make_task(), store.add_measured, iter(range(1000))

    def failing(*args: Any) -> None:
        if next(n) == 9:
            raise OSError("disk full (planted)")
        original(*args)

    store.add_measured = failing  # type: ignore[method-assign]
    with pytest.raises(OSError, match="planted"):
        run_engine([task], n_trials=64)
    store.add_measured = original  # type: ignore[method-assign]
    assert len(stored_ids(store, task)) == 9


# --- strategies


class StrategyPlugin:
    """A plugin with one transfer."""

    def __init__(self, transfer: ScheduleTransfer) -> None:
        self._transfer = transfer

    @hookimpl
    def register_transfers(self) -> list[ScheduleTransfer]:
        return [self._transfer]


class Seeds(ScheduleTransfer):
    name = "acme.seeds"

    def __init__(self, n: int, seed: int = 9) -> None:
        self._n, self._seed = n, seed

    def propose(self, task: Any, space: DesignSpace, store: Any, limit: int) -> Any:
        return [make_batch(self._n, space=space, seed=self._seed)]


def test_seeds_are_measured_first_and_never_twice(run_engine: RunEngine) -> None:
    watch = Batches()
    plugins = {"acme": StrategyPlugin(Seeds(6)), "watch": watch}
    run = run_engine([make_task()], plugins=plugins, n_trials=48)
    seeds = make_batch(6, space=make_space(make_task()), seed=9)
    assert watch.batches[0][:6] == [seeds.candidate(i).candidate_id for i in range(6)]
    assert run.n_repeats == 0


def test_seeds_are_at_most_a_batch(run_engine: RunEngine) -> None:
    watch = Batches()
    run_engine([make_task()], plugins={"acme": StrategyPlugin(Seeds(500)), "watch": watch}, n_trials=16)
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


class BadExplorer(UniformExplorer):
    name = "acme.explorer"

    def __init__(self, propose: Callable[[DesignSpace], Any] | None = None, update: Any = None) -> None:
        self._propose, self._update = propose, update
        self.n_updates = 0

    def propose(self, space: DesignSpace, n: int, fitness: Any, rng: Any) -> Any:
        return self._propose(space) if self._propose else super().propose(space, n, fitness, rng)

    def update(self, batch: Any, measurements: Any) -> None:
        self.n_updates += 1
        if self._update:
            self._update(batch, measurements)


class ExplorerPlugin:
    def __init__(self, explorer: BadExplorer) -> None:
        self._explorer = explorer

    @hookimpl
    def register_explorers(self) -> list[BadExplorer]:
        return [self._explorer]


def explode(*_: object) -> Any:
    raise RuntimeError("planted")


def disallowed_rows(space: DesignSpace) -> Any:
    batch = make_batch(3, space=space)
    rows = batch.indices.copy()
    rows[0, 0] = 10_000
    return [type(batch)(space, space.sketches[0], rows)]


def overwrite(space: DesignSpace) -> Any:
    space.sketches[0].variables[0].rows[:] = 0


BAD_PROPOSALS = {
    "raises": explode,
    "none": lambda space: None,
    "array": lambda space: make_batch(3, space=space).indices,
    "other task": lambda space: [make_batch(3, space=make_space(make_task("other")))],
    "disallowed": disallowed_rows,
    "mutates": overwrite,
    "exits": lambda space: exit(4),
}


@pytest.mark.parametrize("propose", BAD_PROPOSALS.values(), ids=BAD_PROPOSALS)
def test_a_failing_explorer_is_named_and_the_defaults_ship(run_engine: RunEngine, propose: Any) -> None:
    plugins = {"acme": ExplorerPlugin(BadExplorer(propose))}
    run = run_engine([make_task("a"), make_task("b")], plugins=plugins, explorer="acme.explorer", n_trials=32)
    assert set(run.failures) == {"acme"}
    assert "acme.explorer" in run.failures["acme"]
    assert run.result.stop_reason == "explorer_failed"
    assert [t.summary.best_candidate_id for t in run.result.tasks] == ["default"] * 2


def test_an_explorer_that_fails_on_one_task_goes_on_with_the_others(run_engine: RunEngine) -> None:
    explorer = BadExplorer()
    explorer._propose = lambda space: (  # type: ignore[assignment]
        explode()
        if space.task.name == "a"
        else UniformExplorer().propose(space, 99, None, np.random.default_rng(0))
    )
    plugins = {"acme": ExplorerPlugin(explorer)}
    run = run_engine([make_task("a"), make_task("b")], plugins=plugins, explorer="acme.explorer", n_trials=32)
    assert [t.summary.n_trials for t in run.result.tasks] == [0, 32]
    assert run.result.tasks[0].summary.stop_reason == "explorer_failed"


def test_an_explorer_that_only_proposes_what_was_seen_ends_the_task(run_engine: RunEngine) -> None:
    explorer = BadExplorer(lambda space: [make_batch(10, space=space)] * 2)
    plugins = {"acme": ExplorerPlugin(explorer)}
    run = run_engine([make_task()], plugins=plugins, explorer="acme.explorer", n_trials=100)
    assert run.result.stop_reason == "exhausted"
    assert len(run.asked) == 10
    assert not run.failures


def test_learners_that_fail_are_set_aside_once(run_engine: RunEngine) -> None:
    explorer = BadExplorer(update=explode)
    plugins = {"acme": ExplorerPlugin(explorer)}
    run = run_engine([make_task()], plugins=plugins, explorer="acme.explorer", n_trials=64)
    assert explorer.n_updates == 1
    assert run.failures["acme"].count("planted") == 1
    assert len(run.asked) == 64, "it can still propose"


def test_a_learner_cannot_change_what_the_next_one_is_taught(run_engine: RunEngine) -> None:
    explorer = BadExplorer(update=lambda batch, measurements: measurements.clear())
    plugins = {"acme": ExplorerPlugin(explorer)}
    run = run_engine(
        [make_task()], plugins=plugins, explorer="acme.explorer", n_trials=64, verifier="lightgbm.decisions"
    )
    assert set(run.failures) == {"acme"}


class FailingTransfer(Seeds):
    name = "acme.transfer"

    def __init__(self) -> None:
        self.n_asked = 0

    def propose(self, *args: Any) -> Any:
        self.n_asked += 1
        raise RuntimeError("planted")


def test_a_failing_transfer_is_asked_once(run_engine: RunEngine) -> None:
    transfer = FailingTransfer()
    run = run_engine([make_task("a"), make_task("b")], plugins={"acme": StrategyPlugin(transfer)}, n_trials=32)
    assert transfer.n_asked == 1
    assert "acme.transfer" in run.failures["acme"]
    assert len(run.asked) == 32


@pytest.mark.parametrize(
    ("plugin", "options"),
    [
        (ExplorerPlugin(BadExplorer(explode)), {"explorer": "acme.explorer"}),
        (ExplorerPlugin(BadExplorer(lambda s: None)), {"explorer": "acme.explorer"}),
        (ExplorerPlugin(BadExplorer(update=explode)), {"explorer": "acme.explorer"}),
        (StrategyPlugin(FailingTransfer()), {}),
    ],
)
def test_strict_raises_and_names_the_strategy(
    run_engine: RunEngine, plugin: object, options: dict[str, str]
) -> None:
    from prune_engine.errors import PluginContractError

    with pytest.raises(PluginContractError, match=r"acme\.(explorer|transfer)"):
        run_engine([make_task()], plugins={"acme": plugin}, n_trials=32, strict=True, **options)


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
