"""Judging what was found: times, statuses, and what a regression is."""

from __future__ import annotations

import pytest

from prune_engine.provenance.verification import (
    Check,
    CheckStatus,
    KernelVerification,
    Times,
    Verification,
    judge_times,
    paired_times,
    slowdown_of,
    worst,
)

OLD = Times(best_secs=1.0, default_secs=4.0)


@pytest.mark.parametrize(
    ("new", "status"),
    [
        pytest.param(Times(1.0, 4.0), CheckStatus.PASSED, id="as recorded"),
        pytest.param(Times(1.1, 4.0), CheckStatus.PASSED, id="at the limit"),
        pytest.param(Times(1.12, 4.0), CheckStatus.FAILED, id="past the limit"),
        pytest.param(Times(2.0, 8.0), CheckStatus.PASSED, id="a machine half as fast"),
        pytest.param(Times(2.0, 7.0), CheckStatus.FAILED, id="half as fast, and the winner lost more"),
        pytest.param(Times(1.0, 2.0), CheckStatus.PASSED, id="a better compiler of untuned kernels"),
        pytest.param(Times(1.0, 0.9), CheckStatus.WARNING, id="the untuned kernel is faster"),
        pytest.param(Times(0.5, 4.0), CheckStatus.PASSED, id="faster"),
    ],
)
def test_a_kernel_is_slower_if_its_time_and_its_gain_say_so(new: Times, status: CheckStatus) -> None:
    assert judge_times(OLD, new, 1.1).status is status


def test_time_and_gain_are_both_told() -> None:
    told = judge_times(OLD, Times(2.0, 4.0), 1.1)
    assert told.message == "2.00x slower: 1000 ms -> 2000 ms, gain over untuned 4.00x -> 2.00x"


def test_without_a_recorded_gain_the_time_decides() -> None:
    assert slowdown_of(Times(1.0, None), Times(2.0, 8.0)) == 2.0
    assert slowdown_of(Times(None, 4.0), Times(2.0, 8.0)) is None
    assert judge_times(Times(None, None), Times(2.0, 8.0), 1.1).status is CheckStatus.SKIPPED


def test_repeats_come_to_their_medians() -> None:
    assert paired_times([1.0, 9.0, 2.0], [4.0, 5.0, 60.0]) == Times(2.0, 5.0)


def check(status: CheckStatus) -> Check:
    return Check("rules", status, "why")


def test_the_worst_check_counts() -> None:
    assert worst([]) is CheckStatus.PASSED
    assert worst([check(CheckStatus.SKIPPED), check(CheckStatus.PASSED)]) is CheckStatus.SKIPPED
    assert worst([check(CheckStatus.FAILED), check(CheckStatus.WARNING)]) is CheckStatus.FAILED


@pytest.mark.parametrize(
    ("status", "plain", "strict"),
    [
        (CheckStatus.PASSED, False, False),
        (CheckStatus.SKIPPED, False, False),
        (CheckStatus.WARNING, False, True),
        (CheckStatus.FAILED, True, True),
    ],
)
@pytest.mark.parametrize("place", ["kernel", "artefact"])
def test_what_is_a_regression(status: CheckStatus, plain: bool, strict: bool, place: str) -> None:
    checks = (check(CheckStatus.PASSED), check(status))
    kernel = KernelVerification("k", "id", 1, None, OLD, None, None, checks if place == "kernel" else ())
    artefact = checks if place == "artefact" else ()
    made = Verification("out", artefact, (kernel,), (None, "hash"), (), (None, "cpu"), (None, "host"))
    assert (made.is_regression(), made.is_regression(strict=True)) == (plain, strict)
    assert made.as_json()["status"] == status.value
