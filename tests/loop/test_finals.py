"""What ships: never something slower than the default, whatever the noise."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from prune_engine.candidates import Candidate
from prune_engine.config import EngineConfig
from prune_engine.loop.finals import Finals, is_faster
from prune_engine.loop.task_state import TaskState
from prune_engine.measurement import Comparison, MeasuredCandidate, MeasureError, MeasureErrorKind
from prune_engine.store.base import Store
from prune_engine.testing import FakeWorkbench, make_batch, make_measurement, make_space, make_task

CRASH = MeasureErrorKind.CRASH


class Stopwatch(FakeWorkbench):
    """Compares by the latencies given: by position in the field, the default first."""

    def __init__(self, *run_secs: Sequence[float] | MeasureErrorKind) -> None:
        super().__init__()
        self._run_secs = run_secs
        self.n_compared = 0

    def compare(self, space: object, candidates: Sequence[Candidate | None]) -> Comparison:
        self.n_compared += 1
        ids = tuple(c.candidate_id if c else "default" for c in candidates)
        given = self._run_secs[: len(ids)]
        secs = tuple(() if isinstance(g, MeasureErrorKind) else tuple(g) for g in given)
        errors = tuple(MeasureError(g, "planted") if isinstance(g, MeasureErrorKind) else None for g in given)
        return Comparison(ids, secs, errors)


def state_of(*latencies: float, default_secs: float | None = 1e-3, is_censored: bool = False) -> TaskState:
    task = make_task()
    state = TaskState(task, space=make_space(task))
    if default_secs is not None:
        state.add(MeasuredCandidate(None, make_measurement("default", default_secs)))
    batch = make_batch(max(len(latencies), 1), space=state.space)
    for i, secs in enumerate(latencies):
        candidate = batch.candidate(i)
        measurement = make_measurement(candidate.candidate_id, secs, is_censored=is_censored)
        state.add(MeasuredCandidate(candidate, measurement, trace_json=f"trace {i}"))
    return state


@pytest.fixture
def run_id(store: Store) -> str:
    run_id = store.start_run({})
    store.add_tasks(run_id, [make_task()])
    return run_id


def decide(
    state: TaskState, workbench: FakeWorkbench, store: Store, run_id: str, *, measure: bool = True, n: int = 3
) -> str:
    Finals(workbench, store, EngineConfig.of(n_finalists=n), run_id).decide(state, measure=measure)
    assert state.is_decided
    return state.winner.trace_json or "" if state.winner else "default"


def test_the_fastest_in_the_comparison_ships(store: Store, run_id: str) -> None:
    state = state_of(5e-4, 5.1e-4)
    assert decide(state, Stopwatch([1e-3] * 8, [6e-4] * 8, [4e-4] * 8), store, run_id) == "trace 1"
    summary = state.summary()
    assert (summary.default_secs, summary.best_secs) == (1e-3, 4e-4)
    assert summary.best_candidate_id != "default"


@pytest.mark.parametrize("best_secs", [1e-3, 9.95e-4, 1.2e-3])
def test_a_lucky_measurement_does_not_ship(store: Store, run_id: str, best_secs: float) -> None:
    """Half the default's latency while tuning, no faster than it side by side."""
    state = state_of(5e-4)
    assert decide(state, Stopwatch([1e-3] * 8, [best_secs] * 8), store, run_id) == "default"
    assert state.summary().best_secs == 1e-3


def test_a_median_that_wins_by_luck_does_not_ship(store: Store, run_id: str) -> None:
    """Faster by the median, in five of eight repeats only: a coin does that one time in three."""
    secs = [9e-4] * 5 + [3e-3] * 3
    assert np.median(secs) < 1e-3 * 0.99
    assert decide(state_of(9e-4), Stopwatch([1e-3] * 8, secs), store, run_id) == "default"


def test_equals_and_slower_ones_ship_rarely() -> None:
    """Heavy noise, 400 finals: one that is slower must not ship, an equal one by chance only."""
    rng = np.random.default_rng(0)

    def share(ratio: float) -> float:
        return float(
            np.mean(
                [
                    is_faster(ratio * rng.lognormal(0, 0.3, 8), rng.lognormal(0, 0.3, 8).tolist())  # type: ignore[arg-type]
                    for _ in range(400)
                ]
            )
        )

    assert share(1.0) <= 0.06
    assert share(1.1) <= 0.03
    assert share(0.5) >= 0.9


def test_a_disturbance_that_hits_both_does_not_hide_a_gain() -> None:
    disturbed = [1.0, 1.0, 5.0, 5.0, 1.0, 9.0, 1.0, 1.0]
    assert is_faster([0.9 * s for s in disturbed], disturbed)


