"""The report of the full check, and what it reads from ptxas."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from kits.ptxas import Registers, parse
from kits.workloads import WORKLOADS

PAGE = Path(__file__).parents[2] / "docs" / "benchmarks" / "exactness.md"


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
    assert "| gemm_square | llvm | 1 of 1 | 195 | 195 | 5 | 0 | 1 |" in page
    assert "| gemm_square | llvm | 0 of 1 | 0 | 0 | 5 | 0 | 0 |" in page
    assert "loops of C" in page
    assert "opaque: TransformLayout" in page
    assert "0 false rejects, and TVM accepts 99.00% of what passes" in page


def test_the_published_page_is_of_the_full_check(report: ModuleType) -> None:
    """What the page does not name as missing was run in full: 200 candidates of a sketch, no false rejects."""
    page = PAGE.read_text(encoding="utf-8")
    for heading in ("# Exactness", "## Loop nests", "## Legality on GPUs", "## TVM's features", "Machine:"):
        assert f"\n{heading}" in f"\n{page}"
    line = next((line for line in page.splitlines() if line.startswith(report.NOT_RUN)), "")
    missing = line.removeprefix(report.NOT_RUN).rstrip(".").split(", ")
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in page.splitlines() if line.startswith("| ")]
    nests_of = {(row[0], row[1]): row for row in rows if len(row) == 8}
    for name, workload in WORKLOADS.items():
        for kind in workload.kinds:
            if f"nests {name} {kind}" not in missing:
                assert int(nests_of[name, kind][4]) >= 200, nests_of[name, kind]
    verdicts = [row for row in rows if len(row) == 7 and row[2].isdigit()]
    assert len({row[0] for row in verdicts}) >= 8
    assert len({row[1] for row in verdicts}) >= 3
    if not any(name.startswith("legality") for name in missing):
        assert sum(int(row[2]) for row in verdicts) >= 10_000
    assert sum(int(row[5]) for row in verdicts) == 0, "false rejects"


def test_the_page_names_what_is_missing(report: ModuleType) -> None:
    assert report.NOT_RUN not in report.as_markdown([nests(0)], [])
    assert "Not run yet: nests bmm llvm, legality bmm t4." in report.as_markdown(
        [nests(0)], [], ["nests bmm llvm", "legality bmm t4"]
    )


def test_rank_correlation(report: ModuleType) -> None:
    assert report.rank_correlation([1, 2, 3, 9], [10, 20, 30, 31]) == pytest.approx(1)
    assert report.rank_correlation([1, 2, 3], [3, 2, 1]) == pytest.approx(-1)
    # Ranks 1, 2.5, 2.5, 4 against 1, 2, 3, 4.
    assert report.rank_correlation([1, 5, 5, 7], [1, 2, 3, 4]) == pytest.approx(0.9487, abs=1e-4)


def test_where_spills_begin(report: ModuleType) -> None:
    rows = [{"symbol": s, "spill_store_bytes": b} for s, b in ((10, 0), (80, 16), (90, 0), (100, 4))]
    assert report.threshold(rows, "spill_store_bytes") == "80 (67% of 3)"
    assert report.threshold(rows[:1], "spill_store_bytes") == "nowhere"


def test_what_is_on_the_stack_is_held_too(report: ModuleType) -> None:
    rows = [
        {"workload": "w", "symbol": s, "registers": r, "stack_bytes": b, "spill_store_bytes": 0}
        for s, r, b in ((10, 90, 0), (20, 80, 100), (30, 70, 200))
    ]
    page = report.as_markdown([], rows)
    assert "| w | 3 | 70-90 | 0 | -1.000 | 1.000 | 20 (100% of 2) | nowhere |" in page


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
