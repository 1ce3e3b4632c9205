"""The end of a tuning run, for people."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

from prune_engine.cli.audit_lines import audit_lines
from prune_engine.cli.transfer_lines import transfer_lines
from prune_engine.display.progress import task_table
from prune_engine.explain.stop_reasons import stop_reason_text
from prune_engine.lifecycle import TaskSummary

if TYPE_CHECKING:
    from prune_engine.metaschedule.tune import TuneOutcome

_PLAIN_WIDTH = 140


def print_result(outcome: TuneOutcome, page: Path | None = None) -> None:
    """Tables on stdout: the tasks, what failed, and the whole model before and after; ``page`` is the report's."""
    # A file or a pipe has no width: cut nothing there.
    console = Console(highlight=False, width=None if sys.stdout.isatty() else _PLAIN_WIDTH)
    summaries = [task.summary for task in outcome.run.tasks]
    tunable = sorted((t for t in summaries if t.space_size > 1), key=_cost_secs, reverse=True)
    if tunable:
        console.print(task_table(tunable, console.width))
    without = len(summaries) - len(tunable)
    if without:
        console.print(f"{without} of {len(summaries)} kernels have nothing to choose and keep their default.")
    for task in tunable:
        if task.stop_reason == "exhausted" and not task.n_trials:
            why = f"prune-engine explain {task.task_id} --out {outcome.artifact_dir}"
            console.print(
                f"warning: none of the {task.space_size:,} schedules of {task.name} was left to measure, so it "
                f"keeps its default; what refused them: {why}",
                markup=False,
                soft_wrap=True,
            )
    if outcome.run.census:
        listed = ", ".join(f"{kind}: {n}" for kind, n in sorted(outcome.run.census.items()))
        console.print(f"failed candidates by reason: {listed}")
    in_network = (f"transfer: {change}" for change in outcome.network_changes)
    for line in (*transfer_lines(outcome.run.tasks), *in_network, *audit_lines(outcome.run.tasks)):
        console.print(line, markup=False)
    for record in outcome.failed_plugins:
        console.print(f"warning: plugin {record.name} {record.summary}", markup=False)
    for name in outcome.not_applied:
        console.print(f"warning: the best schedule of {name} could not be put into the model; it keeps its default")
    if outcome.left_out:
        console.print(
            f"warning: {len(outcome.left_out)} measurements are not in the database: {outcome.left_out[0]}"
        )
    for note in outcome.model.notes:
        console.print(f"note: {note}")
    console.print()
    console.print(_model_table(outcome))
    console.print(outcome.comparison.remark)
    reason = stop_reason_text(outcome.run.stop_reason)
    console.print(f"tuning ended after {outcome.run.elapsed_secs:.0f} s because {reason};", end=" ")
    console.print(f"{outcome.run.n_new} new measurements")
    if outcome.phase_secs:
        phases = ", ".join(f"{phase} {secs:.1f}" for phase, secs in outcome.phase_secs.items())
        console.print(f"{sum(outcome.phase_secs.values()):.0f} s in all: {phases}")
    if not any(task.trace_json for task in outcome.run.tasks):
        console.print(
            "No kernel got a better schedule: the untuned and the tuned model are one, and it was written."
        )
    elif not outcome.is_tuned:
        console.print("The untuned model was not beaten, so it is what was written.")
    if outcome.verifier_path:
        console.print(f"what it learnt can start another run: --prior {outcome.verifier_path}", soft_wrap=True)
    console.print(
        f"written to {outcome.artifact_dir}; try: prune-engine run {outcome.artifact_dir}", soft_wrap=True
    )
    shown = page or f"prune-engine report {outcome.artifact_dir}"
    console.print(f"the whole run as a page to read: {shown}", soft_wrap=True)


def _model_table(outcome: TuneOutcome) -> Table:
    comparison = outcome.comparison
    table = Table(box=None, pad_edge=False)
    table.add_column("whole model")
    for name in ("median", "spread", "against untuned"):
        table.add_column(name, justify="right")
    untuned = comparison.latencies["untuned"].median_secs
    for name, latency in comparison.latencies.items():
        table.add_row(
            name,
            f"{latency.median_secs * 1e3:.3f} ms",
            f"{latency.low_secs * 1e3:.3f} - {latency.high_secs * 1e3:.3f}",
            f"{untuned / latency.median_secs:.2f}x",
        )
    return table


def _cost_secs(task: TaskSummary) -> float:
    return task.weight * (task.default_secs or 0.0)
