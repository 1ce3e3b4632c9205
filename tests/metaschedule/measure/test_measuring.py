"""What a pool promises about order, laziness, stages, threads and quiet."""

from __future__ import annotations

import itertools
import os
import time
from pathlib import Path

import pytest

from prune_engine.measurement import MeasureErrorKind
from prune_engine.metaschedule.measure import ArtifactJob, BuildJob
from prune_engine.metaschedule.measure.builder import build
from prune_engine.metaschedule.measure.conductor import Conductor, Work
from prune_engine.metaschedule.measure.protocol import Order, RunMode


def test_results_are_complete(pool, kernels):
    (result,) = pool.measure(kernels.task, [kernels.plus("a")], None)
    assert result.error is None
    assert result.stage == 2
    assert not result.is_censored
    assert len(result.run_secs) >= 5
    assert 0 < result.latency_secs < 1
    assert 0 < result.build_secs < 60
    assert result.load_average >= 0


def test_jobs_are_consumed_as_needed(pool, kernels):
    drawn = []

    def jobs():
        for i in range(12):
            drawn.append(i)
            yield kernels.plus(str(i))

    results = pool.measure(kernels.task, jobs(), None)
    next(results)
    assert len(drawn) < 9
    assert len(list(results)) == 11


def test_abandoned_iterator_frees_the_pool(pool, kernels):
    results = pool.measure(kernels.task, [kernels.plus(str(i)) for i in range(6)], None)
    next(results)
    with pytest.raises(RuntimeError, match="one thing at a time"):
        list(pool.measure(kernels.task, [kernels.plus("x")], None))
    results.close()
    assert [r.job_id for r in pool.measure(kernels.task, [kernels.plus("x")], None)] == ["x"]


def test_closing_the_iterator_kills_what_is_under_way(make_pool, kernels):
    # One builder, so that the plain kernel is first in the queue for the machine.
    with make_pool(run_timeout_secs=60.0, n_builders=1) as pool:
        hanging = kernels.calling("hanging", "pause")
        results = pool.measure(kernels.task, [kernels.plus("a"), hanging], None)
        next(results)
        results.close()
        assert len(list(pool.measure(kernels.task, [kernels.plus("x")], None))) == 1


def test_failing_source_of_jobs_raises_and_frees_the_pool(pool, kernels):
    def jobs():
        yield kernels.plus("a")
        raise KeyError("source")

    with pytest.raises(KeyError, match="source"):
        list(pool.measure(kernels.task, jobs(), None))
    assert len(list(pool.measure(kernels.task, [kernels.plus("x")], None))) == 1


def test_same_id_twice_is_refused(pool, kernels):
    with pytest.raises(ValueError, match="twin"):
        list(pool.measure(kernels.task, [kernels.plus("twin"), kernels.plus("twin")], None))


@pytest.mark.parametrize(
    ("kernel_ms", "incumbent_secs", "stage", "is_censored"),
    [(400, 0.001, 0, True), (100, 0.06, 1, True), (50, 10.0, 2, False)],
    ids=["hopeless after one call", "not promising after three", "promising"],
)
def test_stages(pool, kernels, kernel_ms, incumbent_secs, stage, is_censored):
    job = kernels.calling("sleeper", "usleep", kernel_ms * 1000)
    (result,) = pool.measure(kernels.task, [job], incumbent_secs)
    assert (result.stage, result.is_censored) == (stage, is_censored)
    assert result.latency_secs > 0.9 * kernel_ms / 1000


def test_latencies_may_be_held_against_the_machine_s_pace(make_pool, kernels):
    with make_pool(hold_against_pace=True) as pool:
        job = kernels.calling("sleeper", "usleep", 20_000)
        (held,) = pool.measure(kernels.task, [job], None)
    assert held.error is None
    assert 0.02 / 3 < held.latency_secs < 0.02 * 4


def test_incumbent_falls_during_a_batch(pool, kernels):
    fast, slow = kernels.plus("fast"), kernels.calling("slow", "usleep", 200_000)
    # More than can be in flight, so that the last orders are made after the first result.
    jobs = [fast, *[kernels.plus(f"filler-{i}") for i in range(6)], slow]
    results = {result.job_id: result for result in pool.measure(kernels.task, jobs, None)}
    assert results["slow"].is_censored
    assert results["slow"].stage == 0


@pytest.mark.parametrize("n_threads", [1, 2])
def test_thread_count_reaches_the_kernel(make_pool, kernels, tmp_path, n_threads):
    with make_pool(n_threads=n_threads) as pool:
        job = kernels.shell("counter", f"ls /proc/$PPID/task | wc -l > {tmp_path}/count")
        (result,) = pool.measure(kernels.task, [job], None)
    assert result.error is None
    assert int((tmp_path / "count").read_text()) == n_threads


def test_kernel_runs_on_the_pinned_processors(make_pool, kernels, tmp_path):
    command = f"grep Cpus_allowed_list /proc/$PPID/status > {tmp_path}/cpus"
    with make_pool(n_threads=1) as pool:
        list(pool.measure(kernels.task, [kernels.shell("a", command)], None))
    assert (tmp_path / "cpus").read_text().split()[1].isdigit()  # one processor, not a range


def test_flushing_the_cache_works(make_pool, kernels):
    with make_pool(flush_cache=True) as pool:
        (result,) = pool.measure(kernels.task, [kernels.plus("a")], None)
    assert result.error is None


