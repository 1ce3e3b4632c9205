"""The parts that need no process: timing decisions, arguments, comparison, load detection, verdicts, linking."""

from __future__ import annotations

import subprocess

import numpy as np
import pytest

from prune_engine.errors import ConfigError
from prune_engine.measurement import MeasureErrorKind
from prune_engine.metaschedule.measure import MeasureSettings, TimingPlan, load
from prune_engine.metaschedule.measure.arguments import make_arguments
from prune_engine.metaschedule.measure.builder import link
from prune_engine.metaschedule.measure.children import JobFailedError
from prune_engine.metaschedule.measure.numerics import compare_arrays, find_difference, save_reference
from prune_engine.metaschedule.measure.runner import pinned_cpus
from prune_engine.metaschedule.measure.timing import look, time_paired, time_repeat, time_staged


class FakeKernel:
    """A clock and a kernel of ``per_call`` seconds, whose first calls take ``cold`` seconds more."""

    def __init__(self, per_call, cold=0.0, noisy=()):
        self.per_call, self.cold, self.now, self.n_calls = per_call, cold, 0.0, 0
        self.noise = list(noisy)

    def time_calls(self, n):
        total = n * self.per_call + (self.cold if not self.n_calls else 0.0)
        self.n_calls += n
        self.now += total
        return total / n

    def start(self):
        pass

    def is_noisy(self):
        return self.noise.pop(0) if self.noise else False

    def run(self, incumbent, plan=None):
        plan = plan or TimingPlan()
        return time_staged(self.time_calls, plan, incumbent, self, lambda: self.now, lambda: None)


class TestStagedTiming:
    @pytest.mark.parametrize(
        ("ratio", "stage", "is_censored"),
        [(3.1, 0, True), (2.9, 1, True), (1.31, 1, True), (1.29, 2, False), (0.5, 2, False)],
    )
    def test_thresholds(self, ratio, stage, is_censored):
        timing = FakeKernel(ratio * 0.02).run(incumbent=0.02)
        assert (timing.stage, timing.is_censored) == (stage, is_censored)

    def test_hopeless_costs_one_call(self):
        kernel = FakeKernel(1.0)
        kernel.run(incumbent=0.01)
        assert kernel.n_calls == 1

    def test_cold_first_call_gets_a_second_chance(self):
        timing = FakeKernel(0.0001, cold=0.002).run(incumbent=0.0001)
        assert (timing.stage, timing.is_censored) == (2, False)

    def test_short_kernels_are_called_often_enough(self):
        timing = FakeKernel(1e-5).run(None)
        kernel = FakeKernel(1e-5)
        kernel.run(None)
        assert len(timing.run_secs) >= 5
        assert kernel.n_calls >= 5 * 1000

    def test_steady_kernel_stops_at_the_minimum(self):
        assert len(FakeKernel(0.02).run(None).run_secs) == TimingPlan().min_repeats

    def test_very_slow_kernel_is_called_once(self):
        kernel = FakeKernel(1.5)
        timing = kernel.run(None)
        assert kernel.n_calls == 1
        assert (timing.stage, timing.is_censored) == (0, False)

    def test_disturbed_timing_is_repeated(self):
        timing = FakeKernel(0.02, noisy=[True, False]).run(None)
        assert not timing.is_noisy

    def test_twice_disturbed_timing_is_flagged(self):
        assert FakeKernel(0.02, noisy=[True, True]).run(None).is_noisy

    @pytest.mark.parametrize(("ratio", "n_repeats"), [(1.06, 3), (1.04, 5), (0.9, 5)])
    def test_only_contenders_have_all_repeats(self, ratio, n_repeats):
        timing = FakeKernel(ratio * 0.002).run(incumbent=0.002)
        assert (len(timing.run_secs), timing.is_censored) == (n_repeats, False)

    def test_slow_kernel_has_three_repeats_and_no_more(self):
        kernel = FakeKernel(0.1)
        assert len(kernel.run(None).run_secs) == 3
        assert kernel.n_calls == 4  # and the cold one

    def test_slow_kernel_that_was_disturbed_is_timed_again(self):
        kernel = FakeKernel(0.1, noisy=[True, False])
        assert not kernel.run(None).is_noisy
        assert kernel.n_calls == 7


