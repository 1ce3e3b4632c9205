"""Latencies held against the machine's pace."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain, repeat

import pytest

from prune_engine.metaschedule.measure.pace import Pace

#: What the fixed work takes at the start, and how many probes that is found by.
START_SECS, N_FIRST = 1e-4, 63


def pace(*later: float) -> Pace:
    """A pace whose fixed work takes 100 us at the start, then the seconds given, the last for ever."""
    probes: Iterator[float] = chain(repeat(START_SECS, N_FIRST), later, repeat(later[-1] if later else START_SECS))
    return Pace(lambda: next(probes))


def kernel(secs: float) -> Callable[[int], float]:
    return lambda n_calls: secs


def test_a_steady_machine_changes_nothing() -> None:
    assert pace().paced(kernel(2e-3))(1) == pytest.approx(2e-3)


@pytest.mark.parametrize("ratio", [0.7, 1.5, 2.0])
def test_a_kernel_is_slowed_almost_as_the_fixed_work_is(ratio: float) -> None:
    held = pace(ratio * START_SECS).paced(kernel(ratio * 2e-3))(1)
    assert abs(held / 2e-3 - 1) < 0.12
    assert abs(held / 2e-3 - 1) < abs(ratio - 1) / 2


def test_one_probe_that_was_interrupted_does_not_count() -> None:
    slow = pace(START_SECS, 50 * START_SECS, START_SECS)
    timed = slow.paced(kernel(2e-3))
    timed(1)
    assert timed(1) == pytest.approx(2e-3)


@pytest.mark.parametrize("ratio", [1e-3, 1e3])
def test_what_is_no_matter_of_pace_is_bounded(ratio: float) -> None:
    assert 1 / 3 <= pace(ratio * START_SECS).paced(kernel(1.0))(1) <= 3


def test_the_newest_probes_count() -> None:
    machine = pace(*[START_SECS] * 40, 2 * START_SECS)
    timed = machine.paced(kernel(2e-3))
    for _ in range(20):
        assert timed(1) == pytest.approx(2e-3)
    for _ in range(13):
        held = timed(1)
    assert held < 1.2e-3


def test_the_fixed_work_takes_time() -> None:
    machine = Pace()
    machine.probe()
    assert 1e-6 < machine.first_secs < 0.1
    assert 1 / 3 <= machine.slowdown <= 3