def test_everything_else_is_stopped_while_a_kernel_is_timed(pool, kernels, tmp_path):
    # The kernel itself writes down who is doing what while it is timed.
    job = kernels.shell("observer", f"cat /proc/[0-9]*/stat >> {tmp_path}/$PPID 2>/dev/null")
    builds = [kernels.slow_to_build(f"slow-{i}", 1200) for i in range(3)]
    results = list(pool.measure(kernels.task, [job, *builds], None))
    assert [result.error for result in results if result.job_id == "observer"] == [None]
    (file,) = tmp_path.iterdir()
    seen = [_pid_state_parent(line) for line in file.read_text().splitlines()]
    (server_pid,) = {parent for pid, _, parent in seen if pid == int(file.name)}
    others = [state for pid, state, parent in seen if parent == server_pid and pid != int(file.name)]
    assert others, "no build was under way while the kernel was timed: the test shows nothing"
    assert set(others) == {"T"}
    assert {state for pid, state, _ in seen if pid == server_pid} <= {"S"}
    assert {state for pid, state, _ in seen if pid == os.getpid()} == {"S"}


def test_no_kernel_is_timed_while_the_pool_s_process_works(pool, kernels, tmp_path):
    def jobs():
        yield kernels.shell("observer", f"cat /proc/{os.getpid()}/stat >> {tmp_path}/seen")
        # Long enough for the observer to be built and to want the machine, were it given it.
        give_up_at = time.monotonic() + 1.5
        while time.monotonic() < give_up_at:
            pass
        assert not (tmp_path / "seen").exists()

    (result,) = pool.measure(kernels.task, jobs(), None)
    assert result.error is None
    states = [_pid_state_parent(line)[1] for line in (tmp_path / "seen").read_text().splitlines()]
    # On a busy machine the first calls may come between the pool's last word and its going to sleep.
    assert len(states) > 3
    assert states.count("S") >= 0.75 * len(states), states


def _pid_state_parent(line):
    head, _, tail = line.rpartition(")")
    state, parent = tail.split()[:2]
    return int(head.split()[0]), state, int(parent)


def _paired_work(name, folder):
    order = Order(1, BuildJob(name, ""), RunMode.PAIRED, str(folder), (), (), 1.0, 1.0)
    return Work(order, folder, is_built=True)


class TestCompare:
    def test_repeats_are_interleaved_and_take_turns_in_going_first(self, pool, kernels, tmp_path):
        names = ["a", "b", "c"]
        jobs = [kernels.shell(name, f"echo {name} >> {tmp_path}/log") for name in names]
        results = pool.compare(kernels.task, jobs, n_repeats=4)
        assert [result.job_id for result in results] == names
        assert [len(result.run_secs) for result in results] == [4, 4, 4]
        blocks = [name for name, _ in itertools.groupby((tmp_path / "log").read_text().split())]
        # Five rounds (a first look, then four repeats). Two blocks may merge where a round's last goes first.
        rounds = [blocks[i : i + 3] for i in range(0, 15, 3)]
        assert all(sorted(one) == names for one in rounds), blocks
        assert len({one[0] for one in rounds}) == 3

    def test_a_round_starts_when_all_are_ready(self, tmp_path):
        works = [_paired_work(name, tmp_path) for name in "abc"]
        conductor = Conductor(None, None, tmp_path, None, print)
        conductor._alive += works
        works[0].wants_window = works[1].wants_window = True
        assert conductor._next_for_window() is None
        works[2].wants_window = True
        assert conductor._next_for_window() is works[0]
        works[0].n_windows = 1
        assert conductor._next_for_window() is works[1]

    def test_a_crash_costs_only_its_kernel(self, pool, kernels):
        jobs = [kernels.plus("a"), kernels.calling("crash", "abort"), kernels.plus("wrong", 3.0), kernels.plus("b")]
        results = pool.compare(kernels.task, jobs, n_repeats=2)
        assert [result.error is None for result in results] == [True, False, False, True]

    def test_what_was_timed_in_full_is_not_built_again(self, make_pool, kernels):
        with make_pool() as pool:
            list(pool.measure(kernels.task, [kernels.plus("known")], None))
            (kept,) = (pool._folder.path / "tasks").rglob("*.so")
            kept.write_text("no library any more")
            known, other = pool.compare(kernels.task, [kernels.plus("again"), kernels.shell("other", "true")])
        assert known.error is not None  # the kept library was loaded, not a new one
        assert other.error is None

    def test_nothing_to_compare(self, pool, kernels):
        assert pool.compare(kernels.task, []) == []


def test_wrong_shapes_are_refused_by_the_default_kernel(pool, kernels):
    result = pool.open_task("misdescribed", kernels.plus("default"), ((16,), (8,)), kernels.dtypes)
    assert result.error.kind is MeasureErrorKind.RUN_ERROR
    assert "shape" in result.error.message


def test_artifact_that_is_built_already(pool, kernels, tmp_path):
    from prune_engine.metaschedule._compat import import_tvm

    build(kernels.plus("a"), import_tvm().target.Target("llvm"), tmp_path, checks_arguments=True)
    library: Path = tmp_path / "kernel.so"
    (result,) = pool.measure(kernels.task, [ArtifactJob("a", str(library))], None)
    assert result.error is None
    assert library.exists()
