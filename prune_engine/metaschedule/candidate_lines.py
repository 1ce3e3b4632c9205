"""Candidates as JSON lines with traces that stock TVM can replay, and TVM's word on those nobody can read."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

import numpy as np

from prune_engine.candidates import CandidateBatch, candidate_id, rows_of
from prune_engine.measurement import MeasureError
from prune_engine.metaschedule.materialise import Materialiser
from prune_engine.metaschedule.trace_json import TraceWriter
from prune_engine.proposals import Checker, Proposals
from prune_engine.space import DesignSpace, Int32Array
from prune_engine.task import TuningTask

#: The symbols worth a look, on any device and on those with threads.
_SYMBOLS = (
    "flops_total",
    "traffic_dram_bytes",
    "working_set_l1_bytes",
    "working_set_l2_bytes",
    "parallel_extent",
    "max_vector_bytes",
    "unroll_steps",
)
_GPU_SYMBOLS = (
    "flops_total",
    "traffic_dram_bytes",
    "grid_blocks",
    "threads_per_block",
    "vthreads",
    "shared_bytes_per_block",
    "registers_per_thread",
    "max_vector_bytes",
    "unroll_steps",
)


def candidate_lines(proposals: Proposals, task: TuningTask) -> list[str]:
    """A JSON object for each candidate, in the order of the proposals.

    Keys: task, task_id, target, sketch, sketch_id, candidate_id, decisions (by variable: factors, or the value
    of a categorical or location), symbols (by name; none for a sketch that could not be read) and trace
    (what ``Trace.as_json`` gives for it).
    """
    sketches = [
        _lines(batch.take(proposals.rows[proposals.owners == number]), task)
        for number, batch in enumerate(proposals.batches)
    ]
    return [next(sketches[owner]) for owner in proposals.owners.tolist()]


def compiler_check(materialiser: Materialiser, space: DesignSpace) -> Checker:
    """Ask TVM what becomes of a candidate: the rows that run, or None if it refuses."""

    def check(batch: CandidateBatch, row: int) -> Int32Array | None:
        made = materialiser.materialise(space, batch.candidate(row))
        return None if isinstance(made, MeasureError) else rows_of(batch.sketch, made.candidate.decisions)

    return check


def _lines(batch: CandidateBatch, task: TuningTask) -> Iterator[str]:
    """The lines of one sketch's candidates, row by row."""
    sketch, trace = batch.sketch, TraceWriter(batch.sketch)
    symbols = {} if batch.is_opaque else _symbols(batch)
    tables = [variable.table.tolist() for variable in sketch.variables]
    target = json.loads(task.target)
    for row, indices in enumerate(batch.indices.tolist()):
        decisions = [table[index] for table, index in zip(tables, indices, strict=True)]
        record = {
            "task": task.name,
            "task_id": task.task_id,
            "target": target,
            "sketch": sketch.index,
            "sketch_id": sketch.sketch_id,
            "candidate_id": candidate_id(task.task_id, sketch.sketch_id, decisions),
            "decisions": {
                variable.name: decision if len(decision) > 1 else decision[0]
                for variable, decision in zip(sketch.variables, decisions, strict=True)
            },
            "symbols": {name: column[row] for name, column in symbols.items()},
        }
        head = json.dumps(record, separators=(",", ":"))
        yield f'{head[:-1]},"trace":{trace.text(indices)}}}'


def _symbols(batch: CandidateBatch) -> dict[str, Sequence[float]]:
    is_gpu = bool((np.asarray(batch.symbol("threads_per_block")) > 1).any())
    names = _GPU_SYMBOLS if is_gpu else _SYMBOLS
    return {name: batch.symbol(name).tolist() for name in names if name in batch.space.symbols}
