"""What the library of tuned kernels did for a run, in lines for people."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from prune_engine.api.records import merged_policies, share_of_maximum
from prune_engine.display.tables import counted
from prune_engine.lifecycle import TaskResult
from prune_engine.transfers.log import PolicyReport

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
