"""Decision records in a report: chains of what was measured, and what came close."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from prune_engine.decisions.records import LINES
from prune_engine.report.decided import N_CLOSE, read_decided
from prune_engine.report.writing import make_report


def line(candidate: str, *, gain: float | None = None, measured: bool = False, **changed: Any) -> str:
    """A line of a decision record."""
    record = {
        "version": 1,
        "run": "run",
        "task": "task000",
        "round": 3,
        "stage": "select" if measured else "verify",
        "strategy": "select" if measured else "verifier",
        "kind": "guess",
        "outcome": "kept" if measured else "dropped",
        "reason": "top" if measured else "probably slower",
        "candidate": candidate,
        "decisions": {"tile": [4, 16], "unroll": 64},
        "hardware_basis": [{"field": "limits.vector_bytes", "value": 64}],
        "evidence": {"verify_score": 1.5},
        "predicted_secs": 0.002,
        "predicted_by": "verifier",
        "expected_gain": gain,
        "measured": {"latency_secs": 0.003} if measured else None,
        **changed,
    }
    return json.dumps(record, separators=(",", ":"))


def write(folder: Path, lines: list[str]) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "0001.jsonl.gz").write_bytes(gzip.compress("".join(f"{text}\n" for text in lines).encode()))
    return folder


def test_lines_of_this_test_are_decisions() -> None:
    assert LINES.validate_json(line("c", gain=1.0)).expected_gain == 1.0


def test_the_closest_are_kept_each_once(tmp_path: Path) -> None:
    lines = [line(f"c{i}", gain=1.0, predicted_secs=1 - i / 100) for i in range(30)]
    lines += [line("c29", predicted_secs=0.715), line("c28", measured=True)]
    decided = read_decided(write(tmp_path / "decisions", lines))["task000"]
    expected = [f"c{i}" for i in (29, 27, 26, 25, 24, 23, 22, 21, 20, 19)]
    assert [one.candidate for one in decided.close] == expected[:N_CLOSE]
    assert list(decided.measured) == ["c28"]


@pytest.mark.parametrize(
    "bad",
    [
        "{",
        "[]",
        "null",
        line("x", measured=True, version=99),
        line("x", gain=2.0, version=99),
        line("x", measured=True, stage="?"),
    ],
)
def test_other_lines_are_passed_over(tmp_path: Path, bad: str) -> None:
    decided = read_decided(write(tmp_path / "decisions", [bad, line("good", measured=True)]))
    assert list(decided["task000"].measured) == ["good"]
    assert decided["task000"].close == []


def test_no_folder_has_none(tmp_path: Path) -> None:
    assert read_decided(None) == {}
    assert read_decided(tmp_path / "nothing") == {}


def test_the_page_shows_schedule_forecast_and_close_calls(made_run) -> None:
    out = made_run()
    write(
        out / "decisions",
        [line("task000-1", gain=1.4, measured=True), line("<b>close</b>", predicted_secs=0.0012345)],
    )
    html = make_report(str(out)).html
    assert "tile = 4×16, unroll = 64" in html
    assert "&lt;b&gt;close&lt;/b&gt;" in html
    assert 'data-sort="0.0012345">1.23 ms<' in html
    assert "kept no decision records" not in html
