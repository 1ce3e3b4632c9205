"""Schedules that no sketch holds, as sketches with one candidate."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from kits.kernels import task_of

from prune_engine.candidates import Candidate, CandidateBatch
from prune_engine.errors import SpaceError
from prune_engine.measurement import FixesSchedules, WritesSchedules
from prune_engine.metaschedule import traces
from prune_engine.metaschedule.materialise import Materialised, Materialiser
from prune_engine.metaschedule.workbench import TvmWorkbench
from prune_engine.space import DesignSpace, Sketch, VariableKind

Made = tuple[Materialiser, DesignSpace]


@pytest.fixture(scope="module", params=["gemm", "conv_bias_relu"])
def made(tvm: Any, target: str, request: pytest.FixtureRequest) -> Made:
    materialiser = Materialiser(task_of(request.param, target), seed=0)
    return materialiser, materialiser.design_space()


def some_schedule(made: Made, seed: int = 0) -> tuple[Candidate, str]:
    """A candidate of the first sketch as the compiler wrote it, post-processing included."""
    materialiser, space = made
    rng = np.random.default_rng(seed)
    sketch = space.sketches[0]
    row = np.array([[rng.choice(v.rows) for v in sketch.variables]], dtype=np.int32)
    built = materialiser.materialise(space, CandidateBatch(space, sketch, row).candidate(0))
    assert isinstance(built, Materialised)
    return built.candidate, built.trace_json


def with_sketch(space: DesignSpace, sketch: Sketch) -> tuple[DesignSpace, Candidate]:
    wider = replace(space, sketches=(*space.sketches, sketch))
    row = np.array([[v.rows[0] for v in sketch.variables]], dtype=np.int32)
    return wider, CandidateBatch(wider, sketch, row).candidate(0)


def test_a_schedule_becomes_the_only_candidate_of_a_sketch(made: Made) -> None:
    materialiser, space = made
    original, text = some_schedule(made)
    sketch = materialiser.fixed_sketch(space, text)
    assert (sketch.index, sketch.size, sketch.nests) == (len(space.sketches), 1, None)
    assert sketch.opaque_reason
    wider, candidate = with_sketch(space, sketch)
    assert candidate.decisions == original.decisions
    built = materialiser.materialise(wider, candidate)
    assert isinstance(built, Materialised)
    assert built.candidate == candidate
    assert built.trace_json == text


def test_its_identity_is_that_of_the_text(made: Made) -> None:
    """With post-processing or without, and another for every other schedule of the same structure."""
    materialiser, space = made
    original, text = some_schedule(made)
    plain = traces.trace_to_json(traces.trace_with(space.sketches[0], original.decisions))
    assert "EnterPostproc" in text
    assert "EnterPostproc" not in plain
    first = materialiser.fixed_sketch(space, text)
    assert materialiser.fixed_sketch(space, plain).sketch_id == first.sketch_id
    other, other_text = some_schedule(made, seed=1)
    assert other.decisions != original.decisions
    assert materialiser.fixed_sketch(space, other_text).sketch_id != first.sketch_id
    assert first.sketch_id not in {sketch.sketch_id for sketch in space.sketches}


def test_a_categorical_keeps_its_value(made: Made) -> None:
    """Its decision in a trace is a number in the list of values, so that must stay whole."""
    materialiser, space = made
    at = next(i for i, v in enumerate(space.sketches[0].variables) if v.kind is VariableKind.CATEGORICAL)
    schedules = (some_schedule(made, seed) for seed in range(20))
    original, text = next((o, t) for o, t in schedules if o.decisions[at] != (0,))  # the first number fits any
    sketch = materialiser.fixed_sketch(space, text)
    wider, candidate = with_sketch(space, sketch)
    built = materialiser.materialise(wider, candidate)
    assert isinstance(built, Materialised)
    assert built.candidate.decisions[at] == original.decisions[at]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "[[],[],[]]",
        '[[["GetSBlock",[],["nowhere","main"],["b0"]]],[]]',
        '[[["NoSuchInstruction",[],[],[]]],[]]',
        '[[["GetSBlock",["b9"],["root","main"],["b0"]]],[]]',
        '{"a": 1}',
        "[[1],[2]]",
    ],
)
def test_what_does_not_fit_is_a_space_error(made: Made, text: str) -> None:
    materialiser, space = made
    with pytest.raises(SpaceError, match="does not fit the kernel") as error:
        materialiser.fixed_sketch(space, text)
    assert space.task.name in str(error.value)


def test_a_schedule_of_another_kernel_is_a_space_error(tvm: Any, target: str) -> None:
    conv, matmul = (Materialiser(task_of(name, target), seed=0) for name in ("conv_bias_relu", "gemm"))
    _, text = some_schedule((conv, conv.design_space()))
    with pytest.raises(SpaceError):
        matmul.fixed_sketch(matmul.design_space(), text)


def test_the_workbench_offers_it() -> None:
    assert issubclass(TvmWorkbench, FixesSchedules)
    assert issubclass(TvmWorkbench, WritesSchedules)


def test_decisions_that_are_not_there_are_drawn_once(made: Made) -> None:
    """A trace without decisions is a schedule, too: what the compiler draws is what the sketch holds."""
    materialiser, space = made
    _, text = some_schedule(made)
    bare = json.dumps([json.loads(text)[0], []])
    wider, candidate = with_sketch(space, materialiser.fixed_sketch(space, bare))
    built = materialiser.materialise(wider, candidate)
    assert isinstance(built, Materialised)
    assert built.candidate == candidate
