"""The report of the full check, and what it reads from ptxas."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from kits.ptxas import Registers, parse


@pytest.fixture
def report(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(Path(__file__).parents[1] / "benchmarks")
    import exactness_report

    return exactness_report


def nests(mismatches: int, opaque: str | None = None) -> dict[str, Any]:
    sketch = {"n": 200, "repaired": 5, "refused": 0, "mismatches": mismatches, "opaque": opaque}
    return {
        "key": ["nests", "gemm_square", "llvm", 200],
        "part": "nests",
        "sketches": [{**sketch, "first": "loops of C" if mismatches else None}],
    }


def verdicts(false_rejects: int, false_accepts: int) -> dict[str, Any]:
    counts = {"n": 400, "accepted": 200, "passed": 200, "repaired": 0, "first": None, "opaque": None}
    sketch = {**counts, "false_rejects": false_rejects, "false_accepts": false_accepts}
    return {"key": ["legality", "gemm_square", "t4", 400], "part": "legality", "sketches": [sketch]}


def test_exact_is_no_mismatch_no_false_reject_and_few_false_accepts(report: ModuleType) -> None:
    assert report.is_exact([nests(0), verdicts(0, 2)])
    assert not report.is_exact([nests(1), verdicts(0, 0)])
    assert not report.is_exact([nests(0), verdicts(1, 0)])
    assert not report.is_exact([nests(0), verdicts(0, 3)])


def test_the_page_names_what_differs(report: ModuleType) -> None:
    page = report.as_markdown([nests(1), nests(0, opaque="TransformLayout"), verdicts(0, 2)], [])
    assert "| gemm_square | llvm | 1 of 1 | 200 | 5 | 0 | 1 |" in page
    assert "loops of C" in page
    assert "opaque: TransformLayout" in page
    assert "0 false rejects, and TVM accepts 99.00% of what passes" in page


def test_rank_correlation(report: ModuleType) -> None:
    assert report.rank_correlation([1, 2, 3, 9], [10, 20, 30, 31]) == pytest.approx(1)
    assert report.rank_correlation([1, 2, 3], [3, 2, 1]) == pytest.approx(-1)
    # Ranks 1, 2.5, 2.5, 4 against 1, 2, 3, 4.
    assert report.rank_correlation([1, 5, 5, 7], [1, 2, 3, 4]) == pytest.approx(0.9487, abs=1e-4)


def test_where_spills_begin(report: ModuleType) -> None:
    rows = [{"symbol": s, "spill_store_bytes": b} for s, b in ((10, 0), (80, 16), (90, 0), (100, 4))]
    assert report.spill_threshold(rows) == "80 (67% of 3)"
    assert report.spill_threshold(rows[:1]) == "none spills"


def test_what_ptxas_says() -> None:
    said = """
ptxas info    : Compiling entry function 'main_kernel' for 'sm_80'
    1072 bytes stack frame, 16 bytes spill stores, 12 bytes spill loads
ptxas info    : Used 106 registers, used 1 barriers, 36864 bytes smem, 376 bytes cmem[0]
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 32 registers, used 1 barriers
"""
    assert parse(said) == Registers(106, 16, 12, 1072, 2)
    with pytest.raises(RuntimeError, match="no registers"):
        parse("nothing")
