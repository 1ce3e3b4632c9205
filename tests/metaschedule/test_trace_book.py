"""Traces that TVM made are found again as rows of choice tables."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from kits.kernels import task_of

from prune_engine.candidates import CandidateBatch
from prune_engine.measurement import MeasureError
from prune_engine.metaschedule import traces
from prune_engine.metaschedule.materialise import Materialiser
from prune_engine.metaschedule.trace_book import TraceBook
from prune_engine.space import Sketch


@pytest.mark.parametrize("name", ["gemm", "conv_bias_relu"])
def test_a_post_processed_trace_is_the_row_it_was_made_of(tvm: Any, target: str, name: str) -> None:
    materialiser = Materialiser(task_of(name, target), seed=0)
    space = materialiser.design_space()
    book = TraceBook()
    for sketch in space.sketches:
        book.add(sketch, sketch.payload)
    rng = np.random.default_rng(0)
    n_found = 0
    for sketch in space.sketches[:3]:
        rows = np.stack([rng.choice(v.rows, size=6) for v in sketch.variables], axis=1).astype(np.int32)
        for candidate in map(CandidateBatch(space, sketch, rows).candidate, range(6)):
            made = materialiser.scheduled(space, candidate)
            if isinstance(made, MeasureError):
                continue
            found = book.find(made.schedule.trace)
            assert found is not None
            number, indices = found
            again = CandidateBatch(space, space.sketches[number], indices[None, :]).candidate(0)
            assert again == made.candidate, "what TVM repaired is found as it runs"
            n_found += 1
    assert n_found >= 12


def test_an_unknown_structure_is_asked_for_once(tvm: Any, target: str) -> None:
    task = task_of("gemm", target)
    schedule = tvm.s_tir.Schedule(task.mod, seed=1, debug_mask="none")
    loop = schedule.get_loops(schedule.get_sblock("c"))[0]
    schedule.split(loop, schedule.sample_perfect_tile(loop, n=2))
    asked: list[Any] = []

    def make(trace: Any) -> Sketch | None:
        asked.append(trace)
        return traces.sketch_of(0, trace, task.mod)

    book = TraceBook()
    assert book.find(schedule.trace) is None
    found = book.find(schedule.trace, make)
    assert found is not None
    (variable,) = traces.sketch_of(0, schedule.trace, task.mod).variables
    assert tuple(variable.table[found[1][0]]) == traces.decisions_of(schedule.trace)[0]
    assert book.find(schedule.trace, make) is not None
    assert len(asked) == 1


def test_a_decision_that_no_table_has(tvm: Any, target: str) -> None:
    """Split into factors that are larger than the sketch allows, as a repaired record may have it."""
    task = task_of("gemm", target)
    schedule = tvm.s_tir.Schedule(task.mod, seed=1, debug_mask="none")
    loop = schedule.get_loops(schedule.get_sblock("c"))[0]
    schedule.split(loop, schedule.sample_perfect_tile(loop, n=2, max_innermost_factor=4))
    book = TraceBook()
    book.add(traces.sketch_of(0, schedule.trace, task.mod), schedule.trace)
    tile = next(inst for inst in schedule.trace.insts if str(inst.kind.name) == "SamplePerfectTile")
    odd = schedule.trace.with_decision(tile, [2, 48], remove_postproc=False)
    assert book.find(schedule.trace) is not None
    assert book.find(odd) is None


def test_variables_that_nothing_uses_decide_nothing(tvm: Any, target: str) -> None:
    """TVM leaves them out of simplified traces; the sketch may have been made with them."""
    task = task_of("gemm", target)
    schedule = tvm.s_tir.Schedule(task.mod, seed=1, debug_mask="none")
    i, j, _ = schedule.get_loops(schedule.get_sblock("c"))
    schedule.sample_perfect_tile(i, n=2)
    schedule.split(j, schedule.sample_perfect_tile(j, n=2))
    sketch = traces.sketch_of(0, schedule.trace, task.mod)
    assert len(sketch.variables) == 2
    book = TraceBook()
    book.add(sketch, schedule.trace)
    found = book.find(schedule.trace.simplified(True))
    assert found is not None
    number, rows = found
    assert (number, rows[0]) == (0, 0)
    assert tuple(sketch.variables[1].table[rows[1]]) == traces.decisions_of(schedule.trace)[1]
