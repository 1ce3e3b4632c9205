"""What of a tuned store becomes the shipped library."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pytest

from prune_engine.library import KernelClass, LibraryEntry, Origin
from prune_engine.library.files import read_library, write_library
from prune_engine.metaschedule.workloads.names import parse_workload
from prune_engine.testing import make_batch, make_entries

ONE = KernelClass("s1", "a", "matmul", (("C.i", 64),))
SAME_CLASS = KernelClass("s1", "a", "matmul", (("C.i", 65),))


@pytest.fixture
def maker(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(Path(__file__).parents[1] / "benchmarks")
    import builtin_library

    return builtin_library


def entries(kernel: KernelClass, run_secs: list[float], default_secs: float | None) -> list[LibraryEntry]:
    return make_entries(
        make_batch(len(run_secs)), run_secs, kernel_class=kernel, default_secs=default_secs, origin=Origin.TUNED
    )


def test_the_best_of_each_kernel_are_kept(maker: ModuleType) -> None:
    found = entries(ONE, [3.0, 1.0, 2.0], 10.0) + entries(SAME_CLASS, [5.0], 10.0)
    kept = maker.worth_keeping(found, 2)
    assert [(one.kernel_class.axes[0][1], one.latency_secs, one.rank) for one in kept] == [
        (64, 1.0, 0),
        (64, 2.0, 1),
        (65, 5.0, 0),
    ]
    assert {one.origin for one in kept} == {Origin.BUILTIN}


@pytest.mark.parametrize(
    ("default_secs", "n_kept"),
    [
        pytest.param(1.1, 1, id="just enough of a gain"),
        pytest.param(1.09, 0, id="too little"),
        pytest.param(None, 0, id="nobody knows"),
    ],
)
def test_what_gains_nothing_is_not_shipped(maker: ModuleType, default_secs: float | None, n_kept: int) -> None:
    assert len(maker.worth_keeping(entries(ONE, [1.0], default_secs), 2)) == n_kept


def test_the_order_of_what_was_found_makes_no_difference(maker: ModuleType, tmp_path: Path) -> None:
    found = entries(ONE, [3.0, 1.0, 2.0], 10.0) + entries(SAME_CLASS, [5.0, 5.0], 10.0)
    for name, order in (("a.jsonl.gz", found), ("b.jsonl.gz", found[::-1])):
        write_library(tmp_path / name, maker.worth_keeping(order, 2))
    assert (tmp_path / "a.jsonl.gz").read_bytes() == (tmp_path / "b.jsonl.gz").read_bytes()
    assert len(read_library(tmp_path / "a.jsonl.gz").entries) == 4


def test_its_workloads_exist(maker: ModuleType) -> None:
    names = [parse_workload(name).text for name in maker.WORKLOADS]
    assert len(set(names)) == len(names)
