"""The page of the adapters says what was counted, and what it was made without."""

from __future__ import annotations

import gzip
import itertools
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("kernel_tuner", reason="the optional extra kernel-tuner")


@pytest.fixture
def kit(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    monkeypatch.syspath_prepend(Path(__file__).parents[1] / "benchmarks")
    import adapters
    import adapters_cost
    import adapters_kernels
    import adapters_orders
    import adapters_report
    import adapters_strategies
    import adapters_triton

    return SimpleNamespace(
        main=adapters,
        cost=adapters_cost,
        kernels=adapters_kernels,
        orders=adapters_orders,
        report=adapters_report,
        strategies=adapters_strategies,
        triton=adapters_triton,
    )


def order_of(kit: SimpleNamespace, device: str, source: str | None, correlation: float | None = 0.5) -> Any:
    return kit.orders.Order(
        device, source, 1000, 9, 8, 1, 7, 6, 0.95, correlation, (0.1, 0.2, 0.3, 0.4, 0.5), (0.11,) * 5
    )


def figures_of(kit: SimpleNamespace, **more: Any) -> Any:
    held = [kit.triton.Held(80, "float16", 36, 30, 2, 4, 3, 1, 5, 6, 4, 2)]
    cost = kit.cost.Cost(1000000, 750000, 5, 0.06, 0.25, 0.85, 1.25)
    return kit.report.Figures("machine", [order_of(kit, "fast", None)], held, cost, **more)


def line_of(page: str, start: str, heading: str) -> list[str]:
    """The cells of the table line that begins with ``start``, in a section."""
    section = page.split(f"## {heading}\n", 1)[1].split("\n## ", 1)[0]
    (line,) = [line for line in section.splitlines() if line.startswith(f"| {start} |")]
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_without_recorded_times_their_parts_are_said_to_be_left_out(kit: SimpleNamespace) -> None:
    page = kit.report.page_text(figures_of(kit))
    assert "## A measured kernel: Kernel Tuner\n\nLeft out: this page was made without recorded times.\n" in page
    assert "Strategies in Kernel Tuner's loop" not in page
    assert line_of(page, "fast | chance", "An invented kernel")[3:] == ["0.11"] * 5
    assert line_of(page, "fast | 9 of 1,000", "An invented kernel")[2:] == ["8", "1", "7", "6", "0.95"]
    told = line_of(page, "sm_80 (a100)", "A footprint against Triton's compiler")
    assert told[1:] == ["float16", "36", "30", "2", "4", "5", "1 of 3", "6", "4", "2"]
    assert "Exact for 30 of 36." in page
    assert line_of(page, "symbols one candidate at a time", "Cost")[1] == "1.25"


def test_strategies_stand_in_the_order_of_what_they_reach(kit: SimpleNamespace) -> None:
    def runs(strategy: str, source: str | None, *last: float, device: str = "A100") -> Any:
        return kit.strategies.Runs(device, strategy, source, np.array([[0.1, 0.2, value] for value in last]), 0.25)

    all_runs = [
        runs("random_sample", None, 0.4, 0.6, 0.8),
        runs("random_sample", None, 0.8, device="A4000"),
        runs("prune-engine", None, 0.5, 0.5, 0.9),
        runs("prune-engine", "A4000", 0.9),
    ]
    recorded = [order_of(kit, "A100", None, None), order_of(kit, "A100", "A4000")]
    copied = {("A100", "A4000"): np.array([0.3, 0.31, 0.32])}
    page = kit.report.page_text(figures_of(kit, recorded=recorded, runs=all_runs, copied=copied))
    heading = "Strategies in Kernel Tuner's loop"
    bare = line_of(page, "A100 | prune-engine | nothing", heading)
    assert bare[3:] == ["3", "0.10", "0.20", "0.50", "0.50 to 0.70", "0.2"]
    assert line_of(page, "A100 | copied", heading)[2:7] == ["results of A4000", "1", "0.30", "0.31", "0.32"]
    means = page.split("Means over all devices", 1)[1].split("\n## ")[0].splitlines()
    assert [line.split(" | ")[0].strip("| ") for line in means if "0." in line] == [
        "prune-engine, with another device's results",
        "random_sample",
        "prune-engine",
        "copied from another device",
    ]
    assert line_of(page, "A100 | its profile alone", "A measured kernel: Kernel Tuner")[2] == "none"


def test_found_counts_the_best_so_far_and_no_failure(kit: SimpleNamespace) -> None:
    secs = np.array([np.nan, 4.0, 8.0, 2.0])
    assert kit.strategies.found_after_trials(secs, 1.0, (1, 2, 3, 4, 9)).tolist() == [0, 0.25, 0.25, 0.5, 0.5]


def test_an_order_tells_what_pruning_lost(kit: SimpleNamespace) -> None:
    pruned = SimpleNamespace(
        kept=np.array([True, True, False, False]),
        legal=np.array([True, True, True, False]),
        scores=np.array([0.5, 0.9, 0.0, 0.0]),
    )

    class Pruned(SimpleNamespace):
        def __len__(self) -> int:
            return 4

    space = SimpleNamespace(pruned=Pruned(**vars(pruned)))
    order = kit.orders.judged("d", None, space, np.array([2.0, 4.0, 1.0, np.nan]))
    assert (order.n, order.n_failed, order.n_illegal, order.n_illegal_ran) == (4, 1, 1, 0)
    assert (order.n_guessed, order.n_guessed_ran, order.kept_best) == (1, 1, 0.5)
    assert order.found[:2] == (0.25, 1.0)
    assert order.correlation is None


def test_a_footprint_is_held_against_what_was_allocated(kit: SimpleNamespace) -> None:
    row = {"BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_K": 32, "num_warps": 4, "num_stages": 2, "spilled_bytes": 0}
    exact = 64 * 2 * 32 * 2
    spilled = {
        "BLOCK_M": 256,
        "BLOCK_N": 256,
        "BLOCK_K": 32,
        "num_warps": 4,
        "num_stages": 2,
        "shared_bytes": 32768,
    }
    rows = [
        *({**row, "shared_bytes": exact + more} for more in (0, -1, 1)),
        {**row, "shared_bytes": 10**6, "spilled_bytes": 8},
        {**spilled, "spilled_bytes": 64},
        {**spilled, "spilled_bytes": 0},
    ]
    held = kit.triton.compared(80, "float16", rows, 166912)
    assert (held.n, held.exact, held.over, held.under) == (6, 3, 1, 2)
    assert (held.unfit, held.unfit_kept, held.fit_dropped) == (1, 1, 0)
    assert (held.spilled, held.spilled_dropped, held.sound_dropped) == (2, 1, 1)


def test_a_folder_without_the_table_is_an_error_and_nothing_is_written(
    kit: SimpleNamespace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["adapters.py", str(tmp_path), "--out", str(tmp_path)])
    assert kit.main.main() != 0
    assert kit.kernels.TABLE in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_recorded_kernel_is_run_by_kernel_tuner_from_what_was_recorded(
    kit: SimpleNamespace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fixed = "read_only=0;use_padding=0;use_shmem=0"
    sizes = [(x, y, tx, ty) for x in (16, 32, 64, 128) for y in (1, 2, 4) for tx in (1, 2) for ty in (1, 2, 4)]
    lines = ["workload\tconfig\tA100\tA4000"]
    for x, y, tx, ty in sizes:
        names = f"block_size_x={x};block_size_y={y};tile_size_x={tx};tile_size_y={ty};{fixed}"
        lines.append(f"\t{names}\t{'invalid' if x == 16 else x * y / tx / ty}\t{x + y + tx + ty}")
    (tmp_path / "gpu").mkdir()
    with gzip.open(tmp_path / "gpu" / kit.kernels.TABLE, "wt") as file:
        file.write("\n".join(lines))
    monkeypatch.setattr(kit.strategies, "RIVALS", ("random_sample",))
    kernel = kit.kernels.RecordedKernel.of_folder(tmp_path)
    runs = list(kit.strategies.runs_of(kernel, "A100", 2, 1))
    assert [(one.strategy, one.source) for one in runs] == [
        ("random_sample", None),
        ("prune-engine", None),
        ("prune-engine", "A4000"),
    ]
    # 72 trials are all that there are.
    assert [one.found[:, -1].tolist() for one in runs] == [[1.0, 1.0], [1.0, 1.0], [1.0]]
    assert kit.strategies.in_order_of(kernel, "A100", "A4000")[-1] == 1.0
    orders = itertools.islice(kit.orders.of_recorded_kernel(kernel), 2)
    assert [(one.device, one.source, one.n_failed) for one in orders] == [
        ("A100", None, 18),
        ("A100", "A4000", 18),
    ]


@pytest.mark.parametrize(
    ("guide", "heading"),
    [("kernel-tuner", "How well"), ("triton", "How well"), ("anyone", "More")],
)
def test_what_guides_say_of_quality_are_lines_of_the_page(guide: str, heading: str) -> None:
    docs = Path(__file__).parents[2] / "docs"
    page = (docs / "benchmarks" / "adapters.md").read_text(encoding="utf-8").splitlines()
    section = (docs / "guides" / f"{guide}.md").read_text(encoding="utf-8").split(f"## {heading}\n")[1]
    lines = [line for line in section.splitlines() if line.startswith("|")]
    assert len(lines) >= 4
    assert [line for line in lines if line not in page] == []
