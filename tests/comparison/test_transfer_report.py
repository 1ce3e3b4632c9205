"""The page of the transfer evaluation says what the records say, whatever parts there are."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

LIMITS = (0, 4, 16)
#: Seconds of the one kernel of each subject in turns.
IN_TURNS = {"untuned": 9.0, "full": 1.0, "at-0": 3.0, "at-4": 2.0, "at-16": 1.0}


@pytest.fixture
def kit(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> SimpleNamespace:
    monkeypatch.syspath_prepend(Path(__file__).parents[1] / "benchmarks")
    import transfer_records as records
    import transfer_report

    def tuned(name: str) -> Any:
        trials = (records.Trial(5.0, 2.0), records.Trial(20.0, 1.0))
        task = records.TunedTask("k", "kernel", 1, 10, "s", "a", "matmul", 9.0, trials, "trace")
        return records.Tuned(name, 60.0, 2, 3.0, 70.0, (task,), (0.1, 0.2), {"date": "2026-11-30"})

    def moved(name: str, library: str, limits: tuple[int, ...] = LIMITS, best_secs: float = 2.0) -> Any:
        policy = records.Policy("nearest", 4, 1, 1, 2, {"too long": 3})
        result = records.MovedResult(
            {"strict": 2}, (policy,), "nearest", "other, kernel", 4, {}, 9.0, best_secs, "trace", "no_seeds_left"
        )
        task = records.MovedTask("k", dict.fromkeys(limits, result))
        return records.Moved(name, library, 6, (task,), dict.fromkeys(limits, 2.0), (0.3, 0.4))

    state = records.State(tmp_path / "state.jsonl")

    def add(*names: str, library: str = "all") -> None:
        for name in names:
            state.add("tuned", tuned(name))
            state.add("moved", moved(name, library))
            state.add("timed", records.Timed(name, library, {"k": IN_TURNS}, {}, (0.0, 0.0)))

    def page() -> str:
        text: str = transfer_report.write(state, tmp_path / "out", LIMITS, 4).read_text(encoding="utf-8")
        return text

    figures = tmp_path / "out" / transfer_report.DATA
    return SimpleNamespace(
        state=state, records=records, tuned=tuned, moved=moved, add=add, page=page, figures=figures
    )


def line_of(page: str, start: str, heading: str) -> list[str]:
    """The cells of the table line that begins with ``start``, in a section."""
    section = page.split(f"## {heading}\n", 1)[1].split("\n## ", 1)[0]
    (line,) = [line for line in section.splitlines() if line.startswith(f"| {start} |")]
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_nothing_yet_is_a_page(kit: SimpleNamespace) -> None:
    assert "No model has been moved to yet." in kit.page()
    assert json.loads(kit.figures.read_text()) == {"models": [], "awkward": [], "lengths": []}


def test_models_and_their_mean(kit: SimpleNamespace) -> None:
    kit.add("squeezenet", "ppocr-cls")
    page = kit.page()
    for name in ("squeezenet", "ppocr-cls", "**mean**"):
        cells = line_of(page, name, "Models, each from all the others (leave one out)")
        assert cells[6:9] == ["25 %", "44 %", "100 %"], name
    cells = line_of(page, "squeezenet", "Models, each from all the others (leave one out)")
    assert cells[2:6] == ["9.00", "3.00", "4.50", "9.00"]
    assert cells[9:] == ["4.0", "2.0", "2.0", "5.0", "5.0", "20.0", "2.5", "10.0", "2"]
    assert "- 16 measurements per kernel: **100 % of the maximum** on average, goal 90 %: reached" in page
    assert "- 0 measurements per kernel: **25 % of the maximum** on average, goal 60 %: missed" in page


def test_what_each_half_is_worth(kit: SimpleNamespace) -> None:
    kit.add("squeezenet")
    heading = "Models, each from all the others (leave one out)"
    assert "the search, no library" not in kit.page()
    secs = {**IN_TURNS, "seeds-at-16": 2.0, "search-at-16": 3.0}
    for half in ("all, transferred only", "nothing, search only"):
        kit.state.add("moved", kit.moved("squeezenet", half))
    kit.state.add("timed", kit.records.Timed("squeezenet", "all", {"k": secs}, {}, (0.0, 0.0)))
    page = kit.page()
    assert line_of(page, "the search, no library", heading)[3::3] == ["25 %", "0.33", "0.33"]
    assert line_of(page, "both, as `transfer` runs", heading)[3::3] == ["100 %", "1.00", "1.00"]


def test_policies(kit: SimpleNamespace) -> None:
    kit.add("squeezenet", "ppocr-cls")
    assert line_of(kit.page(), "nearest", "Policies") == [
        *("nearest", "8", "4", "2", "2", "50.0 %", "2", "too long: 6"),
    ]


def test_awkward_kernels_and_other_lengths_have_tables_of_their_own(kit: SimpleNamespace) -> None:
    kit.add("gemm-127")
    kit.add("MiniLM-L3", library="MiniLM-L3-64")
    page = kit.page()
    assert "No model has been moved to yet." in page
    assert line_of(page, "gemm-127", "Kernels of awkward sizes, from kernels of usual ones")[2] == "9.00"
    assert line_of(page, "MiniLM-L3", "Another length of the same model")[2] == "9.00"


def test_whole_models_and_the_command(kit: SimpleNamespace) -> None:
    kit.add("squeezenet")
    secs = {"untuned": (5.0, 5.0), "full": (1.0, 1.0), "at-0": (3.0, 3.0), "at-4": (2.0, 2.0), "at-16": (1.0, 1.0)}
    kit.state.add("whole", kit.records.Whole("squeezenet", {**secs, "onnxruntime": (0.5, 0.5)}, True, (0.0, 0.0)))
    latencies = {"untuned": 6.0, "tuned": 2.0}
    done = kit.records.Command("squeezenet", "all", 16, 40.0, 30, True, False, latencies, ("x",), (0.0, 0.0))
    kit.state.add("command", done)
    page = kit.page()
    cells = line_of(page, "squeezenet", "The same as whole models")
    assert cells[1:3] == ["5000.00", "1000.00"]
    assert cells[-4:] == ["17 %", "38 %", "100 %", "yes"]
    assert line_of(page, "squeezenet", "By the command")[-4:] == ["-", "50 %", "1", "**no**"]


def test_a_run_that_began_with_the_library(kit: SimpleNamespace) -> None:
    kit.add("squeezenet")
    seeded = {"k": {**IN_TURNS, "seeded": 0.9}}
    kit.state.add("timed", kit.records.Timed("squeezenet", "all", seeded, {}, (0.0, 0.0)))
    kit.state.add("seeded", kit.tuned("squeezenet"))
    cells = line_of(kit.page(), "squeezenet", "Tuning on from there")
    assert cells == ["squeezenet", "60", "9.00", "10.00", "20.0", "20.0", "2, 2"]


def test_sources(kit: SimpleNamespace) -> None:
    """A source that halves and one that does nothing; both have one kernel of the class."""
    kit.add("squeezenet", "ppocr-cls", "silero-vad")
    for source, best_secs in (("ppocr-cls", 4.5), ("silero-vad", 9.0)):
        kit.state.add("moved", kit.moved("squeezenet", source, (4,), best_secs))
    page = kit.page()
    heading = "Choosing one source"
    assert line_of(page, "ppocr-cls", heading)[1] == "12 %"
    assert line_of(page, "silero-vad", heading)[1] == "0 %"
    assert line_of(page, "the best source, known afterwards", heading)[2] == "12 %"
    assert line_of(page, "a source at random", heading)[2] == "6 %"
    assert line_of(page, "all of them in one pool", heading)[2] == "44 %"
