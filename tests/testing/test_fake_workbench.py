"""The workbench that is a formula: deterministic, and as rich in failures as the real one."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from prune_engine.candidates import Candidate
from prune_engine.errors import MeasureServerError, SpaceError
from prune_engine.measurement import (
    DEFAULT_CANDIDATE,
    MeasuredCandidate,
    MeasureErrorKind,
    Measurement,
    Workbench,
)
from prune_engine.testing import FakeWorkbench, make_batch, make_space, make_task

TASK = make_task()
SPACE = make_space(TASK)
BATCH = make_batch(60, space=SPACE, sketch=1)
CANDIDATES = [BATCH.candidate(i) for i in range(len(BATCH))]
FLOOR_SECS = TASK.flop_count / 1e9


def measure(bench: FakeWorkbench, incumbent_secs: float | None = None) -> list[Measurement]:
    return [m.measurement for m in bench.measure(SPACE, CANDIDATES, incumbent_secs)]


def test_is_a_workbench() -> None:
    assert isinstance(FakeWorkbench(), Workbench)


class TestCost:
    def test_measures_the_true_latency(self) -> None:
        bench = FakeWorkbench()
        expected = bench.true_latency_secs(BATCH)
        assert [m.latency_secs for m in measure(bench)] == pytest.approx(expected)
        assert (expected >= FLOOR_SECS).all()

    def test_can_be_searched(self) -> None:
        """Most schedules lose against the default, some win, and neighbours in one decision differ."""
        bench = FakeWorkbench()
        everything = bench.true_latency_secs(make_batch(3000, space=SPACE))
        winners = (everything < bench.default_latency_secs(TASK)).mean()
        assert 0.02 < winners < 0.5
        assert len(np.unique(everything)) > 100

    def test_default_is_measured_in_full(self) -> None:
        measured = FakeWorkbench(default_ratio=7).measure_default(TASK)
        assert measured.candidate is None
        assert measured.measurement.candidate_id == DEFAULT_CANDIDATE
        assert measured.measurement.latency_secs == pytest.approx(7 * FLOOR_SECS)
        assert not measured.measurement.is_censored


class TestStages:
    def test_losers_are_censored(self) -> None:
        bench = FakeWorkbench()
        incumbent_secs = 3 * FLOOR_SECS
        seen = Counter()
        for measured in measure(bench, incumbent_secs):
            ratio = (measured.latency_secs or 0) / incumbent_secs
            expected = 0 if ratio > 3 else 1 if ratio > 1.3 else 2
            assert (measured.stage, len(measured.run_secs)) == (expected, (1, 3, 5)[expected])
            assert measured.is_censored == (expected < 2)
            seen[expected] += 1
        assert min(seen[1], seen[2]) > 0

    def test_without_incumbent_nothing_is_censored(self) -> None:
        assert not any(m.is_censored for m in measure(FakeWorkbench()))


class TestNoise:
    def test_same_seed_same_noise(self) -> None:
        first, second = (measure(FakeWorkbench(noise=0.1, seed=4)) for _ in range(2))
        assert [m.run_secs for m in first] == [m.run_secs for m in second]
        assert [m.run_secs for m in measure(FakeWorkbench(noise=0.1, seed=5))] != [m.run_secs for m in first]

    def test_noise_only_slows_down(self) -> None:
        bench = FakeWorkbench(noise=0.1)
        for measured, truth in zip(measure(bench), bench.true_latency_secs(BATCH), strict=True):
            assert len(set(measured.run_secs)) > 1
            assert min(measured.run_secs) >= truth


class TestFailures:
    def test_shares_by_kind_fixed_by_seed(self) -> None:
        shares = {MeasureErrorKind.CRASH: 0.3, MeasureErrorKind.BUILD_TIMEOUT: 0.2}
        kinds = [m.error and m.error.kind for m in measure(FakeWorkbench(failures=shares))]
        census = Counter(kinds)
        assert 8 <= census[MeasureErrorKind.CRASH] <= 28
        assert 4 <= census[MeasureErrorKind.BUILD_TIMEOUT] <= 20
        assert kinds == [m.error and m.error.kind for m in measure(FakeWorkbench(failures=shares))]

    def test_everything_may_fail(self) -> None:
        bench = FakeWorkbench(failures={MeasureErrorKind.BUILD_ERROR: 1.0})
        assert all(m.error and not m.run_secs for m in measure(bench))
        assert bench.measure_default(TASK).measurement.error is None, "the default is planted by name"

    @pytest.mark.parametrize("name", [DEFAULT_CANDIDATE, f"{TASK.task_id}/{DEFAULT_CANDIDATE}"])
    def test_planted_default(self, name: str) -> None:
        bench = FakeWorkbench(planted={name: MeasureErrorKind.WRONG_RESULT})
        error = bench.measure_default(TASK).measurement.error
        assert error is not None
        assert error.kind is MeasureErrorKind.WRONG_RESULT
        other = bench.measure_default(make_task("other")).measurement.error
        assert (other is None) == ("/" in name)

    def test_planted_candidate(self) -> None:
        bench = FakeWorkbench(planted={CANDIDATES[3].candidate_id: MeasureErrorKind.OUT_OF_MEMORY})
        failed = [m.candidate_id for m in measure(bench) if m.error]
        assert failed == [CANDIDATES[3].candidate_id]

    def test_no_space(self) -> None:
        bench = FakeWorkbench(spaces={TASK.task_id: None})
        with pytest.raises(SpaceError):
            bench.design_space(TASK)
        assert bench.design_space(make_task("other")).has_choices


def test_repaired_candidate_has_the_identity_of_what_ran() -> None:
    asked, ran = CANDIDATES[0], CANDIDATES[1]
    bench = FakeWorkbench(repaired={asked.candidate_id: ran})
    (measured,) = bench.measure(SPACE, [asked], None)
    assert measured.candidate == ran
    assert measured.measurement.candidate_id == ran.candidate_id


def test_comparison_holds_default_failures_and_repeats() -> None:
    bench = FakeWorkbench(planted={CANDIDATES[1].candidate_id: MeasureErrorKind.CRASH}, noise=0.05)
    comparison = bench.compare(SPACE, [None, *CANDIDATES[:2]])
    assert comparison.candidate_ids == (DEFAULT_CANDIDATE, *(c.candidate_id for c in CANDIDATES[:2]))
    assert [len(secs) for secs in comparison.run_secs] == [9, 9, 0]
    assert [error is None for error in comparison.errors] == [True, True, False]


def test_counts_what_was_asked() -> None:
    bench = FakeWorkbench()
    measure(bench)
    bench.measure_default(TASK)
    measure(bench)
    assert bench.asked[TASK.task_id, CANDIDATES[0].candidate_id] == 2
    assert bench.asked[TASK.task_id, DEFAULT_CANDIDATE] == 1


def test_on_measure_may_interrupt_half_way() -> None:
    def interrupt(candidate: Candidate | None) -> None:
        if candidate == CANDIDATES[2]:
            raise KeyboardInterrupt

    bench, done = FakeWorkbench(on_measure=interrupt), list[MeasuredCandidate]()
    with pytest.raises(KeyboardInterrupt):
        done.extend(bench.measure(SPACE, CANDIDATES, None))
    assert sum(bench.asked.values()) == 2


def test_closed_bench_refuses_work() -> None:
    bench = FakeWorkbench()
    bench.close()
    assert bench.is_closed
    for work in (bench.measure_default, bench.design_space):
        with pytest.raises(MeasureServerError):
            work(TASK)
    with pytest.raises(MeasureServerError):
        next(bench.measure(SPACE, CANDIDATES, None))
