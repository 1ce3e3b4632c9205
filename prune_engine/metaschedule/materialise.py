"""Candidates as schedules: design spaces from TVM, and the post-processed module of one candidate.

This is the only place a candidate costs compiler time (1-3 ms), so only what is to be measured comes here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from prune_engine.candidates import Candidate, Decision, candidate_id, rows_of
from prune_engine.errors import SpaceError
from prune_engine.measurement import MeasureError, MeasureErrorKind
from prune_engine.metaschedule import traces
from prune_engine.metaschedule._compat import import_tvm, load_intrinsics
from prune_engine.metaschedule.fixed_sketches import sketch_of_fixed, without_postprocessing
from prune_engine.metaschedule.interpreter.check import mismatch
from prune_engine.metaschedule.interpreter.reader import KernelReader
from prune_engine.metaschedule.interpreter.source import TargetFacts
from prune_engine.metaschedule.interpreter.tree import NotInterpretedError
from prune_engine.metaschedule.overflow_guard import OverflowGuard
from prune_engine.metaschedule.targets import architecture_of, gpu_limits
from prune_engine.space import DesignSpace, Sketch
from prune_engine.task import TuningTask

#: What a replay or a post-processor raises: ScheduleError and InternalError are RuntimeErrors; TVM's other
#: errors come as Python's of the same name.
SCHEDULE_ERRORS = (RuntimeError, ValueError, TypeError, LookupError)


#: Architectures whose schedule primitives and post-processors the interpreter knows.
_READ_ARCHITECTURES = ("x86", "arm", "cuda")
_VERIFIER = "VerifyGPUCode"
#: Candidates per sketch on which a reading is compared with TVM's result.
_N_CHECKED = 2


@dataclass(frozen=True, slots=True)
class Materialised:
    """A candidate as it will be built. ``candidate`` is what TVM made of the decisions asked for."""

    candidate: Candidate
    module_json: str
    trace_json: str


@dataclass(frozen=True, slots=True)
class Scheduled:
    """A candidate as TVM's schedule, post-processed. ``candidate`` is what TVM made of the decisions asked for."""

    candidate: Candidate
    schedule: Any


