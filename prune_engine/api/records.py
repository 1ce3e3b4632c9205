"""What a run came to as JSON values: what ``result.json`` holds, and ``--json`` prints."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from prune_engine.audits.rates import merged
from prune_engine.lifecycle import TaskResult
from prune_engine.transfers.log import PolicyReport, TransferReport

if TYPE_CHECKING:
    from prune_engine.audits.rates import AuditReport
    from prune_engine.metaschedule.tune import TuneOutcome, TuneRequest


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


def audit_record(report: AuditReport) -> dict[str, Any]:
    """A report as JSON values; ``false_prune`` is None without an audit, ``at_most`` where an audit won."""
    share = report.false_prune
    return {
        "stage": report.stage.value,
        "strategy": report.strategy,
        "n_dropped": report.n_dropped,
        "n_measured": report.n_measured,
        "n_winners": report.n_winners,
        "false_prune": None if share is None else {"value": share.value, "low": share.low, "high": share.high},
        "at_most": report.at_most,
        "switched_off": report.switched_off or None,
    }


def audit_records(reports: Sequence[AuditReport]) -> list[dict[str, Any]]:
    """Reports as JSON values."""
    return [audit_record(report) for report in reports]


def transfer_record(tasks: Sequence[TaskResult]) -> dict[str, Any]:
    """The same as JSON values, for all tasks together."""
    by_class: dict[str, Counter[str]] = defaultdict(Counter)
    for task in tasks:
        if task.transfer:
            by_class[task.transfer.label].update({"n_kernels": 1, **dict(task.transfer.n_sources)})
    return {
        "hits": {label: dict(counts) for label, counts in by_class.items()},
        "policies": [_policy_record(policy) for policy in merged_policies(tasks)],
        "n_measurements_saved": sum(task.transfer.n_saved for task in tasks if task.transfer),
        "share_of_maximum": share_of_maximum(tasks),
    }


def task_record(report: TransferReport | None) -> dict[str, Any] | None:
    """One task's transfers as JSON values; times in seconds."""
    if report is None:
        return None
    return {
        "class": report.label,
        "n_sources": dict(report.n_sources),
        "policies": [_policy_record(policy) for policy in report.policies],
        "best_secs": report.best_secs,
        "source": report.source,
        "policy": report.policy,
        "goal_secs": report.goal_secs,
        "n_measurements_saved": report.n_saved,
        "is_winner": report.is_winner,
    }


def share_of_maximum(tasks: Sequence[TaskResult]) -> float | None:
    """What was gained, as a share of the gain at the library's own efficiency; None where that is not known.

    Both over all kernels of which it is known: (untuned / reached - 1) / (untuned / promised - 1), times by calls.
    """
    known = [
        (task.summary.weight, task.summary.default_secs, task.summary.best_secs, task.transfer.goal_secs)
        for task in tasks
        if task.transfer and task.transfer.goal_secs and task.summary.default_secs and task.summary.best_secs
    ]
    untuned = sum(weight * default for weight, default, _, _ in known if default)
    reached = sum(weight * best for weight, _, best, _ in known if best)
    promised = sum(weight * goal for weight, _, _, goal in known if goal)
    if not known or untuned <= promised:
        return None
    return (untuned / reached - 1) / (untuned / promised - 1)


def merged_policies(tasks: Sequence[TaskResult]) -> list[PolicyReport]:
    """What all tasks say of each policy, by its name."""
    found: dict[str, list[PolicyReport]] = defaultdict(list)
    for task in tasks:
        for policy in task.transfer.policies if task.transfer else ():
            found[policy.policy].append(policy)
    return [
        PolicyReport(
            policy=name,
            n_seeds=sum(one.n_seeds for one in reports),
            n_known=sum(one.n_known for one in reports),
            n_refused=sum(one.n_refused for one in reports),
            n_failed=sum(one.n_failed for one in reports),
            n_ran=sum(one.n_ran for one in reports),
            misses=_summed([one.misses for one in reports]),
        )
        for name, reports in sorted(found.items())
    ]


def _summed(counts: Sequence[Mapping[str, int]]) -> dict[str, int]:
    total: Counter[str] = Counter()
    for one in counts:
        total.update(one)
    return dict(total)


def _policy_record(policy: PolicyReport) -> dict[str, Any]:
    return {
        "policy": policy.policy,
        "n_seeds": policy.n_seeds,
        "n_known": policy.n_known,
        "n_refused": policy.n_refused,
        "n_failed": policy.n_failed,
        "n_ran": policy.n_ran,
        "invalid_share": policy.invalid_share,
        "misses": dict(policy.misses),
    }
