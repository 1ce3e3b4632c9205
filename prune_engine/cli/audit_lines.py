"""What audits found, in lines for people."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from prune_engine.audits.rates import merged
from prune_engine.display.tables import percent
from prune_engine.verdicts import Stage

if TYPE_CHECKING:
    from prune_engine.audits.rates import AuditReport
    from prune_engine.lifecycle import TaskResult


def audit_lines(tasks: Sequence[TaskResult]) -> list[str]:
    """A line per strategy that was audited, over all tasks, and one for each rule that was switched off."""
    lines = [
        f"warning: {report.strategy} was switched off for {task.summary.name}: {report.switched_off}"
        for task in tasks
        for report in task.audits
        if report.switched_off
    ]
    reports = merged([report for task in tasks for report in task.audits])
    lines = list(dict.fromkeys(lines))  # a rule may have cut rows and dropped candidates
    return lines + [_line(report) for report in reports if report.n_measured]


def _line(report: AuditReport) -> str:
    start = f"audit of {report.strategy}: "
    what = "cut" if report.stage is Stage.TASK_SPACE else "drop"
    drops = f"{report.n_measured} measured {what}{'s' if report.n_measured > 1 else ''}"
    if report.at_most == 1:
        return f"{start}none of {drops} was a winner, which is too few to say more"
    if report.at_most is not None:
        return f"{start}none of {drops} was a winner, so at most {percent(report.at_most)} are"
    share = report.false_prune
    assert share is not None, "it was audited"
    interval = f"95 % interval {percent(share.low)} to {percent(share.high)}"
    return f"{start}{report.n_winners} of {drops} would have won: {percent(share.value)} ({interval})"