@pytest.mark.parametrize(("secs", "default"), [([0.5], [1.0]), ([0.5, 0.5], [1.0, 1.0])])
def test_few_repeats_must_all_win(secs: list[float], default: list[float]) -> None:
    assert is_faster(secs, default)
    assert not is_faster([*secs, 1.1], [*default, 1.0])


def test_the_runner_up_ships_if_the_best_is_no_sure_gain(store: Store, run_id: str) -> None:
    lucky = [5e-4] * 5 + [3e-3] * 3
    assert decide(state_of(5e-4, 5.1e-4), Stopwatch([1e-3] * 8, lucky, [8e-4] * 8), store, run_id) == "trace 1"


def test_only_close_runners_up_are_finalists(store: Store, run_id: str) -> None:
    state = state_of(5e-4, 5.5e-4, 5.6e-4, 5.7e-4, 9e-4)
    workbench = Stopwatch(*[[1e-3] * 8] * 6)
    decide(state, workbench, store, run_id, n=3)
    compared = store.last_comparison(state.task.task_id, "fake-cpu", 2)
    assert compared is not None
    assert len(compared.candidate_ids) == 4
    state = state_of(5e-4, 9e-4)
    decide(state, workbench, store, run_id, n=3)
    compared = store.last_comparison(state.task.task_id, "fake-cpu", 2)
    assert compared is not None
    assert len(compared.candidate_ids) == 2


def test_an_unchanged_field_is_not_timed_again(store: Store, run_id: str) -> None:
    workbench = Stopwatch([1e-3] * 8, [6e-4] * 8, [5e-4] * 8, [7e-4] * 8)
    for _ in range(2):
        assert decide(state_of(5e-4, 5.1e-4), workbench, store, run_id) == "trace 1"
    assert workbench.n_compared == 1
    decide(state_of(5e-4, 5.1e-4, 4.9e-4), workbench, store, run_id)
    assert workbench.n_compared == 2


def test_without_time_the_stored_comparison_decides_else_the_ranking(store: Store, run_id: str) -> None:
    workbench = Stopwatch([1e-3] * 8, [2e-3] * 8)
    assert decide(state_of(5e-4), workbench, store, run_id, measure=False) == "trace 0"
    # Not timed side by side, so a few percent are no gain.
    assert decide(state_of(9.6e-4), workbench, store, run_id, measure=False) == "default"
    assert decide(state_of(2e-3), workbench, store, run_id, measure=False) == "default"
    assert workbench.n_compared == 0
    decide(state_of(5e-4), workbench, store, run_id)
    assert decide(state_of(5e-4), workbench, store, run_id, measure=False) == "default"
    assert workbench.n_compared == 1


def test_a_default_that_fails_in_the_finals_ships_and_is_tried_again(store: Store, run_id: str) -> None:
    assert decide(state_of(5e-4), Stopwatch(CRASH, [5e-4] * 8), store, run_id) == "default"
    assert decide(state_of(5e-4), Stopwatch([1e-3] * 8, [5e-4] * 8), store, run_id) == "trace 0"


def test_a_finalist_that_fails_does_not_ship(store: Store, run_id: str) -> None:
    assert decide(state_of(5e-4, 5.1e-4), Stopwatch([1e-3] * 8, CRASH, [6e-4] * 8), store, run_id) == "trace 1"
    assert decide(state_of(4e-4), Stopwatch([1e-3] * 8, CRASH), store, run_id) == "default"


@pytest.mark.parametrize("measure", [True, False])
def test_without_a_default_nothing_can_be_shown_to_gain(store: Store, run_id: str, measure: bool) -> None:
    workbench = Stopwatch([1e-3] * 8, [5e-4] * 8)
    state = state_of(5e-4, default_secs=None)
    assert decide(state, workbench, store, run_id, measure=measure) == "default"
    assert state.summary().best_secs is None
    assert workbench.n_compared == 0


def test_censored_measurements_are_no_finalists(store: Store, run_id: str) -> None:
    workbench = Stopwatch([1e-3] * 8, [5e-4] * 8)
    state = state_of(5e-4, is_censored=True)
    assert decide(state, workbench, store, run_id) == "default"
    assert workbench.n_compared == 0
    assert state.summary().best_secs == 1e-3


def test_a_comparison_on_other_threads_does_not_count(store: Store, run_id: str) -> None:
    decide(state_of(5e-4), Stopwatch([1e-3] * 8, [5e-4] * 8), store, run_id)
    other = Stopwatch([1e-3] * 8, [2e-3] * 8)
    other._threads = 4
    assert decide(state_of(5e-4), other, store, run_id) == "default"
    assert other.n_compared == 1
