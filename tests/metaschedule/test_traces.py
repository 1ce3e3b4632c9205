"""Traces read into choice tables and back, on real design spaces."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from kits.kernels import NAMES, task_of

from prune_engine.errors import SpaceError
from prune_engine.metaschedule import traces
from prune_engine.metaschedule.materialise import Materialiser
from prune_engine.space import DesignSpace, Sketch, VariableKind, perfect_tile_table

sys.path.insert(0, str(Path(__file__).parent))

SpaceOf = Callable[[str], DesignSpace]


@pytest.fixture(scope="module")
def space_of(tvm: Any, target: str) -> SpaceOf:
    found: dict[str, DesignSpace] = {}

    def space(name: str) -> DesignSpace:
        if name not in found:
            found[name] = Materialiser(task_of(name, target), seed=0).design_space()
        return found[name]

    return space


def replay(tvm: Any, space: DesignSpace, trace: Any) -> Any:
    schedule = tvm.s_tir.Schedule(space.task.mod, seed=1, debug_mask="none")
    trace.apply_to_schedule(schedule, remove_postproc=True)
    return schedule


def draw(sketch: Sketch, rng: np.random.Generator) -> tuple[tuple[int, ...], ...]:
    return tuple(tuple(int(x) for x in v.table[rng.integers(v.size)]) for v in sketch.variables)


@pytest.mark.parametrize("name", NAMES)
def test_decisions_round_trip(space_of: SpaceOf, name: str) -> None:
    rng = np.random.default_rng(0)
    for sketch in space_of(name).sketches:
        for _ in range(10):
            decisions = draw(sketch, rng)
            assert traces.decisions_of(traces.trace_with(sketch, decisions)) == decisions


@pytest.mark.parametrize("name", NAMES)
def test_the_decisions_of_the_space_itself_are_in_the_tables(space_of: SpaceOf, name: str) -> None:
    for sketch in space_of(name).sketches:
        decisions = traces.decisions_of(sketch.payload)
        for variable, decision in zip(sketch.variables, decisions, strict=True):
            assert variable.index_of(decision) is not None, f"{variable.name} does not offer {decision}"


@pytest.mark.parametrize("name", NAMES)
def test_the_compiler_follows_tiles_and_categoricals_to_the_letter(tvm: Any, space_of: SpaceOf, name: str) -> None:
    space, rng = space_of(name), np.random.default_rng(1)
    for sketch in space.sketches:
        for _ in range(4):
            decisions = draw(sketch, rng)
            made = traces.decisions_of(replay(tvm, space, traces.trace_with(sketch, decisions)).trace)
            for variable, asked, got in zip(sketch.variables, decisions, made, strict=True):
                if variable.kind is not VariableKind.LOCATION:
                    assert got == asked, variable.name


@pytest.mark.parametrize("name", NAMES)
def test_whatever_the_compiler_samples_is_in_the_tables(tvm: Any, space_of: SpaceOf, name: str) -> None:
    """Tiles, values and compute locations that TVM draws by itself are choices of ours."""
    space = space_of(name)
    for sketch in space.sketches[:3]:
        free = type(sketch.payload)(sketch.payload.insts, {})
        for seed in range(1, 13):
            schedule = tvm.s_tir.Schedule(space.task.mod, seed=seed, debug_mask="none")
            free.apply_to_schedule(schedule, remove_postproc=True)
            decisions = traces.decisions_of(schedule.trace)
            for variable, decision in zip(sketch.variables, decisions, strict=True):
                # Locations that follow other locations are searched by samples: one in a hundred is missed.
                if variable.kind is VariableKind.LOCATION and name == "softmax":
                    continue
                assert variable.index_of(decision) is not None, f"{variable.name} does not offer {decision}"


@pytest.mark.parametrize("name", ["conv_bias_relu", "depthwise", "softmax"])
def test_every_location_exists_under_some_setting(tvm: Any, space_of: SpaceOf, name: str) -> None:
    """Random settings of the decisions before it, asked through a replay of the trace up to there."""
    space = space_of(name)
    sketches = space.sketches if name == "softmax" else space.sketches[:1]
    rng = np.random.default_rng(0)
    for sketch in sketches:
        trace = sketch.payload
        places = [p for p, i in enumerate(trace.insts) if str(i.kind.name).startswith("Sample")]
        for number, variable in enumerate(sketch.variables):
            if variable.kind is not VariableKind.LOCATION:
                continue
            left = {int(x) for x in variable.table[:, 0]}
            for _ in range(3000):
                if not left:
                    break
                earlier = [tuple(v.table[rng.choice(v.rows)].tolist()) for v in sketch.variables[:number]]
                chosen = [
                    *earlier,
                    (int(rng.choice(sorted(left))),),
                    *(tuple(v.table[0].tolist()) for v in sketch.variables[number + 1 :]),
                ]
                whole = traces.trace_with(sketch, chosen)
                prefix = list(whole.insts)[: places[number] + 1]
                made = replay(
                    tvm, space, type(trace)(prefix, {i: whole.decisions[i] for i in prefix if i in whole.decisions})
                )
                left.discard(traces.decisions_of(made.trace)[-1][0])
            assert not left, f"{name} sketch {sketch.index}: {variable.name} never takes {left}"


def test_every_loop_of_a_convolution_is_offered_to_its_padding(space_of: SpaceOf) -> None:
    """All levels down to the inner reduction, but for the loops of the batch axis, which do nothing."""
    (pad,) = (v for v in space_of("conv_bias_relu").sketches[0].variables if v.kind is VariableKind.LOCATION)
    loops = [loop for loop in range(18) if loop not in (0, 4, 11)]
    assert pad.table[:, 0].tolist() == [traces.INLINE, traces.ROOT, *loops]


def test_variables_are_named_after_what_they_decide(space_of: SpaceOf) -> None:
    names = [v.name for v in space_of("gemm").sketches[0].variables]
    assert names == ["0.c.0", "1.c.1", "2.c.2", "3.unroll_explicit"]


def test_tiles_are_all_factorisations(space_of: SpaceOf) -> None:
    first, second, third, unroll = space_of("gemm").sketches[0].variables
    for variable, extent, n_parts in ((first, 96, 4), (second, 80, 4), (third, 64, 2)):
        np.testing.assert_array_equal(variable.table, perfect_tile_table(extent, n_parts, 64))
    assert unroll.table[:, 0].tolist() == [0, 16, 64, 512]
    np.testing.assert_allclose(unroll.probs, 0.25)


@pytest.mark.parametrize("name", NAMES)
def test_sketches_differ_in_their_ids_and_not_by_seed(space_of: SpaceOf, target: str, name: str) -> None:
    ids = [s.sketch_id for s in space_of(name).sketches]
    assert len(set(ids)) == len(ids)
    again = Materialiser(task_of(name, target), seed=12345).design_space()
    assert [s.sketch_id for s in again.sketches] == ids


def test_ids_and_tables_are_stable_across_processes(space_of: SpaceOf, target: str) -> None:
    script = """
