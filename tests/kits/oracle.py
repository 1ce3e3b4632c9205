"""The compiler as an oracle: random candidates of a design space and what TVM makes of each."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from kits.workloads import TARGETS, WORKLOADS

from prune_engine.candidates import CandidateBatch, Decision
from prune_engine.metaschedule import traces
from prune_engine.metaschedule._compat import import_tvm, load_intrinsics
from prune_engine.metaschedule.materialise import SCHEDULE_ERRORS, Materialiser, last_line
from prune_engine.metaschedule.targets import architecture_of, make_target, resolve_target
from prune_engine.metaschedule.workloads.loading import load_tasks
from prune_engine.space import DesignSpace, Sketch
from prune_engine.task import TuningTask

#: GPUs whose limits or instructions differ: shared memory per block, asynchronous copies, tensor cores.
GPUS = {"a100": "nvidia/nvidia-a100", "t4": "nvidia/nvidia-t4", "h100": "nvidia/nvidia-h100"}

_VERIFY = "VerifyGPUCode"
#: Candidates drawn for each one that is wanted.
_POOL_FACTOR = 100


@dataclass(frozen=True)
class Realised:
    """One candidate as TVM builds it.

    ``decisions`` are those that TVM made of the ones asked for. ``mod`` is the module after all
    post-processors, None if one of them or the replay refused it (``refusal`` says which and why).
    ``checked`` is what VerifyGPUCode saw and ``is_accepted`` what it said; None where it does not run.
    """

    asked: tuple[Decision, ...]
    decisions: tuple[Decision, ...]
    mod: Any
    refusal: str | None
    checked: Any = None
    is_accepted: bool | None = None

    @property
    def is_repaired(self) -> bool:
        return self.asked != self.decisions

    @property
    def is_legal(self) -> bool:
        return self.mod is not None and self.is_accepted is not False


class Oracle:
    """TVM's own replay and post-processors for one kernel and target."""

    def __init__(self, task: TuningTask) -> None:
        self._tvm = import_tvm()
        load_intrinsics(architecture_of(task.target))
        from tvm.s_tir import meta_schedule as ms

        self._task = task
        context = ms.TuneContext(
            mod=task.mod,
            target=make_target(task.target),
            space_generator="post-order-apply",
            num_threads=1,
            rand_state=1,
        )
        self._context = context
        self._postprocs = [(type(p).__name__, p) for p in context.space_generator.postprocs or []]

    def realise(self, sketch: Sketch, decisions: tuple[Decision, ...]) -> Realised:
        """Replay and post-process; a kernel that VerifyGPUCode refuses is still post-processed to the end."""
        schedule = self._tvm.s_tir.Schedule(self._task.mod, seed=1, debug_mask="none")
        checked, is_accepted, actual = None, None, decisions
        step = "replay"
        try:
            traces.trace_with(sketch, decisions).apply_to_schedule(schedule, remove_postproc=True)
            actual = traces.decisions_of(schedule.trace)
            schedule.enter_postproc()
            for step, postproc in self._postprocs:
                if step == _VERIFY:
                    checked, is_accepted = schedule.mod, bool(postproc.apply(schedule))
                elif not postproc.apply(schedule):
                    return Realised(decisions, actual, None, f"refused by {step}", checked, is_accepted)
        except SCHEDULE_ERRORS as error:
            return Realised(decisions, actual, None, f"{step}: {last_line(str(error))}", checked, is_accepted)
        return Realised(decisions, actual, schedule.mod, None, checked, is_accepted)


@lru_cache(maxsize=4)
def case(workload: str, target: str) -> tuple[DesignSpace, Oracle]:
    """The design space of a workload (a name of WORKLOADS) for a target (of TARGETS or GPUS), and its oracle."""
    text = WORKLOADS[workload].text
    (task,) = load_tasks(text, resolve_target({**TARGETS, **GPUS}[target], 4))
    return Materialiser(task, seed=0).design_space(), Oracle(task)


def random_batch(space: DesignSpace, sketch: Sketch, n: int, seed: int = 0) -> CandidateBatch:
    """n candidates, each choice drawn evenly from its table; the same for the same arguments and structure."""
    rng = np.random.default_rng(_seed_of(sketch, seed))
    columns = [rng.choice(variable.rows, size=n) for variable in sketch.variables]
    indices = np.stack(columns, axis=1) if columns else np.empty((n, 0))
    return CandidateBatch(space, sketch, np.ascontiguousarray(indices, dtype=np.int32))


def kept_batch(space: DesignSpace, sketch: Sketch, n: int, seed: int = 0) -> CandidateBatch:
    """``random_batch``, and on top as many as it takes for n whose decisions are predicted to be kept.

    Where compute locations are decided, TVM repairs most random decisions. There may be fewer where they are rare.
    """
    assert sketch.nests is not None, "an opaque sketch has no prediction"
    first = random_batch(space, sketch, n, seed)
    n_missing = n - int(sketch.nests.canonical(first.indices).sum())
    if not n_missing:
        return first
    pool = random_batch(space, sketch, n_missing * _POOL_FACTOR, seed + 1)
    kept = pool.indices[sketch.nests.canonical(pool.indices)][:n_missing]
    return CandidateBatch(space, sketch, np.concatenate([first.indices, kept]))


def _seed_of(sketch: Sketch, seed: int) -> int:
    digest = hashlib.blake2b(f"{sketch.sketch_id}|{sketch.index}|{seed}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little")