class Materialiser:
    """One task's schedules. Not thread-safe: TVM's context is not."""

    def __init__(self, task: TuningTask, seed: int, postprocs: Sequence[Any] | None = None) -> None:
        """Set up TVM's context for the task. Raises SpaceError.

        With ``postprocs``, those of a context that somebody else has, none is set up: then there is no design space
        but of traces that are handed over (``space_of``).
        """
        tvm = import_tvm()
        load_intrinsics(architecture_of(task.target))
        from tvm.s_tir import meta_schedule as ms

        self._tvm = tvm
        self._task = task
        self._overflow_guard = OverflowGuard(task.mod, task.arg_dtypes)
        self._read_by: tuple[KernelReader | None, str] | None = None
        if postprocs is not None:
            self._context: Any = None
            self._postprocs = list(postprocs)
            return
        try:
            self._context = ms.TuneContext(
                mod=task.mod,
                target=tvm.target.Target(task.target),
                space_generator="post-order-apply",
                task_name=task.name,
                num_threads=1,
                rand_state=seed + 1,  # TVM wants >= 1
            )
            self._postprocs = list(self._context.space_generator.postprocs or [])
        except SCHEDULE_ERRORS as error:
            raise _space_error(task, error) from error

    def design_space(self) -> DesignSpace:
        """Generate the task's sketches. Raises SpaceError."""
        try:
            schedules = self._context.generate_design_space()
        except SCHEDULE_ERRORS as error:
            raise _space_error(self._task, error) from error
        return self.space_of([schedule.trace for schedule in schedules])

    def space_of(self, found: Sequence[Any]) -> DesignSpace:
        """The sketches that some traces of the task's kernel are. Raises SpaceError."""
        known: traces.LocationTables = {}
        return DesignSpace(self._task, tuple(self.sketch(index, one, known) for index, one in enumerate(found)))

    def sketch(self, index: int, trace: Any, known: traces.LocationTables | None = None) -> Sketch:
        """A trace as sketch number ``index``. Raises SpaceError for what cannot be a sketch.

        ``known`` carries what is found out about compute locations from one sketch to the next.
        """
        try:
            reader, reason = self._reader()
            return self._sketch(index, trace, reader, reason, {} if known is None else known)
        except SCHEDULE_ERRORS as error:
            raise _space_error(self._task, error) from error

    def _reader(self) -> tuple[KernelReader | None, str]:
        """Who reads this task's sketches, or why nobody can."""
        if self._read_by is None:
            self._read_by = self._new_reader()
        return self._read_by

    def _new_reader(self) -> tuple[KernelReader | None, str]:
        kind = architecture_of(self._task.target)
        facts = TargetFacts("cuda" if kind == "cuda" else "llvm", gpu_limits(self._task.target))
        if kind not in _READ_ARCHITECTURES or (kind == "cuda" and facts.limits is None):
            return None, f"schedules for {kind} are not read"
        try:
            return KernelReader(self._task.mod, facts), ""
        except Exception as error:  # noqa: BLE001 (whatever the reader trips over, the sketch is opaque)
            return None, _reason(error)

    def _sketch(
        self, index: int, trace: Any, reader: KernelReader | None, reason: str, known: traces.LocationTables
    ) -> Sketch:
        """A trace as a sketch, read if it can be: a reading that TVM contradicts is not used."""
        plain = None
        try:
            if reader is not None:
                locate = partial(reader.locations, trace)
                plain = traces.sketch_of(index, trace, self._task.mod, known, locate)
                sketch = reader.interpreted(plain, trace)
                reason = self._contradiction(sketch)
                if not reason:
                    return sketch
        except Exception as error:  # noqa: BLE001 (whatever the reader trips over, the sketch is opaque)
            reason = _reason(error)
        sketch = plain or traces.sketch_of(index, trace, self._task.mod, known)
        return replace(sketch, opaque_reason=reason)

    def _contradiction(self, sketch: Sketch) -> str:
        """How TVM's own result differs for a few candidates; empty if it does not."""
        assert sketch.nests is not None
        rng = np.random.default_rng(0)
        for _ in range(_N_CHECKED):
            rows = [int(rng.choice(variable.rows)) for variable in sketch.variables]
            decisions = tuple(tuple(v.table[r].tolist()) for v, r in zip(sketch.variables, rows, strict=True))
            schedule = self._replayed(sketch, decisions)
            if schedule is None:
                continue
            actual = rows_of(sketch, traces.decisions_of(schedule.trace))
            if actual is None:
                return "a decision of TVM's is in no choice table"
            if not all(p.apply(schedule) for p in self._postprocs if _name(p) != _VERIFIER):
                continue  # refused half-way
            found = mismatch(sketch.nests, actual[None, :], schedule.mod)
            if found:
                return found
        return ""

    def fixed_sketch(self, space: DesignSpace, trace_json: str) -> Sketch:
        """A schedule as the only candidate of a sketch, numbered after those of ``space``. Raises SpaceError.

        What the compiler repairs on replay is repaired in the sketch.
        """
        from tvm.s_tir.schedule import Trace

        schedule = self._tvm.s_tir.Schedule(self._task.mod, seed=1, debug_mask="none")
        try:
            Trace.apply_json_to_schedule(without_postprocessing(trace_json), schedule)
            return sketch_of_fixed(len(space.sketches), schedule.trace)
        except SCHEDULE_ERRORS as error:
            raise SpaceError(
                f"the schedule does not fit the kernel: {last_line(str(error))}",
                who=f"task {self._task.name}",
                remedy="It is left out.",
            ) from error

    def _replayed(self, sketch: Sketch, decisions: Sequence[Decision]) -> Any:
        """The schedule of a candidate before post-processing, None if TVM refuses it."""
        schedule = self._tvm.s_tir.Schedule(self._task.mod, seed=1, debug_mask="none")
        try:
            traces.trace_with(sketch, decisions).apply_to_schedule(schedule, remove_postproc=True)
        except SCHEDULE_ERRORS:
            return None
        schedule.enter_postproc()
        return schedule

    def materialise(self, space: DesignSpace, candidate: Candidate) -> Materialised | MeasureError:
        """Replay and post-process a candidate; a refusal is a SCHEDULE_ERROR, not an exception."""
        made = self.scheduled(space, candidate)
        if isinstance(made, MeasureError):
            return made
        trace_json = traces.trace_to_json(made.schedule.trace)
        return Materialised(made.candidate, module_to_json(made.schedule.mod), trace_json)

    def scheduled(self, space: DesignSpace, candidate: Candidate) -> Scheduled | MeasureError:
        """As ``materialise``, as TVM's own object."""
        sketch = space.sketches[candidate.sketch_index]
        schedule = self._tvm.s_tir.Schedule(self._task.mod, seed=1, debug_mask="none")
        try:
            traces.trace_with(sketch, candidate.decisions).apply_to_schedule(schedule, remove_postproc=True)
            actual = traces.decisions_of(schedule.trace)
            schedule.enter_postproc()
            for postproc in self._postprocs:
                if not postproc.apply(schedule):
                    return MeasureError(MeasureErrorKind.SCHEDULE_ERROR, f"refused by {_name(postproc)}")
            if problem := self._overflow_guard.problem(schedule.mod):
                return MeasureError(MeasureErrorKind.SCHEDULE_ERROR, problem)
        except (*SCHEDULE_ERRORS, SpaceError) as error:  # SpaceError: decisions that the sketch does not offer
            return MeasureError(MeasureErrorKind.SCHEDULE_ERROR, last_line(str(error)))
        identity = candidate_id(self._task.task_id, sketch.sketch_id, actual)
        return Scheduled(Candidate(identity, candidate.sketch_index, actual), schedule)


def module_to_json(mod: Any) -> str:
    """A module as text that the build processes can load."""
    from tvm.ir import save_json

    return str(save_json(mod))


def last_line(message: str) -> str:
    """The line of a TVM error that says what is wrong: the last one with text, at most 300 characters."""
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    return lines[-1][:300] if lines else "no message"


def _reason(error: Exception) -> str:
    return str(error) if isinstance(error, NotInterpretedError) else f"{type(error).__name__}: {error}"


def _name(postproc: Any) -> str:
    return type(postproc).__name__


def _space_error(task: TuningTask, error: Exception) -> SpaceError:
    return SpaceError(
        f"no design space can be generated: {last_line(str(error))}",
        who=f"task {task.name}",
        remedy="The task keeps its default schedule.",
    )
