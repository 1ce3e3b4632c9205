"""Who fails on hard inputs does not ship: the next contender does, else the default."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from prune_engine.candidates import CandidateBatch
from prune_engine.config import EngineConfig
from prune_engine.loop.safety_gate import NAME, SafetyGate, keep_legal
from prune_engine.loop.task_state import TaskState, Unmeasured
from prune_engine.measurement import MeasuredCandidate
from prune_engine.numeric_safety import FpPolicy, SafetyCase, SafetyReport
from prune_engine.store.base import Store
from prune_engine.task import TuningTask
from prune_engine.testing import FakeWorkbench, make_batch, make_measurement, make_space, make_task
from prune_engine.verdicts import BoolArray, Outcome


class Checking(FakeWorkbench):
    """Finds the traces given unsafe."""

    def __init__(self, *unsafe: str) -> None:
        super().__init__()
        self.unsafe, self.policies = unsafe, list[FpPolicy]()

    def check_numbers(self, task: TuningTask, traces: Sequence[str], policy: FpPolicy) -> list[SafetyReport]:
        self.policies.append(policy)
        wrong = SafetyCase("zeros", is_ok=False, problem="off by 1")
        return [SafetyReport.of([wrong] if t in self.unsafe else [SafetyCase("zeros", True)]) for t in traces]


def decided(*latencies: float) -> TaskState:
    """All candidates beat the default, the first one won."""
    task = make_task()
    state = TaskState(task, space=make_space(task))
    state.add(MeasuredCandidate(None, make_measurement("default", 1.0)))
    batch = make_batch(len(latencies), space=state.space)
    for i, secs in enumerate(latencies):
        candidate = batch.candidate(i)
        state.add(MeasuredCandidate(candidate, make_measurement(candidate.candidate_id, secs), f"trace {i}"))
    state.contenders = tuple(state.ranking)
    state.winner, state.final_secs = state.ranking[0], latencies[0]
    state.is_decided = True
    return state


@pytest.fixture
def run_id(store: Store) -> str:
    run_id = store.start_run({})
    store.add_tasks(run_id, [make_task()])
    return run_id


def settle(state: TaskState, workbench: FakeWorkbench, store: Store, run_id: str, **options: object) -> list[str]:
    said: list[str] = []
    SafetyGate(workbench, store, EngineConfig.of(**options), run_id, said.append).settle(state)
    return said


def test_a_safe_winner_ships(store: Store, run_id: str) -> None:
    state = decided(0.1, 0.2)
    assert settle(state, Checking(), store, run_id) == []
    assert state.winner is not None
    assert state.winner.trace_json == "trace 0"
    assert {v.outcome for v in store.verdicts(state.task.task_id) if v.strategy == NAME} == {Outcome.KEPT}


def test_the_next_one_ships_for_one_that_fails(store: Store, run_id: str) -> None:
    state = decided(0.1, 0.2)
    unsafe = state.ranking[0].candidate.candidate_id
    (said,) = settle(state, Checking("trace 0"), store, run_id)
    assert "off by 1" in said
    assert state.winner is not None
    assert state.winner.trace_json == "trace 1"
    assert state.final_secs == 0.2
    assert [one.trace_json for one in state.ranking] == ["trace 1"]  # what is harvested
    assert state.failures["wrong_result"] == 1
    (verdict,) = [v for v in store.verdicts(state.task.task_id, unsafe) if v.strategy == NAME]
    assert verdict.outcome is Outcome.FAILED


def test_without_a_safe_one_the_default_ships(store: Store, run_id: str) -> None:
    state = decided(0.1, 0.2)
    settle(state, Checking("trace 0", "trace 1"), store, run_id)
    assert state.winner is None
    assert not state.contenders
    assert state.final_secs == 1.0
    assert len(state.unsafe) == 2
    assert state.summary().best_candidate_id == "default"


def test_a_contender_that_fails_cannot_be_chosen_in_the_model(store: Store, run_id: str) -> None:
    state = decided(0.1, 0.2)
    settle(state, Checking("trace 1"), store, run_id)
    assert [one.trace_json for one in state.contenders] == ["trace 0"]


def test_an_unmeasured_one_is_tried_too(store: Store, run_id: str) -> None:
    state = decided(0.1)
    candidate, state.winner, state.contenders = state.ranking[0].candidate, None, ()
    state.unmeasured = Unmeasured(candidate, "trace 9", "a library")
    settle(state, Checking("trace 9"), store, run_id)
    assert state.unmeasured is None


def test_it_can_be_left_off_and_is_told_the_users_policy(store: Store, run_id: str) -> None:
    workbench = Checking("trace 0")
    state = decided(0.1)
    settle(state, workbench, store, run_id, stress_check=False)
    assert state.winner is not None
    assert not workbench.policies
    settle(state, workbench, store, run_id, fp_tolerance=0.25, strict_fp=True)
    assert workbench.policies == [FpPolicy(0.25, is_strict=True)]


def test_a_workbench_that_cannot_check_is_not_asked(store: Store, run_id: str) -> None:
    state = decided(0.1)
    assert settle(state, FakeWorkbench(), store, run_id) == []
    assert state.winner is not None


def test_what_a_rule_drops_now_is_left_out_of_the_ranking() -> None:
    state = decided(0.1, 0.2)
    second = state.ranking[1]

    def judge(batch: CandidateBatch) -> tuple[BoolArray, BoolArray]:
        keep = np.array(
            [batch.candidate(i).candidate_id == second.candidate.candidate_id for i in range(len(batch))]
        )
        return keep, keep

    keep_legal(state, judge)
    assert state.ranking == [second]
