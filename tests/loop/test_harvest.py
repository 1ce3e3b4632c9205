"""What a finished task leaves to the library."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from prune_engine.library import KernelClass, Origin
from prune_engine.library.text import entry_of, entry_text
from prune_engine.loop.harvest import (
    HarvestContext,
    compiler_version,
    harvest,
    peak_flop_per_sec,
    without_postprocessing,
)
from prune_engine.loop.task_state import TaskState
from prune_engine.measurement import Comparison, MeasuredCandidate
from prune_engine.symbols.table import SYMBOLS_VERSION
from prune_engine.testing import make_batch, make_measurement, make_profile, make_space, make_task

CLASS = KernelClass("strict", "anchor", "matmul", (("matmul.i", 64),))
TRACE = [
    [["GetSBlock", [], ["a", "main"], ["b0"]], ["EnterPostproc", [], [], []], ["Unroll", ["b0"], [], []]],
    [[0, [1, 2]], [2, 7]],
]


@pytest.fixture
def context() -> HarvestContext:
    return HarvestContext("a-cpu", 4, make_profile(), "resnet")


def state_of(*latencies: float, default_secs: float | None = 1e-3) -> TaskState:
    """A task of whose candidates one each took so many seconds, in order."""
    task = replace(make_task(), kernel_class=CLASS)
    state = TaskState(task, space=make_space(task))
    if default_secs is not None:
        state.add(MeasuredCandidate(None, make_measurement("default", default_secs)))
    batch = make_batch(max(len(latencies), 1), space=state.space)
    for i, secs in enumerate(latencies):
        candidate = batch.candidate(i)
        measurement = make_measurement(candidate.candidate_id, secs)
        state.add(MeasuredCandidate(candidate, measurement, trace_json=json.dumps(TRACE)))
    return state


def comparison(state: TaskState, *run_secs: tuple[float, ...]) -> Comparison:
    """The finals of the first few of a ranking, the default first."""
    n = len(run_secs)
    ids = ("default", *(one.candidate.candidate_id for one in state.ranking))[:n]
    return Comparison(ids, run_secs, (None,) * n)


def test_an_entry_holds_all_that_is_known(context: HarvestContext) -> None:
    state = state_of(5e-4)
    (entry,) = harvest(state, None, context, measured_at=123.0)
    assert (entry.kernel_class, entry.model, entry.task_name) == (CLASS, "resnet", state.task.name)
    assert (entry.device_name, entry.n_threads, entry.target) == ("a-cpu", 4, state.task.target)
    assert (entry.run_secs, entry.default_secs, entry.n_trials, entry.rank) == ((5e-4,), 1e-3, 1, 0)
    assert (entry.origin, entry.measured_at, entry.symbols_version) == (Origin.TUNED, 123.0, SYMBOLS_VERSION)
    assert entry.tvm_version == compiler_version() != ""
    assert entry.flop_count == state.task.flop_count
    assert entry.peak_flop_per_sec == peak_flop_per_sec(context.profile, ("float32",)) is not None
    assert json.loads(entry.trace_json) == [TRACE[0][:1], TRACE[1][:1]]
    sketch = state.space.sketches[0]
    assert entry.sketch_id == sketch.sketch_id
    assert [(c.name, c.kind, c.subject) for c in entry.choices] == [
        (v.name, v.kind, v.subject) for v in sketch.variables
    ]
    assert tuple(choice.values for choice in entry.choices) == state.ranking[0].candidate.decisions
    assert entry_of(entry_text(entry)) == entry


def test_the_best_three_are_kept_in_order(context: HarvestContext) -> None:
    entries = harvest(state_of(4e-4, 2e-4, 3e-4, 1e-4), None, context, measured_at=0.0)
    assert [(entry.latency_secs, entry.rank) for entry in entries] == [(1e-4, 0), (2e-4, 1), (3e-4, 2)]
    assert len(harvest(state_of(4e-4, 2e-4), None, replace(context, keep=1), measured_at=0.0)) == 1


def test_the_finals_count_more_than_single_measurements(context: HarvestContext) -> None:
    state = state_of(1e-4, 2e-4, 3e-4)
    finals = comparison(state, (8e-4, 9e-4, 7e-4), (2.5e-4, 2.4e-4), (1.5e-4, 1.4e-4))
    entries = harvest(state, finals, context, measured_at=0.0)
    assert [entry.run_secs for entry in entries] == [(1.5e-4, 1.4e-4), (2.5e-4, 2.4e-4), (3e-4,)]
    assert {entry.default_secs for entry in entries} == {8e-4}


def test_a_finalist_that_failed_in_the_finals_keeps_its_measurement(context: HarvestContext) -> None:
    state = state_of(1e-4, 2e-4)
    finals = comparison(state, (8e-4,), (), (1.5e-4,))
    assert [entry.run_secs for entry in harvest(state, finals, context, measured_at=0.0)] == [
        (1.5e-4,),
        (1e-4,),
    ]


@pytest.mark.parametrize(
    ("secs", "n_kept"),
    [pytest.param(1.04e-3, 1, id="as fast as the default"), pytest.param(1.06e-3, 0, id="slower")],
)
def test_what_is_slower_than_the_default_is_left(context: HarvestContext, secs: float, n_kept: int) -> None:
    assert len(harvest(state_of(secs), None, context, measured_at=0.0)) == n_kept


def test_without_a_default_everything_counts(context: HarvestContext) -> None:
    (entry,) = harvest(state_of(1.0, default_secs=None), None, context, measured_at=0.0)
    assert entry.default_secs is None


def test_what_has_no_class_space_sketch_or_trace_is_left(context: HarvestContext) -> None:
    state = state_of(1e-4)
    state.task = replace(state.task, kernel_class=None)
    assert harvest(state, None, context, measured_at=0.0) == []
    state = state_of(1e-4)
    state.space = None
    assert harvest(state, None, context, measured_at=0.0) == []
    state = state_of(1e-4, 2e-4)
    first = state.ranking[0]
    state.ranking[0] = replace(first, candidate=replace(first.candidate, sketch_index=99))
    assert [e.latency_secs for e in harvest(state, None, context, measured_at=0.0)] == [2e-4]
    state.ranking[0] = replace(first, trace_json=None)
    assert [e.latency_secs for e in harvest(state, None, context, measured_at=0.0)] == [2e-4]
    state.ranking[0] = replace(first, candidate=replace(first.candidate, decisions=()))
    assert [e.rank for e in harvest(state, None, context, measured_at=0.0)] == [0]


@pytest.mark.parametrize("text", ["", "no JSON", "[]", "[1, 2]", '{"floors": 2}', "[[[]], []]", "[[], [[]]]"])
def test_the_text_of_another_compiler_stays(text: str) -> None:
    assert without_postprocessing(text) == text


def test_the_peak_is_that_of_the_fastest_unit_for_the_type() -> None:
    profile = make_profile()
    rates = [unit.peak_flop_per_sec["float32"].value for unit in profile.compute]
    assert peak_flop_per_sec(profile, ("float32", "int8")) == max(rates)
    assert peak_flop_per_sec(profile, ("complex64",)) is None
    assert peak_flop_per_sec(profile, ()) is None
