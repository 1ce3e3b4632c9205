"""Kernels of whitelist entries: a task's module as short text and back, and a schedule of it as an entry."""

from __future__ import annotations

import base64
import binascii
import zlib
from collections.abc import Sequence
from typing import Any

from prune_engine.errors import SpaceError
from prune_engine.library.entries import Choice
from prune_engine.loop.harvest import without_postprocessing
from prune_engine.metaschedule._compat import import_tvm
from prune_engine.metaschedule.materialise import SCHEDULE_ERRORS, last_line, module_to_json
from prune_engine.metaschedule.relax_tasks import task_of
from prune_engine.space import Sketch
from prune_engine.task import TuningTask
from prune_engine.whitelist.entries import Check, WhitelistEntry

#: A kernel's module takes some ten kilobytes; more than this is none.
_MAX_BYTES = 32 << 20


def workload_text(task: TuningTask) -> str:
    """A task's module as text: what the compiler writes, compressed, in base64."""
    return base64.b64encode(zlib.compress(module_to_json(task.mod).encode(), 9)).decode()


def task_of_entry(entry: WhitelistEntry, target: str) -> TuningTask:
    """The kernel of an entry as a task for a canonical target.

    Raises SpaceError where its text is no kernel, or not the kernel that the entry says it is.
    """
    who, remedy = f"whitelist entry {entry.entry_id}", "Remove it, and add the schedule again."
    try:
        unpacking = zlib.decompressobj()
        content = unpacking.decompress(base64.b64decode(entry.workload, validate=True), _MAX_BYTES)
        if unpacking.unconsumed_tail:
            raise ValueError(f"it is longer than {_MAX_BYTES >> 20} MiB")
        task = task_of(entry.task_name, 1, _module(content.decode()), target)
    except (binascii.Error, zlib.error, ValueError, AttributeError, KeyError, *SCHEDULE_ERRORS) as error:
        why = last_line(str(error))
        raise SpaceError("its kernel cannot be read", who=who, got=why, remedy=remedy) from error
    if task is None or not entry.is_for(task):
        raise SpaceError("its kernel is another than it says", who=who, remedy=remedy)
    return task


def entry_for(
    task: TuningTask,
    sketch: Sketch,
    decisions: Sequence[tuple[int, ...]],
    trace_json: str,
    checks: Sequence[Check],
    *,
    by: str,
    at: float,
    note: str,
    source: str,
) -> WhitelistEntry:
    """A schedule of a task as an entry. Raises SpaceError for a kernel whose class cannot be read."""
    if task.kernel_class is None:
        raise SpaceError(
            "the kernel's class cannot be read, so no entry could be found again", who=f"task {task.name}"
        )
    return WhitelistEntry(
        kernel_class=task.kernel_class,
        task_name=task.name,
        target=task.target,
        arg_shapes=task.arg_shapes,
        arg_dtypes=task.arg_dtypes,
        flop_count=task.flop_count,
        sketch_id=sketch.sketch_id,
        choices=tuple(
            Choice(variable.name, variable.kind, tuple(decision), variable.subject)
            for variable, decision in zip(sketch.variables, decisions, strict=True)
        ),
        added_by=by,
        added_at=at,
        note=note,
        source=source,
        checks=tuple(checks),
        trace_json=without_postprocessing(trace_json),
        workload=workload_text(task),
    )


def _module(text: str) -> Any:
    import_tvm()
    from tvm.ir import load_json

    return load_json(text)
