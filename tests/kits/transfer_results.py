"""Tasks with what transfers did for them."""

from __future__ import annotations

from collections.abc import Mapping

from prune_engine.lifecycle import TaskResult, TaskSummary
from prune_engine.transfers.log import PolicyReport, TransferReport


def policy(name: str = "repair", n_ran: int = 9, n_failed: int = 1, **misses: int) -> PolicyReport:
    n_seeds = n_ran + n_failed
    return PolicyReport(
        name, n_seeds, 0, 0, n_failed, n_ran, {key.replace("_", " "): n for key, n in misses.items()}
    )


def report(
    *policies: PolicyReport,
    label: str = "conv2d + relu",
    sources: Mapping[str, int] | None = None,
    goal_secs: float | None = None,
    n_saved: int = 0,
) -> TransferReport:
    found = {"strict": 4} if sources is None else sources
    return TransferReport(label, found, policies, 1e-3, "resnet, conv2d_3", "repair", goal_secs, n_saved, True)


def result(
    transfer: TransferReport | None,
    *,
    default_secs: float = 4e-3,
    best_secs: float = 2e-3,
    weight: int = 1,
    reason: str = "",
) -> TaskResult:
    summary = TaskSummary(
        task_id="t",
        name="t",
        weight=weight,
        space_size=100,
        n_trials=10,
        n_valid=10,
        n_new=10,
        failures={},
        default_secs=default_secs,
        best_secs=best_secs,
        best_candidate_id="c",
        stop_reason=reason,
    )
    return TaskResult(summary, None, {}, transfer=transfer)
