"""What is told of transfers: hits, invalid shares, measurements saved, the share of the maximum."""

from __future__ import annotations

from dataclasses import replace

import pytest
from kits.transfer_results import policy, report, result

from prune_engine.cli.transfer_lines import transfer_lines
from prune_engine.transfers.log import TransferReport


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
