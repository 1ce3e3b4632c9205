"""The quality report on recordings that the tests made."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from kits.recordings import gemm_database

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


def _run(*arguments: object) -> subprocess.CompletedProcess[str]:
    environment = {k: v for k, v in os.environ.items() if k != "PRUNE_ENGINE_SPACES"}
    command = [sys.executable, BENCHMARKS / "quality_marks.py", *map(str, arguments)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=240, check=False)


def test_a_report_of_what_there_is(tmp_path: Path) -> None:
    """Of a CPU set and no tables: the draft, its ablation; what needs GPU tables is skipped and said to be."""
    gemm_database(tmp_path / "cpu_2threads" / "gemm")
    page = tmp_path / "quality.md"
    done = _run("--spaces", tmp_path, "--markdown", page, "--parts", "draft", "ablation", "gpu", "--seeds", 1)
    assert done.returncode == 0, done.stderr
    assert "skipped, for want of data: gpu" in done.stdout
    text = page.read_text()
    assert "| untrained draft, top 16, CPU | >= 0.90 |" in text
    assert "| cpu_2threads | gemm | 24 |" in text
    assert "| nothing |" in text
    assert "Not made, for want of data: gpu." in text
    again = tmp_path / "again.md"
    _run("--spaces", tmp_path, "--markdown", again, "--parts", "draft", "ablation", "gpu", "--seeds", 1)
    assert again.read_text() == text


def test_without_spaces_it_checks_nothing() -> None:
    done = _run()
    assert done.returncode == 0
    assert "nothing is checked" in done.stdout


def test_marks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    from quality_parts import Part, mean

    assert mean([0.5, 2.0]) == pytest.approx(1.0)
    assert mean([0.0, 2.0]) == 0.0
    part = Part("", "", ())
    part.at_least("a", 0.9, 0.9)
    part.at_least("b", 0.899, 0.9)
    assert [mark.passed for mark in part.marks] == [True, False]