import hashlib, json, sys
sys.path.insert(0, sys.argv[1])
from kits.kernels import task_of
from prune_engine.metaschedule.materialise import Materialiser
space = Materialiser(task_of("conv_bias_relu", sys.argv[2]), seed=77).design_space()
print(json.dumps([[s.sketch_id, [v.table[:, 0].tolist() for v in s.variables]] for s in space.sketches]))
"""
    command = [sys.executable, "-c", script, str(Path(__file__).parents[1]), target]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    mine = [
        [s.sketch_id, [v.table[:, 0].tolist() for v in s.variables]] for s in space_of("conv_bias_relu").sketches
    ]
    assert json.loads(done.stdout.splitlines()[-1]) == mine


@pytest.mark.parametrize("name", NAMES)
def test_stock_tvm_replays_the_json_to_the_same_module(tvm: Any, space_of: SpaceOf, name: str) -> None:
    space, rng = space_of(name), np.random.default_rng(3)
    for sketch in space.sketches[:3]:
        schedule = replay(tvm, space, traces.trace_with(sketch, draw(sketch, rng)))
        text = traces.trace_to_json(schedule.trace)
        again = tvm.s_tir.Schedule(space.task.mod)
        tvm.s_tir.schedule.Trace.apply_json_to_schedule(json.loads(text), again)
        tvm.ir.assert_structural_equal(schedule.mod, again.mod)
        assert text == json.dumps(traces.plain(schedule.trace.as_json()), separators=(",", ":"))


@pytest.mark.parametrize("decision", [((96, 1, 1, 1),), ()])
def test_too_few_decisions_are_refused(space_of: SpaceOf, decision: tuple[tuple[int, ...], ...]) -> None:
    with pytest.raises(ValueError, match="shorter"):
        traces.trace_with(space_of("gemm").sketches[0], decision)


def test_a_value_that_is_not_offered_is_refused(space_of: SpaceOf) -> None:
    sketch = space_of("gemm").sketches[0]
    decisions = (*traces.decisions_of(sketch.payload)[:3], (7,))
    with pytest.raises(SpaceError, match="unroll_explicit"):
        traces.trace_with(sketch, decisions)


def test_an_unknown_sampling_instruction_is_refused(tvm: Any, target: str) -> None:
    """A partitioned tile is what Hexagon's and some GPU spaces sample."""
    task = task_of("gemm", target)
    schedule = tvm.s_tir.Schedule(task.mod, seed=1, debug_mask="none")
    loop = schedule.get_loops(schedule.get_sblock("c"))[0]
    schedule.sample_partitioned_tile(loop, n=2, partition_pos=1, innerpart_factor=4)
    with pytest.raises(SpaceError, match="SamplePartitionedTile"):
        traces.sketch_of(0, schedule.trace, task.mod)


def test_postprocessing_is_no_decision(tvm: Any, space_of: SpaceOf) -> None:
    space = space_of("gemm")
    sketch = space.sketches[0]
    schedule = replay(tvm, space, sketch.payload)
    schedule.enter_postproc()
    schedule.sample_categorical([1, 2], [0.5, 0.5])
    assert traces.decisions_of(schedule.trace) == traces.decisions_of(sketch.payload)
