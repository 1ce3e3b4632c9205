"""What is shown while tuning fits the terminal, and what cannot be shown does not stop the work."""

from __future__ import annotations

import io
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from prune_engine.display.progress import LineProgress, LiveProgress, task_table
from prune_engine.lifecycle import TaskSummary


def summary(number: int) -> TaskSummary:
    return TaskSummary(
        task_id=str(number),
        name=f"fused_conv2d_add_relu_{number}",
        weight=number,
        space_size=1000,
        n_trials=64,
        n_valid=63,
        n_new=64,
        failures={},
        default_secs=1.23456e-2,
        best_secs=1.23456e-3,
        best_candidate_id="x",
        stop_reason="nothing_to_tune",
    )


def shown(width: int, height: int, n_tasks: int) -> list[str]:
    console = Console(file=io.StringIO(), force_terminal=True, width=width, height=height, color_system=None)
    live = LiveProgress(console)
    live.on_status("tuning")
    live.on_tasks([summary(number) for number in range(1, n_tasks + 1)], 12.0, 48.0, None)
    return ["".join(s.text for s in line).rstrip() for line in console.render_lines(live._render(), pad=False)]


@pytest.mark.parametrize(("width", "height"), [(80, 24), (40, 20), (120, 50), (80, 6)])
def test_totals_and_phase_are_on_the_screen(width: int, height: int) -> None:
    lines = shown(width, height, 60)
    assert len(lines) < max(height, 7)
    assert max(map(len, lines)) <= width
    assert lines[-1] == "tuning"
    assert "12.3 ms" in lines[1]
    assert "10.00x" in lines[1]


def test_all_columns_from_80_on() -> None:
    assert shown(80, 24, 1)[0].split() == ["task", "calls", "untuned", "best", "gain", "trials", "valid", "state"]
    assert shown(79, 24, 1)[0].split() == ["task", "untuned", "best", "gain"]


def test_names_stay_apart_and_get_the_room_that_figures_leave() -> None:
    names = [line.split()[0] for line in shown(80, 24, 12)[1:13]]
    assert names[0] == "fused_c…relu_12"
    assert len(set(names)) == 12
    table = task_table([replace(summary(1), name="gemm:512x512x512+bias", stop_reason="trials")], 80)
    assert list(table.columns[0].cells) == ["gemm:512x512x512+bias"]


@pytest.mark.parametrize(("default_secs", "is_told"), [(None, False), (1e-3, True)])
def test_kernels_are_told_of_once_one_was_measured(
    default_secs: float | None, is_told: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("prune_engine.display.progress._LINE_INTERVAL_SECS", 0.0)
    task = replace(summary(1), default_secs=default_secs, best_secs=default_secs)
    LineProgress().on_tasks([task], 12.0, 48.0, None)
    told = capsys.readouterr().err
    assert "48 s left" in told
    assert ("kernels" in told) == is_told


def test_full_disk_behind_stderr_does_not_stop_the_work() -> None:
    code = (
        "from prune_engine.display.progress import LineProgress\n"
        "progress = LineProgress()\n"
        "progress.on_status('one')\n"
        "progress.on_status('two')\n"
        "print('done')\n"
    )
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=full, text=True, check=False
        )
    assert (done.returncode, done.stdout) == (0, "done\n")


def test_a_kernel_whose_schedule_was_not_timed_counts_as_before(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("prune_engine.display.progress._LINE_INTERVAL_SECS", 0.0)
    LineProgress().on_tasks([summary(1), replace(summary(2), best_secs=None)], 61.0, None, None)
    assert "kernels 37 ms -> 25.9 ms" in capsys.readouterr().err


def test_a_warning_stays_on_the_screen_when_the_phase_goes_on() -> None:
    screen = io.StringIO()
    with LiveProgress(Console(file=screen, force_terminal=True, width=80, height=24, color_system=None)) as live:
        live.on_status("warning: the plugin [acme] failed")
        live.on_status("tuning")
    assert "warning: the plugin [acme] failed" in screen.getvalue()