class TestPairedTiming:
    @pytest.mark.parametrize(("per_call", "n_repeats"), [(0.001, 8), (0.07, 8), (0.11, 6), (0.3, 3), (5.0, 3)])
    def test_slow_kernels_have_fewer_repeats(self, per_call, n_repeats):
        kernel = FakeKernel(per_call)
        repeat = lambda: time_repeat(kernel.time_calls, TimingPlan(), per_call)  # noqa: E731
        assert len(time_paired(repeat, TimingPlan(), 8)) == n_repeats

    @pytest.mark.parametrize(("per_call", "n_calls"), [(0.04, 2), (0.06, 1)])
    def test_short_kernels_are_warmed_up(self, per_call, n_calls):
        kernel = FakeKernel(per_call)
        time_repeat(kernel.time_calls, TimingPlan(), per_call)
        assert kernel.n_calls == n_calls

    @pytest.mark.parametrize(("per_call", "n_calls"), [(0.2, 1), (0.001, 4)])
    def test_the_first_look_costs_slow_kernels_one_call(self, per_call, n_calls):
        kernel, seen = FakeKernel(per_call), []
        assert look(kernel.time_calls, TimingPlan(), lambda: seen.append(kernel.n_calls)) == per_call
        assert kernel.n_calls == n_calls
        assert seen == [1]


class TestArguments:
    def test_are_deterministic_and_differ_by_seed_and_position(self):
        first, again, other = (
            make_arguments([(8,), (8,)], ["float32"] * 2, seed, is_positive=False) for seed in (1, 1, 2)
        )
        assert np.array_equal(first[0], again[0])
        assert not np.array_equal(first[0], first[1])
        assert not np.array_equal(first[0], other[0])

    @pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int8", "uint8", "int32", "int64", "bool"])
    def test_have_the_dtype_and_shape(self, dtype):
        (array,) = make_arguments([(3, 5)], [dtype], 0, is_positive=True)
        assert (array.dtype.name, array.shape) == (dtype, (3, 5))
        assert array.min() >= 0

    def test_bfloat16(self):
        pytest.importorskip("ml_dtypes")
        (array,) = make_arguments([(64,)], ["bfloat16"], 0, is_positive=False)
        assert array.dtype.name == "bfloat16"
        assert compare_arrays(array, array.copy()) is None

    def test_integers_are_valid_indices_of_the_smallest_axis(self):
        _, indices = make_arguments([(3, 1, 1000), (500,)], ["float32", "int64"], 0, is_positive=False)
        assert set(np.unique(indices)) == {0, 1, 2}

    def test_unknown_dtype(self):
        with pytest.raises((TypeError, ImportError)):
            make_arguments([(3,)], ["complex64"], 0, is_positive=False)


