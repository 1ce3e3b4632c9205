"""What the library of tuned kernels did for a run, for people and for machines."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from prune_engine.display.tables import counted
from prune_engine.lifecycle import TaskResult
from prune_engine.transfers.log import PolicyReport, TransferReport

#: Classes that are named one by one, and reasons of a policy.
_N_NAMED = 4


def transfer_lines(tasks: Sequence[TaskResult]) -> list[str]:
    """Hits by class, what could not run by policy, measurements saved, share of the maximum; none without hits."""
    asked = [task for task in tasks if task.transfer is not None]
    hit = [task for task in asked if task.transfer and sum(task.transfer.n_sources.values())]
    if not hit:
        return []
    lines = [f"transfer: {_hits(hit)}", *map(_policy_line, merged_policies(tasks))]
    ended = [task for task in tasks if task.summary.stop_reason == "transferred"]
    if ended:
        n_saved = sum(task.transfer.n_saved for task in ended if task.transfer)
        lines.append(
            f"transfer: {counted(len(ended), 'kernel')} reached what the library promises, "
            f"which saved {counted(n_saved, 'measurement')} that their sources' searches took"
        )
    if n_ranked := sum(task.summary.stop_reason == "ranked" for task in tasks):
        lines.append(f"transfer: {counted(n_ranked, 'kernel')} got the schedule that ranks first, unmeasured")
    n_won = sum(task.transfer.is_winner for task in hit if task.transfer)
    lines.append(f"transfer: {n_won} of {counted(len(hit), 'kernel')} run a transferred schedule")
    share = share_of_maximum(tasks)
    if share is not None:
        lines.append(f"transfer: {share:.0%} of the maximum, the gain at the library's own efficiency")
    return lines


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


def _hits(hit: Sequence[TaskResult]) -> str:
    entries: Counter[str] = Counter()
    kernels: Counter[str] = Counter()
    for task in hit:
        if task.transfer:
            entries[task.transfer.label] += sum(task.transfer.n_sources.values())
            kernels[task.transfer.label] += 1
    named = [
        f"{label} ({counted(n, 'kernel')}, {counted(entries[label], 'schedule')})"
        for label, n in kernels.most_common(_N_NAMED)
    ]
    if len(kernels) > _N_NAMED:
        named.append(f"{len(kernels) - _N_NAMED} more classes")
    return f"the library knows {counted(len(hit), 'kernel')}: {', '.join(named)}"


def _policy_line(policy: PolicyReport) -> str:
    n_invalid = policy.n_refused + policy.n_failed
    text = f"transfer by {policy.policy}: {counted(policy.n_seeds, 'schedule')}"
    if policy.invalid_share is not None:
        text += f", {n_invalid} of {n_invalid + policy.n_ran} tried could not run ({policy.invalid_share:.0%})"
    if policy.misses:
        first = max(policy.misses, key=lambda reason: policy.misses[reason])
        text += f", {policy.n_missed} could not be carried over ({first})"
    return text


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
