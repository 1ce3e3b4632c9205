"""Candidates as post-processed modules, and what the compiler makes of them."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from kits.kernels import NAMES, task_of

from prune_engine.candidates import Candidate, CandidateBatch, candidate_id
from prune_engine.errors import SpaceError
from prune_engine.measurement import MeasureError, MeasureErrorKind
from prune_engine.metaschedule import traces
from prune_engine.metaschedule.materialise import Materialised, Materialiser, last_line
from prune_engine.space import DesignSpace, VariableKind

sys.path.insert(0, str(Path(__file__).parent))

CUDA = json.dumps(
    {
        "kind": "cuda",
        "arch": "sm_80",
        "max_threads_per_block": 1024,
        "max_shared_memory_per_block": 49152,
        "thread_warp_size": 32,
    }
)


@pytest.fixture(scope="module")
def made(tvm: Any, target: str) -> dict[str, tuple[Materialiser, DesignSpace]]:
    found = {}
    for name in NAMES:
        materialiser = Materialiser(task_of(name, target), seed=0)
        found[name] = (materialiser, materialiser.design_space())
    return found


Made = dict[str, tuple[Materialiser, DesignSpace]]


def drawn(space: DesignSpace, n: int, seed: int = 0) -> list[Candidate]:
    rng = np.random.default_rng(seed)
    candidates = []
    for sketch in space.sketches[:3]:
        rows = [rng.integers(v.size, size=n) for v in sketch.variables]
        batch = CandidateBatch(space, sketch, np.stack(rows, axis=1).astype(np.int32))
        candidates += [batch.candidate(i) for i in range(n)]
    return candidates


@pytest.mark.parametrize("name", NAMES)
def test_the_identity_is_that_of_what_the_compiler_made(made: Made, name: str) -> None:
    """Also when it repaired a compute location; made again, the repaired one is stable."""
    materialiser, space = made[name]
    n_repaired = 0
    for candidate in drawn(space, 8):
        result = materialiser.materialise(space, candidate)
        assert isinstance(result, Materialised), result
        got = result.candidate
        sketch = space.sketches[got.sketch_index]
        assert got.sketch_index == candidate.sketch_index
        assert got.candidate_id == candidate_id(space.task.task_id, sketch.sketch_id, got.decisions)
        for variable, asked, actual in zip(sketch.variables, candidate.decisions, got.decisions, strict=True):
            if variable.kind is not VariableKind.LOCATION:
                assert actual == asked
        n_repaired += got != candidate
        again = materialiser.materialise(space, got)
        assert isinstance(again, Materialised)
        assert again == result, "made again, it is the same candidate, module and trace"
    assert n_repaired == 0 or name != "gemm", "a space without locations has nothing to repair"


@pytest.mark.parametrize("name", NAMES)
def test_the_trace_replays_to_the_module(tvm: Any, made: Made, name: str) -> None:
    from tvm.ir import load_json

    materialiser, space = made[name]
    for candidate in drawn(space, 2, seed=5):
        result = materialiser.materialise(space, candidate)
        assert isinstance(result, Materialised)
        schedule = tvm.s_tir.Schedule(space.task.mod)
        tvm.s_tir.schedule.Trace.apply_json_to_schedule(json.loads(result.trace_json), schedule)
        tvm.ir.assert_structural_equal(schedule.mod, load_json(result.module_json))


def test_the_task_module_is_left_alone(tvm: Any, made: Made) -> None:
    materialiser, space = made["conv_bias_relu"]
    before = space.task.mod.script()
    for candidate in drawn(space, 2):
        materialiser.materialise(space, candidate)
    assert space.task.mod.script() == before


def bad_decisions(space: DesignSpace) -> dict[str, tuple[tuple[int, ...], ...]]:
    good = traces.decisions_of(space.sketches[0].payload)
    return {
        "too few": good[:2],
        "too few factors": ((96, 1), *good[1:]),
        "unknown value": (*good[:3], (7,)),
    }


@pytest.mark.parametrize("how", ["too few", "too few factors", "unknown value"])
def test_decisions_of_another_space_are_schedule_errors(made: Made, how: str) -> None:
    materialiser, space = made["gemm"]
    result = materialiser.materialise(space, Candidate("x", 0, bad_decisions(space)[how]))
    assert isinstance(result, MeasureError)
    assert result.kind is MeasureErrorKind.SCHEDULE_ERROR
    assert result.message
    assert "\n" not in result.message


def test_a_tile_that_does_not_divide_gets_the_identity_of_its_repair(made: Made) -> None:
    materialiser, space = made["gemm"]
    good = traces.decisions_of(space.sketches[0].payload)
    result = materialiser.materialise(space, Candidate("x", 0, ((5, 7, 1, 1), *good[1:])))
    assert isinstance(result, Materialised)
    first = result.candidate.decisions[0]
    assert np.prod(first) == 96
    assert space.sketches[0].variables[0].index_of(first) is not None


def test_what_a_postprocessor_refuses_is_a_schedule_error_that_names_it(tvm: Any) -> None:
    """Random CUDA schedules, most of which ask for too many threads; needs no GPU."""
    task = task_of("gemm", CUDA)
    materialiser = Materialiser(task, seed=0)
    space = materialiser.design_space()
    results = [materialiser.materialise(space, c) for c in drawn(space, 12)]
    errors = [r for r in results if isinstance(r, MeasureError)]
    assert errors
    assert {e.kind for e in errors} == {MeasureErrorKind.SCHEDULE_ERROR}
    assert {e.message for e in errors} == {"refused by VerifyGPUCode"}
    assert any(isinstance(r, Materialised) for r in results)


@pytest.mark.parametrize("mod", [None, "not a module"])
def test_a_task_without_a_usable_module_is_a_space_error(tvm: Any, target: str, mod: object) -> None:
    with pytest.raises(SpaceError, match="task gemm"):
        Materialiser(replace(task_of("gemm", target), mod=mod), seed=0).design_space()


def test_a_mistaken_probe_does_not_cost_the_space(made: Made, target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Asked for locations: a setting of ours that the compiler refuses is left out; the trace's own must work."""
    monkeypatch.setattr(Materialiser, "_reader", lambda self: (None, "planted"))  # the compiler is to be asked
    original = traces._locations_after
    refused_probes: list[int] = []

    def refusing(mod: Any, trace: Any, position: int, makers: Any, decisions: Any, known: set[int]) -> set[int]:
        if known:
            refused_probes.append(1)
            raise RuntimeError("planted")
        return original(mod, trace, position, makers, decisions, known)

    monkeypatch.setattr(traces, "_locations_after", refusing)
    task = task_of("conv_bias_relu", target)
    space = Materialiser(task, seed=0).design_space()
    assert refused_probes
    assert space.size > 1
    monkeypatch.setattr(traces, "_locations_after", lambda *args: refusing(*args[:-1], {1}))
    with pytest.raises(SpaceError, match="planted"):
        Materialiser(task, seed=0).design_space()


def test_last_line() -> None:
    assert last_line("Traceback\n  File x\nScheduleError: no such loop\n\n") == "ScheduleError: no such loop"
    assert last_line(" \n ") == "no message"
    assert len(last_line("x" * 1000)) == 300
