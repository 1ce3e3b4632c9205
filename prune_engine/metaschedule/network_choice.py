"""Schedules decided inside the network: what is best alone need not be best between other kernels.

A kernel is measured alone, with its data in the caches; the pick of many such measurements also owes something to
luck. So of kernels that take a good part of the run time the next best schedules and the untuned kernel are timed
in the whole model, too, and what is fastest there ships. (Transfer-Tuning, PACT 2022, found whole models slower
with a larger pool of schedules: more choice by single measurements.)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from prune_engine.lifecycle import TaskResult
from prune_engine.metaschedule.apply import Winner
from prune_engine.metaschedule.network_profile import KernelSecs, profile_networks

#: Share of the run time from which on a kernel is decided in the network.
_MIN_SHARE = 0.05
#: Schedules of a kernel that take part, the untuned kernel besides.
_MAX_CONTENDERS = 3
#: Another one is taken if it is faster by more than this: less is noise.
_MIN_GAIN = 0.02

UNTUNED = "untuned"
#: Compiles a model with schedules and writes it to a folder.
Compile = Callable[[Sequence[Winner]], Path]


@dataclass(frozen=True, slots=True)
class NetworkChoice:
    """What ships, and which kernels got something else in the network than alone, as sentences."""

    winners: tuple[Winner, ...]
    changes: tuple[str, ...] = ()


def choose_in_network(
    tasks: Sequence[TaskResult],
    names: Mapping[str, Sequence[str]],
    untuned: Path,
    compile_with: Compile,
    *,
    n_threads: int,
    seed: int,
    budget_secs: float,
) -> NetworkChoice:
    """Decide in the network for kernels above 5 % of the run time; all others keep what was best alone.

    ``names`` gives the functions of the model that each task stands for, ``untuned`` is the folder of the untuned
    model. There are as many more compilations as a kernel has contenders, at most three.
    """
    contested = contested_tasks(tasks)
    best = tuple(Winner(t.summary.task_id, t.trace_json) for t in tasks if t.trace_json is not None)
    if not contested:
        return NetworkChoice(best)
    depth = max(len(task.contenders[:_MAX_CONTENDERS]) for task in contested)
    dirs = {UNTUNED: untuned}
    for level in range(depth):
        same = dict.fromkeys((task.summary.task_id for task in contested), level)
        dirs[str(level)] = compile_with(with_contenders(best, contested, same))
    profiles = profile_networks(dirs, n_threads=n_threads, seed=seed, budget_secs=budget_secs)
    levels = choose(contested, names, profiles)
    changes = [
        f"{task.summary.name}: {_ordinal(levels[task.summary.task_id])} is faster in the model"
        for task in contested
        if levels[task.summary.task_id] != 0
    ]
    return NetworkChoice(with_contenders(best, contested, levels), tuple(changes))


def contested_tasks(tasks: Sequence[TaskResult]) -> list[TaskResult]:
    """Tasks with a measured winner that take more than 5 % of the time that all kernels take."""
    secs = {t.summary.task_id: t.summary.weight * (t.summary.best_secs or 0.0) for t in tasks}
    total = sum(secs.values())
    return [t for t in tasks if t.contenders and secs[t.summary.task_id] > _MIN_SHARE * total]


def with_contenders(
    best: Sequence[Winner], contested: Sequence[TaskResult], levels: Mapping[str, int | None]
) -> tuple[Winner, ...]:
    """The winners with a contender of each contested task: that of its level, or the last; None is untuned."""
    chosen = {winner.task_id: winner for winner in best}
    for task in contested:
        identity = task.summary.task_id
        level = levels[identity]
        if level is None:
            chosen.pop(identity, None)
        else:
            traces = task.contenders[:_MAX_CONTENDERS]
            chosen[identity] = Winner(identity, traces[min(level, len(traces) - 1)])
    return tuple(chosen.values())


def choose(
    contested: Sequence[TaskResult], names: Mapping[str, Sequence[str]], profiles: Mapping[str, KernelSecs]
) -> dict[str, int | None]:
    """The level of each contested task that is fastest in the network, None for the untuned kernel."""
    levels: dict[str, int | None] = {}
    for task in contested:
        identity = task.summary.task_id
        n_levels = len(task.contenders[:_MAX_CONTENDERS])
        keys: list[tuple[int | None, str]] = [(None, UNTUNED), *((level, str(level)) for level in range(n_levels))]
        known = {
            level: secs
            for level, key in keys
            if (secs := sum(profiles.get(key, {}).get(name, 0.0) for name in names.get(identity, ()))) > 0
        }
        levels[identity] = 0
        if 0 in known:
            fastest = min(known, key=lambda level: known[level])
            levels[identity] = fastest if known[fastest] < known[0] * (1 - _MIN_GAIN) else 0
    return levels


def _ordinal(level: int | None) -> str:
    return "the untuned kernel" if level is None else f"schedule {level + 1} of its finals"
