"""What the runs of a comparison say: the quality aimed at, when each run reached it, and the ratios."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from comparison_state import Retiming, Run, State

#: Whose best at the end of its trials is the quality that all are held against, and what it ships as.
BASELINE, SHIPPED = "metaschedule-pool", "metaschedule"


@dataclass(frozen=True)
class Reached:
    """When a run had a schedule of the quality aimed at: trials, valid ones among them, seconds from its start."""

    n_trials: int
    n_valid: int
    secs: float


@dataclass(frozen=True)
class Row:
    """One system on one task, medians over its seeds.

    ``reached`` is None if not all seeds got there; ``best_ratio`` is the quality aimed at over the best found, so
    above 1 the system was better. ``trial_ratio`` and ``secs_ratio`` are how many times more the baseline spent.
    """

    system: str
    task: str
    n_seeds: int
    n_reached: int
    n_trials: int
    best_ratio: float
    reached: Reached | None
    trial_ratio: float | None
    trial_ratio_to_same: float | None
    secs_ratio: float | None
    shipped_ratio: float | None


def quality_secs(state: State, task: str) -> float | None:
    """What the baseline's best schedule takes: the median over its seeds, by the re-timing."""
    retiming = state.retimings.get(task)
    bests = [best_secs(run, retiming) for run in runs_of(state, BASELINE, task)]
    known = [best for best in bests if best is not None]
    return statistics.median(known) if known else None


def best_secs(run: Run, retiming: Retiming | None) -> float | None:
    """The best of a run's successive bests by the re-timing."""
    return min((secs for _, secs in _retimed(run, retiming)), default=None)


def reached(run: Run, retiming: Retiming | None, goal_secs: float) -> Reached | None:
    """The first trial after which the run had a schedule that takes at most ``goal_secs``."""
    for number, secs in _retimed(run, retiming):
        if secs <= goal_secs:
            n_valid = sum(trial.latency_secs is not None for trial in run.trials[:number])
            return Reached(number, n_valid, run.trials[number - 1].secs)
    return None


def rows(state: State, tasks: Sequence[str], systems: Sequence[str], tolerance: float) -> list[Row]:
    """A row per system and task that both were run; ``tolerance`` is what counts as equal, as a share."""
    found = []
    for task in tasks:
        goal = quality_secs(state, task)
        if goal is None:
            continue
        found += [row for system in systems if (row := _row(state, system, task, goal, tolerance)) is not None]
    return found


def _row(state: State, system: str, task: str, quality: float, tolerance: float) -> Row | None:
    retiming = state.retimings.get(task)
    runs = [run for run in runs_of(state, system, task) if best_secs(run, retiming) is not None]
    if not runs:
        return None
    bests = [best for run in runs if (best := best_secs(run, retiming)) is not None]
    goals = [reached(run, retiming, quality * (1 + tolerance)) for run in runs]
    got_there = [goal for goal in goals if goal is not None]
    median = _median(got_there) if len(got_there) == len(runs) else None
    baseline = runs_of(state, BASELINE, task)
    n_baseline = statistics.median(len(run.trials) for run in baseline)
    baseline_secs = statistics.median(run.wall_secs for run in baseline)
    same = [goal for run in baseline if (goal := reached(run, retiming, quality * (1 + tolerance))) is not None]
    shipped_secs = shipped_wall_secs(state, task, n_baseline)
    return Row(
        system=system,
        task=task,
        n_seeds=len(runs),
        n_reached=len(got_there),
        n_trials=max(len(run.trials) for run in runs),
        best_ratio=quality / statistics.median(bests),
        reached=median,
        trial_ratio=n_baseline / median.n_trials if median else None,
        trial_ratio_to_same=_median(same).n_trials / median.n_trials if median and same else None,
        secs_ratio=baseline_secs / median.secs if median else None,
        shipped_ratio=shipped_secs / median.secs if median and shipped_secs is not None else None,
    )


def shipped_wall_secs(state: State, task: str, n_trials: float) -> float | None:
    """What TVM as it ships takes for so many trials of a task: the seconds per trial of its run, scaled."""
    runs = runs_of(state, SHIPPED, task)
    if not runs or not runs[0].trials:
        return None
    run = runs[0]
    return run.ready_secs + (run.trials[-1].secs - run.ready_secs) / len(run.trials) * n_trials


def runs_of(state: State, system: str, task: str) -> list[Run]:
    """Runs of a system on a task, by seed."""
    found = [run for run in state.runs.values() if (run.system, run.task) == (system, task)]
    return sorted(found, key=lambda run: run.seed)


def geometric_mean(values: Iterable[float | None]) -> float | None:
    """Of those that are known."""
    known = [value for value in values if value is not None]
    return math.exp(statistics.mean(map(math.log, known))) if known else None


def curve(run: Run, axis: str) -> tuple[list[float], list[float]]:
    """Best latency (seconds) by ``trials``, ``secs`` or ``valid`` proposals, as the run itself measured it."""
    at: list[float] = []
    best: list[float] = []
    n_valid = 0
    for number, trial in enumerate(run.trials, 1):
        n_valid += trial.latency_secs is not None
        if trial.latency_secs is None or trial.is_censored:
            continue
        if not best or trial.latency_secs < best[-1]:
            at.append({"trials": number, "secs": trial.secs, "valid": n_valid}[axis])
            best.append(trial.latency_secs)
    if run.trials and best:  # it went on to here
        at.append({"trials": len(run.trials), "secs": run.trials[-1].secs, "valid": n_valid}[axis])
        best.append(best[-1])
    return at, best


def _retimed(run: Run, retiming: Retiming | None) -> list[tuple[int, float]]:
    if retiming is None:
        return []
    keys: Mapping[tuple[str, int, int], float] = retiming.latency_secs
    return [
        (one.trial, keys[run.system, run.seed, one.trial])
        for one in run.improvements
        if (run.system, run.seed, one.trial) in keys
    ]


def _median(goals: Sequence[Reached]) -> Reached:
    return Reached(
        round(statistics.median(goal.n_trials for goal in goals)),
        round(statistics.median(goal.n_valid for goal in goals)),
        statistics.median(goal.secs for goal in goals),
    )
