"""What a finished task adds to the library: its best schedules, with all that re-fitting them will need."""

from __future__ import annotations

import json
import statistics
from dataclasses import dataclass
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version

from prune_engine.hardware.schema import HardwareProfile
from prune_engine.library.entries import Choice, LibraryEntry, Origin
from prune_engine.loop.task_state import Incumbent, TaskState
from prune_engine.measurement import DEFAULT_CANDIDATE, Comparison
from prune_engine.space import Sketch
from prune_engine.symbols.table import SYMBOLS_VERSION

#: A schedule that is slower than the default by more than this is no gain to anybody.
_CONTENDER_RATIO = 1.05
#: Where post-processing begins in the compiler's text of a schedule.
_ENTER_POSTPROC = "EnterPostproc"
_COMPILER = "apache-tvm"


@dataclass(frozen=True, slots=True)
class HarvestContext:
    """Where a task was tuned. ``model`` names what its kernel is a part of; ``keep`` schedules of it are kept."""

    device_name: str
    n_threads: int
    profile: HardwareProfile
    model: str
    keep: int = 3


def harvest(
    state: TaskState, comparison: Comparison | None, context: HarvestContext, *, measured_at: float
) -> list[LibraryEntry]:
    """The library's entries of a finished task, best first; none where nothing of it is worth keeping.

    The run times are those of ``comparison``, the finals in which schedules were timed in turns, where it has any.
    ``measured_at`` is seconds since the epoch.
    """
    task = state.task
    if task.kernel_class is None or state.space is None:
        return []
    timed = _times(comparison)
    default = timed.get(DEFAULT_CANDIDATE)
    default_secs = statistics.median(default) if default else state.default_secs
    found: list[LibraryEntry] = []
    for one in _best(state, timed, context.keep, default_secs):
        sketch = _sketch_of(state, one)
        if sketch is None or one.trace_json is None:
            continue
        run_secs = timed.get(one.candidate.candidate_id) or (one.latency_secs,)
        entry = LibraryEntry(
            kernel_class=task.kernel_class,
            target=task.target,
            device_name=context.device_name,
            n_threads=context.n_threads,
            sketch_id=sketch.sketch_id,
            choices=tuple(
                Choice(variable.name, variable.kind, decision, variable.subject)
                for variable, decision in zip(sketch.variables, one.candidate.decisions, strict=True)
            ),
            trace_json=without_postprocessing(one.trace_json),
            run_secs=run_secs,
            default_secs=default_secs,
            flop_count=task.flop_count,
            peak_flop_per_sec=peak_flop_per_sec(context.profile, task.arg_dtypes[:1]),
            n_trials=state.n_trials,
            model=context.model,
            task_name=task.name,
            origin=Origin.TUNED,
            tvm_version=compiler_version(),
            symbols_version=SYMBOLS_VERSION,
            measured_at=measured_at,
            rank=len(found),
        )
        found.append(entry)
    return found


def without_postprocessing(trace_json: str) -> str:
    """A schedule as TVM writes it, ``[instructions, decisions]``, up to where post-processing begins.

    The text of another compiler is returned as it is.
    """
    try:
        instructions, decisions = json.loads(trace_json)
        end = [inst[0] for inst in instructions].index(_ENTER_POSTPROC)
        kept = [decision for decision in decisions if decision[0] < end]
    except (TypeError, LookupError, ValueError):
        return trace_json
    return json.dumps([instructions[:end], kept], separators=(",", ":"))


def peak_flop_per_sec(profile: HardwareProfile, dtypes: tuple[str, ...]) -> float | None:
    """The most that any unit of a device does with the first of ``dtypes``; None where its profile does not say."""
    rates = [unit.peak_flop_per_sec.get(dtype) for unit in profile.compute for dtype in dtypes[:1]]
    return max((rate.value for rate in rates if rate is not None), default=None)


@lru_cache(maxsize=1)
def compiler_version() -> str:
    """The version of TVM that is installed, told without importing it; empty without one."""
    try:
        return version(_COMPILER)
    except PackageNotFoundError:
        return ""


def _best(
    state: TaskState, timed: dict[str, tuple[float, ...]], keep: int, default_secs: float | None
) -> list[Incumbent]:
    """The schedules worth keeping, best first: by the finals if they were in them, else by their measurement."""

    def secs(one: Incumbent) -> float:
        run_secs = timed.get(one.candidate.candidate_id)
        return statistics.median(run_secs) if run_secs else one.latency_secs

    limit = float("inf") if default_secs is None else _CONTENDER_RATIO * default_secs
    # Finals time the best few, so whoever was not in them is behind those who were.
    in_finals = sorted((one for one in state.ranking if one.candidate.candidate_id in timed), key=secs)
    others = [one for one in state.ranking if one.candidate.candidate_id not in timed]
    return [one for one in (*in_finals, *others)[:keep] if secs(one) <= limit]


def _times(comparison: Comparison | None) -> dict[str, tuple[float, ...]]:
    if comparison is None:
        return {}
    return {i: secs for i, secs in zip(comparison.candidate_ids, comparison.run_secs, strict=True) if secs}


def _sketch_of(state: TaskState, one: Incumbent) -> Sketch | None:
    sketches = state.bench_space.sketches
    index = one.candidate.sketch_index
    sketch = sketches[index] if index < len(sketches) else None
    # A candidate of an earlier version's space may have other variables.
    return sketch if sketch is not None and len(sketch.variables) == len(one.candidate.decisions) else None
