"""The page has every figure, and each is reached."""

from __future__ import annotations

import re
from typing import Any

import pytest
from reliability import figures
from reliability.figure import Figure


@pytest.fixture(scope="module")
def rows() -> dict[str, str]:
    """Results by title, from the table at the head of the page."""
    found = re.findall(
        r"^\| ([^|]+) \| [^|]+ \| (passed|failed) \|$", figures.PAGE.read_text("utf-8"), re.MULTILINE
    )
    return dict(found)


@pytest.mark.parametrize("name", figures.ABOUT)
def test_figure_is_on_the_page_and_reached(name: str, rows: dict[str, str]) -> None:
    assert rows.get(figures.ABOUT[name].title) == "passed"


def test_nothing_on_the_page_failed(rows: dict[str, str]) -> None:
    assert set(rows.values()) == {"passed"}


def test_what_happened_is_told() -> None:
    figure = Figure("kills", 7, {"stores lost": 2, "stores found": 0}, {"MiB": (9.0, 5.0)}, {"seen": {"a": 1000}})
    record: dict[str, Any] = figure.record()
    assert record["result"] == "failed"
    assert figure.problems == ["stores lost: 2", "MiB: 9 > 5"]
    text = figures.page({"kills": record})
    for line in (
        "| Killed at random moments | 7 × `kill -9` | failed |",
        "| stores lost | 2 |",
        "| stores found | 0 |",
        "| MiB (at most 5) | 9 |",
        "Seen: a 1,000.",
    ):
        assert line in text.splitlines()


def test_figures_of_others_are_taken_in() -> None:
    record = {"figure": "hostile-files", "n": 5000, "result": "passed", "details": {"faults": 0, "worst_mib": 12.5}}
    text = figures.page({"hostile-files": record})
    assert "| Hostile files | 5,000 | passed |" in text
    assert "Worst mib: 12.5." in text
