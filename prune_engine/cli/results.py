"""The end of a tuning run, for people and for machines."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table

from prune_engine.audits.rates import merged
from prune_engine.cli.audit_lines import audit_lines, audit_records
from prune_engine.cli.transfer_lines import task_record, transfer_lines, transfer_record
from prune_engine.display.progress import task_table
from prune_engine.lifecycle import TaskSummary

if TYPE_CHECKING:
    from prune_engine.metaschedule.tune import TuneOutcome, TuneRequest

_PLAIN_WIDTH = 140
_STOP_REASONS = {
    "trials": "the trial budget is used up",
    "seconds": "the time budget is used up",
    "plateau": "no task improved any more",
    "converged": "the verifier expects no gain of what is left, and measuring some of it gave none",
    "transferred": "schedules from the library are as good as it promises",
    "measurements": "each kernel has its measurements",
    "no_seeds_left": "every schedule that the library offered was measured",
    "ranked": "the schedules that rank first ship without being measured",
    "exhausted": "no candidate is left to measure",
    "interrupted": "it was interrupted",
    "nothing_to_tune": "no kernel has anything to choose",
    "default_failed": "no untuned kernel could be measured",
}


def as_record(request: TuneRequest, outcome: TuneOutcome) -> dict[str, Any]:
    """The outcome as JSON values; times in seconds."""
    return {
        "model": str(request.model_path),
        "model_digest": outcome.model.digest,
        "run_id": outcome.run.run_id,
        "n_threads": request.n_threads,
        "seed": request.config.seed,
        "stop_reason": outcome.run.stop_reason,
        "n_new_measurements": outcome.run.n_new,
        "elapsed_secs": outcome.run.elapsed_secs,
        "phase_secs": dict(outcome.phase_secs),
        "is_tuned": outcome.is_tuned,
        "artifact": str(outcome.artifact_dir),
        "database": str(outcome.database_dir),
        "verifier_model": str(outcome.verifier_path) if outcome.verifier_path else None,
        "store": outcome.store_url,
        "comparison": outcome.comparison.as_json(),
        "census": dict(outcome.run.census),
        "audits": audit_records(merged([audit for task in outcome.run.tasks for audit in task.audits])),
        "transfer": {
            **transfer_record(outcome.run.tasks),
            "sources": [asdict(source) for source in outcome.run.sources],
            "network_changes": list(outcome.network_changes),
        },
        "not_applied": list(outcome.not_applied),
        "left_out_of_database": list(outcome.left_out),
        "failed_plugins": {record.name: record.summary for record in outcome.failed_plugins},
        "notes": list(outcome.model.notes),
        "tasks": [
            {
                "task_id": task.summary.task_id,
                "name": task.summary.name,
                "weight": task.summary.weight,
                "space_size": task.summary.space_size,
                "n_trials": task.summary.n_trials,
                "n_valid": task.summary.n_valid,
                "n_new": task.summary.n_new,
                "default_secs": task.summary.default_secs,
                "best_secs": task.summary.best_secs,
                "best_candidate_id": task.summary.best_candidate_id,
                "stop_reason": task.summary.stop_reason,
                "failures": task.summary.failures,
                "failure_examples": dict(task.failure_examples),
                "audits": audit_records(task.audits),
                "transfer": task_record(task.transfer),
            }
            for task in outcome.run.tasks
        ],
    }


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


def stop_reason_text(reason: str) -> str:
    """Why a run or a task ended, as what follows "because"."""
    return _STOP_REASONS.get(reason, reason)


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
