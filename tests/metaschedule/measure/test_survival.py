"""A pool and kernels that crash, hang, hog, lie and vandalise: one typed error each, and the next job is fine."""

from __future__ import annotations

import signal

import psutil
import pytest

from prune_engine.measurement import MeasureErrorKind
from prune_engine.metaschedule.measure import BuildJob


@pytest.fixture
def measure(pool, kernels):
    """Measure one job and then a good one, which must always work."""

    def run(job):
        bad, good = sorted(
            pool.measure(kernels.task, [job, kernels.plus("z-good")], None), key=lambda result: result.job_id
        )
        assert good.error is None
        assert good.run_secs
        assert bad.job_id == job.job_id
        return bad

    return run


def error_kind(result):
    return result.error.kind if result.error else None


def processes_running(argument):
    found = []
    for process in psutil.process_iter(["cmdline"]):
        if argument in (process.info["cmdline"] or []):
            found.append(process)
    return found


@pytest.mark.parametrize("name", ["SIGSEGV", "SIGABRT", "SIGBUS", "SIGFPE"])
def test_signal_is_a_crash_with_its_name(measure, kernels, name):
    result = measure(kernels.calling("bad", "raise", int(signal.Signals[name])))
    assert error_kind(result) is MeasureErrorKind.CRASH
    assert name in result.error.message
    assert result.run_secs == ()


def test_exit_is_a_crash(measure, kernels):
    result = measure(kernels.calling("bad", "_exit", 0))
    assert error_kind(result) is MeasureErrorKind.CRASH


def test_hang_is_a_timeout(measure, kernels):
    result = measure(kernels.calling("bad", "pause"))
    assert error_kind(result) is MeasureErrorKind.RUN_TIMEOUT
    assert "4 s" in result.error.message


def test_kernel_that_stops_itself_is_a_timeout(measure, kernels):
    result = measure(kernels.shell("bad", "kill -STOP $PPID"))
    assert error_kind(result) is MeasureErrorKind.RUN_TIMEOUT


def test_buffer_of_100_gib_is_out_of_memory(measure, kernels):
    result = measure(kernels.workspace("bad", 100 << 30))
    assert error_kind(result) is MeasureErrorKind.OUT_OF_MEMORY
    assert "384 MiB" in result.error.message


def test_growing_to_100_gib_is_out_of_memory(measure, kernels):
    result = measure(kernels.growing("bad", 1600, 64 << 20))
    assert error_kind(result) is MeasureErrorKind.OUT_OF_MEMORY


def test_killed_by_the_kernel_counts_as_out_of_memory(measure, kernels):
    # What the out-of-memory killer does, as far as a parent can see it.
    result = measure(kernels.shell("bad", "kill -9 $PPID"))
    assert error_kind(result) is MeasureErrorKind.OUT_OF_MEMORY


def test_wrong_numbers(measure, kernels):
    result = measure(kernels.plus("bad", amount=1.01))
    assert error_kind(result) is MeasureErrorKind.WRONG_RESULT
    assert "argument 1" in result.error.message


def test_overwritten_input_is_a_wrong_result(measure, kernels):
    result = measure(kernels.overwriting_input("bad"))
    assert error_kind(result) is MeasureErrorKind.WRONG_RESULT
    assert "argument 0" in result.error.message


def test_flood_of_output_neither_blocks_nor_fills_memory(measure, kernels, find_server):
    before = find_server().memory_info().rss
    result = measure(kernels.printing("flood", "x" * 1000, 100_000))
    assert result.error is None
    assert find_server().memory_info().rss < before + (50 << 20)


def test_last_words_are_in_the_message(measure, kernels):
    result = measure(kernels.shell("bad", "echo 'the frobnicator is loose' >&2; kill -SEGV $PPID"))
    assert "the frobnicator is loose" in result.error.message


def test_last_words_are_not_lost_behind_a_long_stack(measure, kernels):
    """TVM prints the stack of the thread that got the signal, which may be a hundred calls deep."""
    stack = "echo '!!!!!!! Segfault encountered !!!!!!!'; yes '  File \"x.cc\", line 0, in f()' | head -100"
    result = measure(kernels.shell("bad", f"(echo 'the frobnicator is loose'; {stack}) >&2; kill -ABRT $PPID"))
    assert result.error.message == "killed by SIGABRT: the frobnicator is loose"


@pytest.mark.parametrize("detach", ["", "setsid "])
def test_lingering_child_of_a_kernel_is_killed(measure, kernels, detach, eventually):
    span = "987.25" if detach else "987.5"
    result = measure(kernels.shell("spawner", f"{detach}sleep {span} >/dev/null 2>&1 &"))
    assert result.error is None
    assert eventually(lambda: not processes_running(span))


def test_kernel_may_delete_its_own_folder(measure, kernels):
    assert measure(kernels.shell("vandal", "rm -rf $(readlink /proc/$PPID/cwd)")).error is None


def test_build_that_raises(measure):
    result = measure(BuildJob("bad", "{]"))
    assert error_kind(result) is MeasureErrorKind.BUILD_ERROR


def test_build_that_hangs(make_pool, kernels):
    with make_pool(build_timeout_secs=2.5, memory_limit_bytes=8 << 30) as pool:
        result, _ = sorted(
            pool.measure(kernels.task, [kernels.slow_to_build("a", 8_000), kernels.plus("good")], None),
            key=lambda result: result.job_id,
        )
    assert error_kind(result) is MeasureErrorKind.BUILD_TIMEOUT
    assert result.build_secs < 60


def test_build_far_slower_than_the_others_is_given_up(make_pool, kernels):
    options = {"typical_builds": 2, "min_build_timeout_secs": 2.5, "memory_limit_bytes": 8 << 30}
    with make_pool(build_timeout_secs=300.0, **options) as pool:
        usual = [kernels.plus("first"), kernels.plus("second")]
        assert all(result.error is None for result in pool.measure(kernels.task, usual, None))
        (result,) = pool.measure(kernels.task, [kernels.slow_to_build("slow", 8_000)], None)
    assert error_kind(result) is MeasureErrorKind.BUILD_TIMEOUT
    assert result.build_secs < 60


def test_unopened_task_is_refused(pool, kernels):
    with pytest.raises(ValueError, match="not opened"):
        pool.measure("nobody", [], None)


def test_without_a_reference_nothing_is_trusted(pool, kernels):
    crashed = pool.open_task("crasher", kernels.calling("default", "abort"), kernels.shapes, kernels.dtypes)
    assert error_kind(crashed) is MeasureErrorKind.CRASH
    (result,) = pool.measure("crasher", [kernels.plus("a")], None)
    assert error_kind(result) is MeasureErrorKind.RUN_ERROR
    assert "nothing to check" in result.error.message


def test_jobs_leave_no_files(pool, kernels, measure):
    measure(kernels.calling("bad", "abort"))
    assert list((pool._folder.path / "jobs").iterdir()) == []
