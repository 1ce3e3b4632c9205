from __future__ import annotations

import pytest

from prune_engine.candidates import Candidate
from prune_engine.loop.scheduler import GradientScheduler, gradient_secs_per_trial
from prune_engine.loop.task_state import TaskState
from prune_engine.measurement import MeasuredCandidate, MeasureErrorKind
from prune_engine.testing import make_measurement, make_space, make_task


def state_of(
    name: str,
    *,
    weight: int = 1,
    default_secs: float | None = 1e-3,
    latencies: tuple[float, ...] = (),
    n_failed: int = 0,
    shape: tuple[int, int, int] = (64, 48, 32),
) -> TaskState:
    task = make_task(name, weight=weight, shape=shape)
    state = TaskState(task, space=make_space(task))
    if default_secs is not None:
        state.add(MeasuredCandidate(None, make_measurement("default", default_secs)))
    for i, secs in enumerate(latencies):
        candidate = Candidate(f"{name}{i}", 0, ())
        state.add(MeasuredCandidate(candidate, make_measurement(candidate.candidate_id, secs)))
    for i in range(n_failed):
        candidate = Candidate(f"{name}f{i}", 0, ())
        failure = make_measurement(candidate.candidate_id, error=MeasureErrorKind.BUILD_ERROR)
        state.add(MeasuredCandidate(candidate, failure))
    return state


def chosen(*states: TaskState) -> str:
    state = GradientScheduler().next_task(states)
    assert state is not None
    return state.task.name


def test_nothing_open_nothing_chosen() -> None:
    done, spaceless = state_of("done"), state_of("spaceless")
    done.stop_reason, spaceless.space = "plateau", None
    assert GradientScheduler().next_task([]) is None
    assert GradientScheduler().next_task([done, spaceless]) is None


def test_a_task_without_trials_goes_before_any_second_batch() -> None:
    tuned = state_of("tuned", weight=1000, latencies=(9e-4,) * 16)
    assert chosen(tuned, state_of("fresh", default_secs=1e-6)) == "fresh"


def test_the_most_expensive_fresh_task_is_first() -> None:
    assert chosen(state_of("a", default_secs=1e-3, weight=2), state_of("b", default_secs=5e-4, weight=5)) == "b"
    unknown = state_of("big", default_secs=None, shape=(512, 512, 512))
    assert chosen(unknown, state_of("small", default_secs=None)) == "big"


@pytest.mark.parametrize("better", [{"weight": 3}, {"default_secs": 3e-3, "latencies": (2.7e-3,) * 16}])
def test_more_weight_or_latency_is_tuned_first(better: dict[str, object]) -> None:
    usual: dict[str, object] = {"weight": 1, "default_secs": 1e-3, "latencies": (9e-4,) * 16}
    assert chosen(state_of("usual", **usual), state_of("better", **{**usual, **better})) == "better"  # type: ignore[arg-type]


def test_a_task_that_still_gains_is_tuned_before_one_that_stands_still() -> None:
    gaining = state_of("gaining", default_secs=4e-3, latencies=tuple(4e-3 - 1.9e-4 * i for i in range(16)))
    standing = state_of("standing", default_secs=1.15e-3, latencies=(1.15e-3,) * 16)
    assert gaining.best_secs == pytest.approx(standing.best_secs)
    assert chosen(standing, gaining) == "gaining"


def test_trials_without_gain_lower_the_priority() -> None:
    few, many = state_of("few", latencies=(9e-4,) * 16), state_of("many", latencies=(9e-4,) * 64)
    assert chosen(many, few) == "few"


def test_no_task_starves() -> None:
    """Twenty batches for a cheap and an expensive task, neither of which gains anything."""
    cheap, dear = state_of("cheap", latencies=(9e-4,) * 16), state_of("dear", weight=8, latencies=(9e-4,) * 16)
    count = {"cheap": 0, "dear": 0}
    for batch in range(20):
        state = GradientScheduler().next_task([cheap, dear])
        assert state is not None
        count[state.task.name] += 1
        for i in range(16):
            candidate = Candidate(f"{batch}.{i}", 0, ())
            state.add(MeasuredCandidate(candidate, make_measurement(candidate.candidate_id, 9e-4)))
    assert 0 < count["cheap"] < count["dear"]


def test_a_gradient_is_never_negative() -> None:
    states = [
        state_of("plain"),
        state_of("failing", default_secs=None, n_failed=40),
        state_of("worse", latencies=(5e-3,) * 40),
        state_of("better", latencies=(5e-4, 1e-3)),
    ]
    assert all(gradient_secs_per_trial(s) >= 0 for s in states)


def test_a_task_that_only_fails_falls_behind() -> None:
    failing = state_of("failing", default_secs=None, n_failed=64)
    alive = state_of("alive", default_secs=None, latencies=(2e-4,) * 16)
    assert chosen(failing, alive) == "alive"
