"""The page and the plots of the comparison with MetaSchedule, from its state file."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path

import comparison_models
import machine
from comparison_quality import (
    BASELINE,
    SHIPPED,
    Row,
    curve,
    geometric_mean,
    quality_secs,
    rows,
    runs_of,
    shipped_wall_secs,
)
from comparison_state import State

PAGE, DATA = "metaschedule.md", "metaschedule.json"
#: Timings of one kernel in one process spread by as much: what is nearer counts as equal.
TOLERANCE = 0.01
_SYSTEMS = ("ours", "random", BASELINE, SHIPPED, "post-optimization")
_AXES = {
    "trials": "trials",
    "secs": "seconds since the start of the process",
    "valid": "valid proposals",
}
_COLOURS = dict(zip(_SYSTEMS, ("C3", "C7", "C0", "C2", "C4"), strict=True))


def write(state: State, tasks: Sequence[str], out: Path) -> Path:
    """Write page, plots and figures to ``out``; return the page."""
    out.mkdir(parents=True, exist_ok=True)
    present = [task for task in tasks if any(run.task == task for run in state.runs.values())]
    found = rows(state, present, _SYSTEMS, TOLERANCE)
    plots = [_plot(state, present, axis, out) for axis in _AXES] if present else []
    figures = {
        "rows": [asdict(row) for row in found],
        "runs": [
            {key: value for key, value in asdict(run).items() if key != "improvements"}
            | {"improvements": [(one.trial, one.latency_secs) for one in run.improvements]}
            for run in state.runs.values()
        ],
        "models": list(state.models.values()),
    }
    (out / DATA).write_text(json.dumps(figures, separators=(",", ":")) + "\n", encoding="utf-8")
    page = out / PAGE
    page.write_text(_page(state, present, found, plots), encoding="utf-8")
    return page


def _page(state: State, tasks: Sequence[str], found: Sequence[Row], plots: Sequence[Path]) -> str:
    ours = [row for row in found if row.system == "ours"]
    parts = [
        "# Against MetaSchedule",
        "Written by `python tests/benchmarks/compare_metaschedule.py`, whose `--help` says how each system is run.",
        "All kernels run on the same number of threads, for the same target. The quality aimed at is the best "
        f"schedule that `{BASELINE}` (TVM's evolutionary search and XGBoost model, our builder and runner) has at "
        "the end of its trials, the median of its seeds. The successive bests of all runs were timed again in "
        f"turns in one process; a run reached the quality with the first that is within {TOLERANCE:.0%} of it. "
        "Seconds count from the start of a run's process, so everything is in them. "
        f"`{SHIPPED}` is `tune_tir` as TVM ships it, with longer time limits for builds; its seconds are "
        "**scaled** from those per trial of a shorter run.",
        _summary(ours),
        "## Trials and seconds to the quality",
        _table(
            [
                "task",
                "quality ms",
                "trials",
                "of",
                "seconds",
                "times fewer trials",
                "times fewer, than to reach it",
                "times faster, our plumbing in both",
                "times faster than as shipped (scaled)",
                "quality / best",
            ],
            [_own_row(state, row) for row in ours],
        ),
        "## All systems",
        "`quality / best` above 1: better than the quality aimed at. The seconds are those of whole runs: start-up "
        "and search, and of `ours` and `random` also re-timing the best, compiling, and timing before and after.",
        _table(
            [
                "task",
                "system",
                "seeds",
                "trials",
                "reached by",
                "quality / best",
                "s",
                "s per trial",
                "valid",
                "load",
            ],
            [_system_row(state, row) for row in found],
        ),
        _shipped(state, tasks),
        "## Curves",
        "As each run measured it itself, one line per seed.",
        *(f"![best latency by {axis}]({plot.name})" for axis, plot in zip(_AXES, plots, strict=False)),
        comparison_models.section(state),
        "## Machine",
        f"When the page was written; the runs are of {_dates(state)}. The load before and after every run is in "
        f"`{DATA}`.",
        machine.as_markdown(),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _summary(ours: Sequence[Row]) -> str:
    if not ours:
        return "No task has runs of both sides, timed again, yet."
    n_reached = sum(row.reached is not None for row in ours)
    lines = [
        f"**{n_reached} of {len(ours)} tasks reached the quality with every seed.** Geometric means over those:"
    ]
    for what, values in (
        ("trials, the baseline's in all over ours", [row.trial_ratio for row in ours]),
        ("trials, the baseline's until it had that quality over ours", [row.trial_ratio_to_same for row in ours]),
        ("seconds, with our builder and runner on both sides", [row.secs_ratio for row in ours]),
        ("seconds, against TVM as shipped (scaled)", [row.shipped_ratio for row in ours]),
    ):
        lines.append(f"- {what}: {_times(geometric_mean(values))}")
    lines.append(f"- quality over our best, all tasks: {_ratio(geometric_mean(row.best_ratio for row in ours))}")
    return "\n".join([lines[0], "", *lines[1:]])


def _own_row(state: State, row: Row) -> list[str]:
    quality = quality_secs(state, row.task)
    assert quality is not None, "a row has one"
    reached = row.reached
    return [
        f"`{row.task}`",
        f"{quality * 1e3:.4g}",
        str(reached.n_trials) if reached else f"not reached by {row.n_seeds - row.n_reached} of {row.n_seeds}",
        str(row.n_trials),
        f"{reached.secs:.1f}" if reached else "-",
        *(_times(v) for v in (row.trial_ratio, row.trial_ratio_to_same, row.secs_ratio, row.shipped_ratio)),
        _ratio(row.best_ratio),
    ]


def _system_row(state: State, row: Row) -> list[str]:
    runs = runs_of(state, row.system, row.task)
    per_trial = statistics.median(run.wall_secs / len(run.trials) for run in runs if run.trials)
    n_trials = sum(len(run.trials) for run in runs)
    n_valid = sum(trial.latency_secs is not None for run in runs for trial in run.trials)
    loads = [load for run in runs for load in run.load]
    return [
        f"`{row.task}`",
        row.system,
        str(row.n_seeds),
        str(row.n_trials),
        f"{row.n_reached} of {row.n_seeds}" + (f", after {row.reached.n_trials}" if row.reached else ""),
        _ratio(row.best_ratio),
        f"{statistics.median(run.wall_secs for run in runs):.0f}",
        f"{per_trial:.2f}",
        f"{n_valid / n_trials:.0%}",
        f"{min(loads):.1f} to {max(loads):.1f}",
    ]


def _shipped(state: State, tasks: Sequence[str]) -> str:
    """What TVM as shipped takes per trial, and so for a thousand."""
    lines = []
    for task in tasks:
        runs, secs = runs_of(state, SHIPPED, task), shipped_wall_secs(state, task, 1000)
        if runs and secs is not None:
            trials = runs[0].trials
            lines.append([f"`{task}`", str(len(trials)), f"{trials[-1].secs:.0f}", f"{secs:.0f}"])
    if not lines:
        return ""
    return "## TVM as shipped\n\n" + _table(["task", "trials", "seconds", "seconds for 1000 trials, scaled"], lines)


def _plot(state: State, tasks: Sequence[str], axis: str, out: Path) -> Path:
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    n_columns = min(5, len(tasks))
    n_rows = -(-len(tasks) // n_columns)
    figure, panels = plt.subplots(n_rows, n_columns, figsize=(4 * n_columns, 3.2 * n_rows), squeeze=False)
    for panel in panels.flat[len(tasks) :]:
        panel.set_visible(False)
    for panel, task in zip(panels.flat, tasks, strict=False):
        for system in _SYSTEMS:
            for number, run in enumerate(runs_of(state, system, task)):
                at, best = curve(run, axis)
                label = system if not number else None
                panel.step(
                    at, [secs * 1e3 for secs in best], where="post", color=_COLOURS[system], label=label, lw=1.3
                )
        quality = quality_secs(state, task)
        if quality is not None:
            panel.axhline(quality * 1e3, color="black", lw=0.7, ls="--")
        panel.set_xscale("log")
        panel.set_yscale("log")
        panel.set_title(task, fontsize=8)
        panel.set_xlabel(_AXES[axis], fontsize=8)
        panel.set_ylabel("best latency, ms", fontsize=8)
        panel.tick_params(labelsize=7)
    handles, labels = [], []
    for panel in panels.flat:
        for handle, label in zip(*panel.get_legend_handles_labels(), strict=True):
            if label not in labels:
                handles.append(handle)
                labels.append(label)
    figure.legend(handles, labels, loc="lower center", ncols=len(_SYSTEMS), fontsize=9)
    figure.tight_layout(rect=(0, 0.06, 1, 1))
    path = out / f"metaschedule-{axis}.png"
    figure.savefig(path, dpi=110)
    plt.close(figure)
    return path


def _dates(state: State) -> str:
    dates = sorted({str(run.machine.get("date", "an unknown day")) for run in state.runs.values()})
    return dates[0] if len(dates) == 1 else f"{dates[0]} to {dates[-1]}" if dates else "no day"


def _table(header: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (header, ["---"] * len(header), *lines))


def _times(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f}x"


def _ratio(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"
