"""Staged timing: losers are recognised by one call or three, only the promising are timed in full.

No process, no TVM and no clock of its own: everything comes in as functions, so the decisions are testable.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from prune_engine.measurement import STOP_RATIOS

#: Repeats of a kernel for which more are not worth the time.
_FEWEST_REPEATS = 3
#: A call that lasts as long fills the caches in the first few percent of it.
_WARM_BY_ITSELF_SECS = 0.05

#: Makes n calls of the kernel and returns the seconds of one call.
TimeCalls = Callable[[int], float]


class LoadWatch(Protocol):
    """Tells whether something else disturbed the processors between two moments."""

    def start(self) -> None:
        """Begin to watch."""

    def is_noisy(self) -> bool:
        """Whether other load ran since ``start``."""


@dataclass(frozen=True, slots=True)
class TimingPlan:
    """The stages' thresholds and costs.

    A kernel stops after its first call above ``hopeless_ratio`` times the incumbent, after three calls
    above ``promising_ratio`` times. A full timing has at least ``min_repeats`` repeats of at least
    ``min_repeat_secs`` each; it goes on until their quartiles lie within ``steady_spread`` of the median,
    ``max_repeats`` are done or ``soft_budget_secs`` are spent. Three repeats are enough of a kernel that spends
    that with them, or is slower than ``contender_ratio`` times the incumbent in all of them, and in a comparison
    of one that spends ``paired_budget_secs``. ``hard_budget_secs`` bounds the repeats of very slow kernels. A
    disturbed full timing of a contender is repeated. The first call of a kernel pays for page faults and the
    start of the thread pool: up to ``cold_call_secs`` above the limit it gets a second chance. A single call is
    measured too long by up to ``call_overhead_secs``, which matters for kernels of microseconds.
    """

    hopeless_ratio: float = STOP_RATIOS[0]
    promising_ratio: float = STOP_RATIOS[1]
    min_repeats: int = 5
    max_repeats: int = 11
    min_call_secs: float = 0.0003
    min_repeat_secs: float = 0.01
    steady_spread: float = 0.02
    soft_budget_secs: float = 0.2
    paired_budget_secs: float = 0.6
    contender_ratio: float = 1.05
    hard_budget_secs: float = 2.0
    cold_call_secs: float = 0.01
    call_overhead_secs: float = 0.00002


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds per call of each repeat, and how far the timing went."""

    run_secs: tuple[float, ...]
    stage: int
    is_censored: bool = False
    is_noisy: bool = False


def time_staged(
    time_calls: TimeCalls,
    plan: TimingPlan,
    incumbent_secs: float | None,
    watch: LoadWatch,
    clock: Callable[[], float],
    after_first_call: Callable[[], None],
) -> Timing:
    """Time a kernel whose first call is still to come; ``after_first_call`` runs right after that."""
    begun = clock()
    watch.start()
    first = time_calls(1)
    after_first_call()
    if incumbent_secs is not None:
        limit_secs = plan.hopeless_ratio * incumbent_secs + plan.call_overhead_secs
        best = _second_chance(time_calls, plan, first, limit_secs)
        if best > limit_secs:
            return Timing((best,), stage=0, is_censored=True, is_noisy=watch.is_noisy())
    if clock() - begun + 3 * first > plan.hard_budget_secs:
        is_loser = incumbent_secs is not None and first > plan.promising_ratio * incumbent_secs
        return Timing((first,), stage=0, is_censored=is_loser, is_noisy=watch.is_noisy())
    three = _three_samples(time_calls, plan, first)
    if incumbent_secs is not None and min(three) > plan.promising_ratio * incumbent_secs:
        return Timing(three, stage=1, is_censored=True, is_noisy=watch.is_noisy())
    contender_below_secs = math.inf if incumbent_secs is None else plan.contender_ratio * incumbent_secs
    return _time_in_full(time_calls, plan, three, contender_below_secs, watch, clock)


def _three_samples(time_calls: TimeCalls, plan: TimingPlan, estimate_secs: float) -> tuple[float, ...]:
    samples: list[float] = []
    for _ in range(3):
        # The cold first call is a poor estimate of a short kernel; each sample gives a better one.
        samples.append(time_calls(_calls_lasting(plan.min_call_secs, min([estimate_secs, *samples]))))
    return tuple(samples)


