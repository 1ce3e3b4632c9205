"""What is told of transfers: hits, invalid shares, measurements saved, the share of the maximum."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from prune_engine.cli.transfer_lines import (
    merged_policies,
    share_of_maximum,
    task_record,
    transfer_lines,
    transfer_record,
)
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


@pytest.mark.parametrize("transfer", [None, report(sources={}), report(policy(), sources={"strict": 0})])
def test_nothing_is_said_without_a_hit(transfer: TransferReport | None) -> None:
    assert transfer_lines([result(transfer)]) == []


def test_lines() -> None:
    tasks = [
        result(report(policy(breaks_the_innermost_limit=3), goal_secs=1.9e-3, n_saved=80), reason="transferred"),
        result(report(policy("nearest", n_ran=4, n_failed=0), policy(n_ran=8, n_failed=2))),
        result(replace(report(label="mm", sources={"anchor": 1}), is_winner=False)),
        result(None),
        result(report(label="mm", sources={}), reason="ranked"),
    ]
    assert transfer_lines(tasks) == [
        "transfer: the library knows 3 kernels: conv2d + relu (2 kernels, 8 schedules), mm (1 kernel, 1 schedule)",
        "transfer by nearest: 4 schedules, 0 of 4 tried could not run (0%)",
        "transfer by repair: 20 schedules, 3 of 20 tried could not run (15%), "
        "3 could not be carried over (breaks the innermost limit)",
        "transfer: 1 kernel reached what the library promises, which saved 80 measurements that their sources' "
        "searches took",
        "transfer: 1 kernel got the schedule that ranks first, unmeasured",
        "transfer: 2 of 3 kernels run a transferred schedule",
        "transfer: 90% of the maximum, the gain at the library's own efficiency",
    ]


def test_many_classes_are_not_all_named() -> None:
    lines = transfer_lines([result(report(label=f"class {number}")) for number in range(9)])
    assert lines[0].endswith(", 5 more classes")


def test_share_of_the_maximum_is_over_all_kernels_and_their_calls() -> None:
    tasks = [
        result(report(goal_secs=1e-3), default_secs=4e-3, best_secs=2e-3, weight=2),
        result(report(goal_secs=3e-3), default_secs=4e-3, best_secs=4e-3),
        result(report(goal_secs=None), default_secs=9.0, best_secs=1.0),
        result(None, default_secs=9.0, best_secs=1.0),
    ]
    assert share_of_maximum(tasks) == pytest.approx((12 / 8 - 1) / (12 / 5 - 1))


@pytest.mark.parametrize("goal_secs", [None, 5e-3])
def test_no_share_without_a_maximum(goal_secs: float | None) -> None:
    assert share_of_maximum([result(report(goal_secs=goal_secs))]) is None


def test_records_say_the_same() -> None:
    tasks = [result(report(policy(odd=2), n_saved=7, goal_secs=1e-3)), result(report(policy())), result(None)]
    record = transfer_record(tasks)
    assert record["hits"] == {"conv2d + relu": {"n_kernels": 2, "strict": 8}}
    assert record["n_measurements_saved"] == 7
    (one,) = record["policies"]
    assert (one["n_seeds"], one["n_ran"], one["invalid_share"], one["misses"]) == (20, 18, 0.1, {"odd": 2})
    assert task_record(None) is None
    single = task_record(tasks[0].transfer)
    assert single is not None
    assert (single["source"], single["goal_secs"]) == ("resnet, conv2d_3", 1e-3)
    assert merged_policies([]) == []
