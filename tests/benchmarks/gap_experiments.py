"""Times what the searches found, the whole model and onnxruntime in turns: the same moments are everybody's."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from gap_assembly import hot_block
from gap_profile import ModelTiming
from gap_records import Experiment, HotBlock, Profile
from gap_search import Kernels, Plan, Schedule
from gap_timing import KernelTiming, TimingJob, own_cache_bytes, time_kernels

from prune_engine.metaschedule._compat import import_tvm
from prune_engine.metaschedule.apply import kernel_names
from prune_engine.metaschedule.importers import ImportedModel
from prune_engine.metaschedule.materialise import module_to_json
from prune_engine.metaschedule.measure.builder import compile_module, link
from prune_engine.metaschedule.targets import make_target

_FIRST, _LONG, _PACKED, _RELAYOUT = "first", "long", "packed", "re-layout"


def experiment(
    kernels: Kernels, task_ids: Sequence[str], budget_secs: float, n_turns: int
) -> tuple[Profile, list[Experiment]]:
    """The model's profile, and of each kernel all of its schedules by themselves, everything in turns.

    Raises as `gap_profile.ModelTiming`, and subprocess.CalledProcessError if a kernel dies.
    """
    plans = [kernels.plan(task_id) for task_id in task_ids]
    constants = constants_of(kernels.subject.load(kernels.n_threads))
    turns: list[dict[str, KernelTiming]] = []
    with TemporaryDirectory() as scratch:
        jobs = [
            job
            for number, plan in enumerate(plans)
            for job in _jobs(plan, constants[plan.task.task_id], kernels.target, Path(scratch) / str(number))
        ]
        with ModelTiming(kernels.subject, kernels.stores.first, kernels.n_threads, budget_secs) as model:
            for _ in range(n_turns):
                turns.append(time_kernels(jobs, kernels.n_threads, own_cache_bytes(kernels.profile)))
                model.take_turn()
            profile = model.profile(is_last=True)
    timings = {
        name: KernelTiming(
            statistics.median(turn[name].streamed_secs for turn in turns),
            statistics.median(turn[name].cached_secs for turn in turns),
        )
        for name in turns[0]
    }
    return profile, [_experiment(kernels, plan, timings, _spread(plan, turns), profile.load) for plan in plans]


def _spread(plan: Plan, turns: Sequence[Mapping[str, KernelTiming]]) -> float:
    """The range over the turns by the median, of the schedule where that is widest."""
    ratios = []
    for name in _schedules(plan):
        secs = [turn[_key(plan, name)].streamed_secs for turn in turns]
        ratios.append((max(secs) - min(secs)) / statistics.median(secs))
    return max(ratios)


def _schedules(plan: Plan) -> dict[str, Schedule]:
    found = {_FIRST: plan.first, _LONG: plan.longer}
    return found if plan.packed is None else {**found, _PACKED: plan.packed}


def _jobs(plan: Plan, constants: tuple[int, ...], target: str, folder: Path) -> Iterable[TimingJob]:
    """All schedules of a kernel, built. Re-arranging an activation has no constants."""
    folder.mkdir()
    named = {**_schedules(plan), **{f"{_RELAYOUT} {number}": one for number, one in enumerate(plan.relayouts)}}
    for name, schedule in named.items():
        library = folder / f"{name}.so".replace(" ", "-")
        object_file = library.with_suffix(".o")
        _compiled(schedule, target).write_to_file(str(object_file))
        link(object_file, library)
        task = schedule.task
        own = () if name.startswith(_RELAYOUT) else constants
        yield TimingJob(_key(plan, name), str(library), task.arg_shapes, task.arg_dtypes, own)


def _key(plan: Plan, name: str) -> str:
    return f"{plan.task.task_id} {name}"


def _experiment(
    kernels: Kernels,
    plan: Plan,
    timings: Mapping[str, KernelTiming],
    spread: float,
    load: tuple[float, float],
) -> Experiment:
    of = {name: timings[_key(plan, name)] for name in _schedules(plan)}
    relayouts = [timings[_key(plan, f"{_RELAYOUT} {number}")] for number in range(len(plan.relayouts))]
    best = plan.first if of[_FIRST].streamed_secs < of[_LONG].streamed_secs else plan.longer
    return Experiment(
        model=kernels.subject.name,
        n_threads=kernels.n_threads,
        task_id=plan.task.task_id,
        first_secs=of[_FIRST].streamed_secs,
        long_secs=of[_LONG].streamed_secs,
        packed_secs=of[_PACKED].streamed_secs if plan.packed else None,
        relayout_secs=sum(one.cached_secs for one in relayouts) if relayouts else None,
        cached_secs={name: timing.cached_secs for name, timing in of.items()},
        packing=plan.packing,
        n_first_trials=plan.n_first_trials,
        n_trials=plan.n_trials,
        n_packed_trials=plan.n_packed_trials,
        block=_hot_block(best, kernels.target),
        packed_block=_hot_block(plan.packed, kernels.target) if plan.packed else None,
        spread=spread,
        load=load,
    )


def _compiled(schedule: Schedule, target: str) -> Any:
    return compile_module(module_to_json(schedule.module()), make_target(target), checks_arguments=False)


def _hot_block(schedule: Schedule, target: str) -> HotBlock | None:
    return hot_block(_compiled(schedule, target).inspect_source("asm"))


def constants_of(model: ImportedModel) -> dict[str, tuple[int, ...]]:
    """Which arguments of each kernel are constants in all its calls, by task."""
    tvm = import_tvm()
    from tvm import relax

    varying: dict[str, set[int]] = {}
    n_arguments: dict[str, int] = {}

    def visit(node: Any) -> None:
        if isinstance(node, relax.Call) and node.args and isinstance(node.args[0], tvm.ir.GlobalVar):
            name, arguments = str(node.args[0].name_hint), node.args[1].fields
            n_arguments[name] = len(arguments)
            varying.setdefault(name, set()).update(
                position for position, argument in enumerate(arguments) if isinstance(argument, relax.Var)
            )

    source: Any = model.mod
    relax.analysis.post_order_visit(source["main"], visit)
    found = {}
    for task_id, names in kernel_names(model).items():
        called = [name for name in names if name in n_arguments]
        everywhere = [set(range(n_arguments[name])) - varying[name] for name in called]
        found[task_id] = tuple(sorted(set.intersection(*everywhere))) if everywhere else ()
    return found
