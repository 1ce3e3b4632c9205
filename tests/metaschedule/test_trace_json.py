"""Traces written as text are those that TVM would write."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from prune_engine.errors import SpaceError
from prune_engine.metaschedule.materialise import Materialiser
from prune_engine.metaschedule.targets import resolve_target
from prune_engine.metaschedule.trace_json import TraceWriter
from prune_engine.metaschedule.traces import trace_to_json, trace_with
from prune_engine.metaschedule.workloads.loading import load_tasks
from prune_engine.space import DesignSpace, VariableKind
from prune_engine.testing import make_batch


def space_of(workload: str, target: str) -> DesignSpace:
    (task,) = load_tasks(workload, resolve_target(target, 2))
    return Materialiser(task, 0).design_space()


@pytest.mark.parametrize(
    ("workload", "target", "kinds"),
    [
        ("gemm:64x48x96", "llvm -mcpu=skylake-avx512", {VariableKind.TILE, VariableKind.CATEGORICAL}),
        ("conv2d:1x8x14x14,16x3x3,p1+bias+relu", "llvm -mcpu=skylake-avx512", set(VariableKind)),
        ("gemm:64x48x96", "cuda/t4", {VariableKind.TILE, VariableKind.CATEGORICAL}),
    ],
)
def test_text_is_tvms(workload: str, target: str, kinds: set[VariableKind]) -> None:
    space = space_of(workload, target)
    assert {v.kind for sketch in space.sketches for v in sketch.variables} == kinds
    for sketch in space.sketches:
        batch, writer = make_batch(20, space=space, sketch=sketch.index), TraceWriter(sketch)
        for row, indices in enumerate(batch.indices.tolist()):
            trace = trace_with(sketch, batch.candidate(row).decisions)
            assert json.loads(writer.text(indices)) == json.loads(trace_to_json(trace))


def test_sketch_of_other_variables() -> None:
    sketch = space_of("gemm:16x16x16", "llvm -mcpu=skylake-avx512").sketches[0]
    with pytest.raises(SpaceError, match="its trace does not fit its variables"):
        TraceWriter(replace(sketch, variables=sketch.variables[1:]))
