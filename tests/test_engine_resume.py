"""Earlier runs on the same store: nothing is measured twice, nothing found is forgotten."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from kits.engine import RunEngine, small_space, stored_ids

from prune_engine.measurement import MeasuredCandidate, MeasureErrorKind
from prune_engine.space import DesignSpace, Sketch
from prune_engine.store.base import Store
from prune_engine.testing import FakeWorkbench, make_batch, make_space, make_task
from prune_engine.verdicts import Stage


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
    assert len(both) <= 2, "but for what was left of the batch in flight"
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
        run = run_engine(tasks, FakeWorkbench(default_ratio=9), n_trials=n_trials)
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
