"""What a run came to, for machines: audits, transfers, the share of the maximum."""

from __future__ import annotations

import pytest
from kits.transfer_results import policy, report, result

from prune_engine.api.records import audit_record, merged_policies, share_of_maximum, task_record, transfer_record
from prune_engine.audits.rates import AuditReport
from prune_engine.verdicts import Stage


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


def test_audits_for_machines() -> None:
    wrong = audit_record(AuditReport(Stage.RULE, "acme.wrong", 900, 10, 2, "it drops the best"))
    assert wrong["false_prune"]["value"] == 0.2
    assert wrong["false_prune"]["low"] == pytest.approx(0.0567, abs=1e-4)
    assert (wrong["at_most"], wrong["switched_off"]) == (None, "it drops the best")
    unasked = audit_record(AuditReport(Stage.DRAFT, "acme.draft", 900, 0, 0))
    assert unasked == {
        "stage": "draft",
        "strategy": "acme.draft",
        "n_dropped": 900,
        "n_measured": 0,
        "n_winners": 0,
        "false_prune": None,
        "at_most": None,
        "switched_off": None,
    }
