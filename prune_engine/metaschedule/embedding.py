"""Design spaces for programs that embed the engine: of a kernel by name, of an IRModule, or of given traces."""

from __future__ import annotations

import json
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from prune_engine.bounded_files import json_of
from prune_engine.candidates import CandidateBatch, rows_of
from prune_engine.errors import ConfigError, SpaceError
from prune_engine.hardware.host import usable_cpus
from prune_engine.metaschedule import traces
from prune_engine.metaschedule._compat import import_tvm
from prune_engine.metaschedule.fixed_sketches import without_postprocessing
from prune_engine.metaschedule.forked import crash_of
from prune_engine.metaschedule.materialise import SCHEDULE_ERRORS, Materialiser, last_line
from prune_engine.metaschedule.relax_tasks import task_of
from prune_engine.metaschedule.targets import resolve_target
from prune_engine.metaschedule.trace_json import TraceWriter
from prune_engine.metaschedule.workloads.loading import load_tasks
from prune_engine.space import DesignSpace, Sketch
from prune_engine.task import TuningTask

_MAIN = "main"


@dataclass(frozen=True, slots=True)
class EmbeddedSpace:
    """A design space and, where traces were given to be judged, the candidates that they are.

    ``positions[i]`` are the numbers of the given traces in the rows of ``candidates[i]``, which has a batch per
    sketch that any of them belongs to.
    """

    space: DesignSpace
    candidates: tuple[CandidateBatch, ...] = ()
    positions: tuple[tuple[int, ...], ...] = ()


def workload_space(
    what: str, target: str, *, n_threads: int | None = None, task: str | None = None
) -> EmbeddedSpace:
    """The space of a kernel of a workload name or of a file; ``task`` names one of several, or its number from 1.

    Raises what reading it raises, ConfigError for a task that there is not, and SpaceError.
    """
    tasks = load_tasks(what, _canonical(target, n_threads))
    found = [one for number, one in enumerate(tasks, 1) if task is None or task in (one.name, str(number))]
    if len(found) != 1:
        names = ", ".join(f"{number} ({one.name})" for number, one in enumerate(tasks[:12], 1))
        problem = (
            "no such kernel" if task is not None else "there are several kernels" if tasks else "there is no kernel"
        )
        raise ConfigError(problem, who=what, got=task, expected=f"`task` is one of: {names or 'none'}")
    return EmbeddedSpace(Materialiser(found[0], 0).design_space())


def module_space(
    module: object,
    target: object,
    *,
    name: str = "kernel",
    n_threads: int | None = None,
    sketches: Sequence[object] | None = None,
    candidates: Sequence[object] | None = None,
) -> EmbeddedSpace:
    """The space of a module whose ``main`` is a PrimFunc, given as an IRModule or as the text of its `save_json`.

    ``sketches`` are traces whose decisions are open; None has MetaSchedule generate them. ``candidates`` are traces
    to be judged with the decisions that they hold; without ``sketches`` they bring their own. A trace is a Trace,
    a Schedule, or the JSON of a Trace as text or as lists; post-processing instructions in it are left out.

    Raises TargetError, ConfigError for what is no module or no kernel, and SpaceError for what does not fit it.
    """
    canonical = _canonical(target, n_threads)
    build = partial(_module_space, module, canonical, name, sketches, candidates)
    given = (module, *(sketches or ()), *(candidates or ()))
    # A damaged text can bring the compiler down, and a process that embeds us must survive that.
    if any(isinstance(one, (str, list)) for one in given) and (crash := crash_of(build)):
        raise ConfigError(
            "the module or a trace cannot be read", who=name, got=crash, expected="what this version of TVM wrote"
        )
    return build()


class TraceTexts:
    """Writes candidates of a space as JSON of their traces: what ``Trace.apply_json_to_schedule`` takes."""

    def __init__(self, space: DesignSpace) -> None:
        self._space = space
        self._writers: dict[int, TraceWriter] = {}

    def of(self, sketch: Sketch, indices: Sequence[int]) -> str:
        """The text of the candidate with these row numbers. Raises SpaceError."""
        if sketch.index not in self._writers:
            self._writers[sketch.index] = TraceWriter(self._space.sketches[sketch.index])
        return self._writers[sketch.index].text(indices)


def _canonical(target: object, n_threads: int | None) -> str:
    said = target if isinstance(target, str) else str(target) if hasattr(target, "kind") else json.dumps(target)
    with warnings.catch_warnings():  # nothing runs here, so what the target says of its cores is right
        warnings.simplefilter("ignore")
        return resolve_target(said, n_threads or len(usable_cpus()))