def _second_chance(time_calls: TimeCalls, plan: TimingPlan, first: float, limit_secs: float) -> float:
    best = first
    for _ in range(2):
        if not limit_secs < best <= limit_secs + max(plan.cold_call_secs, limit_secs / 3):
            break
        best = min(best, time_calls(1))
    return best


def _time_in_full(
    time_calls: TimeCalls,
    plan: TimingPlan,
    three: tuple[float, ...],
    contender_below_secs: float,
    watch: LoadWatch,
    clock: Callable[[], float],
) -> Timing:
    """A disturbed timing is repeated once; if that is disturbed too, the faster of both is kept and flagged.

    A kernel whose fastest repeat is above ``contender_below_secs`` cannot win: it has the fewest repeats, and is
    flagged at once.
    """
    n_calls = _calls_lasting(plan.min_repeat_secs, min(three))
    # Of a slow kernel one call is a repeat, and three are there already.
    so_far = three if n_calls == 1 else ()
    timings = []
    for _ in range(2):
        run_secs = _repeat_until_steady(time_calls, plan, n_calls, so_far, contender_below_secs, clock)
        timings.append(Timing(run_secs, stage=2, is_noisy=watch.is_noisy()))
        if not timings[-1].is_noisy or min(run_secs) > contender_below_secs:
            return timings[-1]
        so_far = ()
        watch.start()
    return min(timings, key=lambda timing: statistics.median(timing.run_secs))


def _repeat_until_steady(
    time_calls: TimeCalls,
    plan: TimingPlan,
    n_calls: int,
    so_far: tuple[float, ...],
    contender_below_secs: float,
    clock: Callable[[], float],
) -> tuple[float, ...]:
    begun = clock() - sum(so_far)
    run_secs = list(so_far)
    while not _is_enough(plan, run_secs, contender_below_secs, clock() - begun):
        run_secs.append(time_calls(n_calls))
    return tuple(run_secs)


def _is_enough(plan: TimingPlan, run_secs: list[float], contender_below_secs: float, spent_secs: float) -> bool:
    n = len(run_secs)
    if n and (n >= plan.max_repeats or spent_secs > plan.hard_budget_secs):
        return True
    # The repeats of a slow kernel are single calls: nothing short disturbs them.
    is_slow = sum(run_secs) > plan.soft_budget_secs
    if n >= _FEWEST_REPEATS and (is_slow or min(run_secs) > contender_below_secs):
        return True
    is_settled = spent_secs > plan.soft_budget_secs or relative_spread(run_secs) <= plan.steady_spread
    return n >= plan.min_repeats and is_settled


def relative_spread(run_secs: list[float]) -> float:
    """Distance of the quartiles over the median: 0 for equal values, or a single one."""
    if len(run_secs) < 2:
        return 0.0
    lower, median, upper = statistics.quantiles(run_secs, n=4, method="inclusive")
    return (upper - lower) / median


def look(time_calls: TimeCalls, plan: TimingPlan, after_first_call: Callable[[], None]) -> float:
    """Seconds per call, roughly: enough to know how many calls a repeat of a comparison needs."""
    first = time_calls(1)
    after_first_call()
    return first if first > plan.min_repeat_secs else min(_three_samples(time_calls, plan, first))


def time_repeat(time_calls: TimeCalls, plan: TimingPlan, estimate_secs: float) -> float:
    """One repeat of a comparison: twice ``min_repeat_secs`` of calls, after one to warm up if they are short."""
    if estimate_secs < _WARM_BY_ITSELF_SECS:
        time_calls(1)
    return time_calls(_calls_lasting(2 * plan.min_repeat_secs, estimate_secs))


def time_paired(repeat: Callable[[], float], plan: TimingPlan, n_repeats: int) -> tuple[float, ...]:
    """The repeats of one kernel of a comparison: ``n_repeats``, or as many as its budget has room for."""
    run_secs: list[float] = []
    while len(run_secs) < n_repeats:
        run_secs.append(repeat())
        # What the calls took, not the waiting for the others.
        if len(run_secs) >= _FEWEST_REPEATS and sum(run_secs) > plan.paired_budget_secs:
            break
    return tuple(run_secs)


def _calls_lasting(secs: float, per_call_secs: float) -> int:
    return max(1, math.ceil(secs / max(per_call_secs, 1e-7)))
