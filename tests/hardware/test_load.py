"""What other programs use, from made-up counters."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from prune_engine.hardware import load as load_module
from prune_engine.hardware.load import LoadMeter

TICKS = os.sysconf("SC_CLK_TCK")


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two processors; the clock stands at 100 s and this process has used 5 s."""
    (tmp_path / "proc").mkdir()
    tell(tmp_path, busy_secs=50)
    set_clock(monkeypatch, now=100.0, own=5.0)
    return tmp_path


def tell(root: Path, busy_secs: float, steal_secs: float = 0.0, idle_secs: float = 1000.0) -> None:
    columns = [busy_secs, 0, 0, idle_secs, 7, 0, 0, steal_secs, busy_secs, 0]  # guests are in the first, too
    line = " ".join(str(int(secs * TICKS)) for secs in columns)
    (root / "proc/stat").write_text(f"cpu  {line}\ncpu0 {line}\ncpu1 {line}\nintr 0\n")


def set_clock(monkeypatch: pytest.MonkeyPatch, now: float, own: float) -> None:
    monkeypatch.setattr(load_module.time, "monotonic", lambda: now)
    times = os.times_result((own, 0.0, 0.0, 0.0, 0.0))
    monkeypatch.setattr(load_module.os, "times", lambda: times)


def test_what_this_process_used_is_not_others(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    meter = LoadMeter(machine)
    tell(machine, busy_secs=50 + 16 + 4)
    set_clock(monkeypatch, now=110.0, own=5.0 + 16.0)
    assert meter.others_share() == pytest.approx(4 / 20)


def test_time_given_to_other_machines_counts(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    meter = LoadMeter(machine)
    tell(machine, busy_secs=50, steal_secs=5, idle_secs=5000)
    set_clock(monkeypatch, now=110.0, own=5.0)
    assert meter.others_share() == pytest.approx(5 / 20)


def test_is_a_share(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel's counters are coarse: never below 0, never above 1."""
    meter = LoadMeter(machine)
    set_clock(monkeypatch, now=110.0, own=30.0)
    assert meter.others_share() == 0
    tell(machine, busy_secs=500)
    assert meter.others_share() == 1


@pytest.mark.parametrize("text", [None, "", "cpu a b\n", "intr 1\n"])
def test_kernel_that_does_not_tell(tmp_path: Path, text: str | None) -> None:
    if text is not None:
        (tmp_path / "proc").mkdir()
        (tmp_path / "proc/stat").write_text(text)
    assert LoadMeter(tmp_path).others_share() is None


def test_no_time_passed(machine: Path) -> None:
    assert LoadMeter(machine).others_share() is None