def _module_space(
    module: object,
    target: str,
    name: str,
    sketches: Sequence[object] | None,
    candidates: Sequence[object] | None,
) -> EmbeddedSpace:
    tvm = import_tvm()
    if isinstance(module, str):
        module = _read(module, name)
    if isinstance(module, tvm.tirx.PrimFunc):
        module = tvm.IRModule({_MAIN: module.with_attr("global_symbol", _MAIN)})
    task = _task(module, target, name)
    materialiser = Materialiser(task, 0)
    if sketches is None and candidates is None:
        return EmbeddedSpace(materialiser.design_space())
    judged = [_replayed(task.mod, trace, f"candidate {at}") for at, trace in enumerate(candidates or ())]
    shapes = judged
    if sketches is not None:
        shapes = [_replayed(task.mod, trace, f"trace {at}") for at, trace in enumerate(sketches)]
    if not shapes:
        raise ConfigError("not one trace is given", who=name, expected="at least one")
    by_structure = {traces.structure_id(trace): trace for trace in reversed(shapes)}
    space = materialiser.space_of(tuple(reversed(by_structure.values())))
    return _with_candidates(space, judged)


def _read(text: str, name: str) -> Any:
    from tvm.ir import load_json

    try:
        json_of(text)
        return load_json(text)
    except Exception as error:  # TVM's reader raises every kind
        raise ConfigError(
            "the module cannot be read",
            who=name,
            got=last_line(str(error)),
            expected="the text that tvm.ir.save_json of this version of TVM writes for an IRModule",
        ) from error


def _task(module: Any, target: str, name: str) -> TuningTask:
    tvm = import_tvm()
    expected = f"an IRModule with a PrimFunc {_MAIN!r}"
    if not isinstance(module, tvm.IRModule):
        raise ConfigError("the module is none", who=name, got=type(module).__name__, expected=expected)
    functions = {str(var.name_hint): func for var, func in module.functions_items()}
    if not isinstance(functions.get(_MAIN), tvm.tirx.PrimFunc):
        raise ConfigError(
            "the module is no kernel", who=name, got=f"functions {sorted(functions)}", expected=expected
        )
    try:
        task = task_of(name, 1, module, target)
    except SCHEDULE_ERRORS as error:
        raise ConfigError(
            "the module is no kernel", who=name, got=last_line(str(error)), expected=expected
        ) from error
    if task is None:
        raise SpaceError("has shapes that are not all numbers", who=name)
    return task


def _replayed(mod: object, given: object, who: str) -> Any:
    """A trace on the kernel, as TVM replays it. Raises SpaceError for what is none, or does not fit."""
    from tvm.s_tir.schedule import Trace

    trace = getattr(given, "trace", given)
    if hasattr(trace, "as_json"):
        trace = traces.trace_to_json(trace)
    try:
        text = trace if isinstance(trace, str) else json.dumps(trace)
        schedule = import_tvm().s_tir.Schedule(mod, seed=1, debug_mask="none")
        Trace.apply_json_to_schedule(without_postprocessing(text), schedule)
    except (*SCHEDULE_ERRORS, AttributeError) as error:
        raise SpaceError(
            f"the trace does not fit the kernel: {last_line(str(error))}",
            who=who,
            expected="a Trace, a Schedule, or the JSON of a Trace of this kernel",
        ) from error
    return schedule.trace


def _with_candidates(space: DesignSpace, judged: Sequence[Any]) -> EmbeddedSpace:
    """The rows of each trace in the sketch that has its structure."""
    sketches = {sketch.sketch_id: sketch for sketch in space.sketches}
    rows: dict[int, list[Any]] = {}
    positions: dict[int, list[int]] = {}
    for at, trace in enumerate(judged):
        sketch = sketches.get(traces.structure_id(trace))
        found = None if sketch is None else rows_of(sketch, traces.decisions_of(trace))
        if sketch is None or found is None:
            problem = (
                "has the structure of none of the given traces"
                if sketch is None
                else "has decisions that its sketch does not offer"
            )
            raise SpaceError(
                f"the trace {problem}", who=f"candidate {at}", remedy="Give its trace as well, or leave it out."
            )
        rows.setdefault(sketch.index, []).append(found)
        positions.setdefault(sketch.index, []).append(at)
    batches = tuple(
        CandidateBatch(space, space.sketches[s], np.array(part, dtype=np.int32).reshape(len(part), -1))
        for s, part in sorted(rows.items())
    )
    return EmbeddedSpace(space, batches, tuple(tuple(positions[b.sketch.index]) for b in batches))
