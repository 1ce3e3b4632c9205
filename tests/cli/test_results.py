"""The last lines of a run say what was written, and why."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from prune_engine.audits.rates import AuditReport
from prune_engine.cli.results import print_result
from prune_engine.lifecycle import TaskSummary
from prune_engine.plugins import PluginRecord, PluginStatus
from prune_engine.verdicts import Stage


def outcome(*, trace: str | None = None, is_tuned: bool = False, audits: tuple[AuditReport, ...] = ()) -> Any:
    latency = SimpleNamespace(median_secs=1e-3, low_secs=1e-3, high_secs=1e-3)
    summary = TaskSummary("t", "matmul", 1, 9, 1, 1, 1, {}, 1e-3, 1e-3, "default", "trials")
    return SimpleNamespace(
        run=SimpleNamespace(
            tasks=[SimpleNamespace(summary=summary, trace_json=trace, audits=audits, transfer=None)],
            census={},
            stop_reason="trials",
            elapsed_secs=1.0,
            n_new=1,
        ),
        comparison=SimpleNamespace(latencies={"untuned": latency, "tuned": latency}, remark="outputs agree"),
        model=SimpleNamespace(notes=()),
        failed_plugins=(PluginRecord("crooked", None, None, (), PluginStatus.FAILED, "it [raised]"),),
        not_applied=(),
        left_out=(),
        phase_secs={"starting": 1.26, "measuring": 9.5},
        is_tuned=is_tuned,
        artifact_dir=Path("out"),
        verifier_path=Path("out/verifier.model") if trace else None,
        network_changes=(),
    )


@pytest.mark.parametrize(
    ("trace", "is_tuned", "told", "untold"),
    [
        pytest.param("[]", True, "written to out", "beaten", id="a faster model"),
        pytest.param("[]", False, "was not beaten", "are one", id="kernels won, the model did not"),
        pytest.param(None, False, "the untuned and the tuned model are one", "beaten", id="no kernel won"),
    ],
)
def test_what_was_written(
    capsys: pytest.CaptureFixture[str], trace: str | None, is_tuned: bool, told: str, untold: str
) -> None:
    print_result(outcome(trace=trace, is_tuned=is_tuned))
    text = capsys.readouterr().out
    assert told in text
    assert untold not in text
    assert "warning: plugin crooked failed: it [raised]" in text
    assert "11 s in all: starting 1.3, measuring 9.5" in text
    hint = "what it learnt can start another run: --prior out/verifier.model\n"
    assert (hint in text) == (trace is not None)


def test_a_kernel_of_which_nothing_was_left_to_measure(capsys: pytest.CaptureFixture[str]) -> None:
    one = outcome()
    told = "warning: none of the 9 schedules of matmul was left to measure, so it keeps its default; what refused "
    print_result(one)
    assert told not in capsys.readouterr().out
    one.run.tasks[0].summary = replace(one.run.tasks[0].summary, n_trials=0, stop_reason="exhausted")
    print_result(one)
    assert f"{told}them: prune-engine explain t --out out\n" in capsys.readouterr().out


def test_audits_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    audits = (
        AuditReport(Stage.RULE, "acme.wrong", 900, 10, 2, "it drops a candidate that takes 12% less time"),
        AuditReport(Stage.RULE, "acme.unasked", 900, 0, 0),
        AuditReport(Stage.DRAFT, "acme.draft", 900, 60, 0),
        AuditReport(Stage.TASK_SPACE, "acme.cuts", 900, 3, 0),
    )
    print_result(outcome(audits=audits))
    lines = capsys.readouterr().out.splitlines()
    off = "warning: acme.wrong was switched off for matmul: it drops a candidate that takes 12% less time"
    assert off in lines
    rule = "audit of acme.wrong: 2 of 10 measured drops would have won: 20.00 % (95 % interval 5.67 % to 50.98 %)"
    assert rule in lines
    assert "audit of acme.draft: none of 60 measured drops was a winner, so at most 5.00 % are" in lines
    assert "audit of acme.cuts: none of 3 measured cuts was a winner, which is too few to say more" in lines
    assert not any("acme.unasked" in line for line in lines)