class TestNumerics:
    def test_reordered_sum_is_accepted(self):
        rng = np.random.default_rng(0)
        a, b = rng.random((64, 4096), np.float32) - 0.5, rng.random((4096, 64), np.float32) - 0.5
        permuted = rng.permutation(4096)
        assert compare_arrays(a[:, permuted] @ b[permuted], a @ b) is None

    def test_missing_term_of_a_long_sum_is_seen(self):
        rng = np.random.default_rng(0)
        a, b = 2 * rng.random((64, 4096), np.float32) - 1, 2 * rng.random((4096, 64), np.float32) - 1
        assert compare_arrays(a[:, :-1] @ b[:-1], a @ b) is not None

    def test_integers_are_exact(self):
        assert compare_arrays(np.array([1, 2]), np.array([1, 2])) is None
        assert "1 of 2" in compare_arrays(np.array([1, 3]), np.array([1, 2]))

    def test_nan_must_be_in_the_same_places(self):
        expected = np.array([1.0, np.nan, np.inf], np.float32)
        assert compare_arrays(expected.copy(), expected) is None
        assert compare_arrays(np.array([np.nan, 1.0, np.inf], np.float32), expected) is not None
        assert compare_arrays(np.array([1.0, np.nan, -np.inf], np.float32), expected) is not None
        assert "not finite" in compare_arrays(np.array([np.nan], np.float32), np.array([1.0], np.float32))

    def test_unwritten_output_is_seen(self, tmp_path):
        before = [np.zeros(4, np.float32), np.ones(4, np.float32)]
        after = [before[0], np.full(4, 7, np.float32)]
        save_reference(tmp_path / "t", False, before, after)
        assert find_difference(tmp_path / "t", before, after) is None
        assert "argument 1" in find_difference(tmp_path / "t", before, before)


class TestLoadWatch:
    def watch(self, monkeypatch, first, last, n_threads=2, n_cpus=2):
        samples = [load._Sample(0.0, 0.0, 0.0, 0.0, 0.0), first, last]
        monkeypatch.setattr(load, "_sample", lambda: samples.pop(0))
        watch = load.ProcLoadWatch(n_threads, n_cpus)
        watch.start()
        return watch.is_noisy()

    def sample(self, own=0.0, busy=0.0, stolen=0.0, waited=0.0, wall=1.0):
        return load._Sample(wall, own, busy, stolen, waited)

    @pytest.mark.parametrize(
        ("last", "is_noisy"),
        [
            ({"own": 2.0, "busy": 2.0}, False),
            ({"own": 1.0, "busy": 2.5}, True),
            ({"own": 2.0, "busy": 2.0, "stolen": 0.5}, True),
            ({"own": 2.0, "busy": 2.0, "waited": 0.2}, True),
            ({"own": 2.0, "busy": 2.0, "waited": 0.01}, False),
        ],
        ids=["alone", "others busy", "stolen", "waited", "waited a little"],
    )
    def test_signs(self, monkeypatch, last, is_noisy):
        monkeypatch.setattr(load.os, "cpu_count", lambda: 2)
        assert self.watch(monkeypatch, self.sample(wall=0.0), self.sample(**last)) is is_noisy

    def test_waiting_means_nothing_with_more_threads_than_processors(self, monkeypatch):
        last = self.sample(own=2.0, busy=2.0, waited=1.0)
        assert not self.watch(monkeypatch, self.sample(wall=0.0), last, n_threads=4)

    def test_a_real_busy_process_is_seen(self):
        watch = load.ProcLoadWatch(1, 1)
        watch.start()
        subprocess.run(["sh", "-c", "i=0; while [ $i -lt 400000 ]; do i=$((i+1)); done"], check=True)
        assert watch.is_noisy()


def test_full_disk_while_linking_is_a_build_error(tmp_path):
    source = tmp_path / "k.c"
    source.write_text("int f(void) { return 1; }")
    subprocess.run(["cc", "-fPIC", "-c", source, "-o", tmp_path / "k.o"], check=True)
    with pytest.raises(JobFailedError, match="No space left") as caught:
        link(tmp_path / "k.o", "/dev/full")
    assert caught.value.kind is MeasureErrorKind.BUILD_ERROR


def test_pinned_processors_are_usable_and_distinct():
    cpus = pinned_cpus(2)
    assert len(set(cpus)) == len(cpus) <= 2


@pytest.mark.parametrize("field", ["n_threads", "n_builders", "run_timeout_secs", "memory_limit_bytes"])
def test_settings_must_be_positive(field):
    with pytest.raises(ConfigError, match=field):
        MeasureSettings(**({"target": "{}", "n_threads": 1} | {field: 0}))
