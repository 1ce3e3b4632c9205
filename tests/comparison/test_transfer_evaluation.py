"""The transfer evaluation does each thing once, with the right library, and forgets what is out of date."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

MODELS = ["squeezenet", "MiniLM-L3", "MiniLM-L3-64"]
KERNELS = ["gemm-127"]


class Bench:
    """What the slow parts would do, and what they were asked."""

    def __init__(self, records: ModuleType) -> None:
        self._records = records
        self.tuned: list[str] = []
        self.failing: set[str] = set()
        self.moved: list[tuple[str, str, list[str]]] = []

    def tune(self, subject: Any, seconds: float, n_threads: int, seed: int, store: Path) -> Any:
        self.tuned.append(subject.name)
        if subject.name in self.failing:
            raise self._records.NeverBeganError("too few seconds")
        store.parent.mkdir(parents=True, exist_ok=True)
        store.touch()
        return self._records.Tuned(subject.name, seconds, n_threads, 1.0, 2.0, (), (0.0, 0.0))

    def entries_of(self, store: Path) -> list[str]:
        return [store.stem]

    def mover(self, subject: Any, n_threads: int) -> Any:
        bench, records = self, self._records

        class Mover:
            def __enter__(self) -> Mover:
                return self

            def __exit__(self, *_: object) -> None: ...

            def move(self, library: str, entries: list[str], limits: Sequence[int], *, has_finals: bool) -> Any:
                bench.moved.append((subject.name, library, entries))
                return records.Moved(
                    subject.name, library, len(entries), (), dict.fromkeys(limits, 1.0), (0.0, 0.0)
                )

        return Mover()


@pytest.fixture
def kit(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> SimpleNamespace:
    monkeypatch.syspath_prepend(Path(__file__).parents[1] / "benchmarks")
    import transfer
    import transfer_records
    import transfer_subjects

    bench = Bench(transfer_records)
    monkeypatch.setitem(
        sys.modules, "transfer_tuning", SimpleNamespace(tune=bench.tune, entries_of=bench.entries_of)
    )
    monkeypatch.setitem(sys.modules, "transfer_moves", SimpleNamespace(Mover=bench.mover))
    state_file = tmp_path / "state.jsonl"

    def evaluation(**other: Any) -> Any:
        fields = {"state": state_file, "models": MODELS, "kernels": KERNELS, "threads": 1, "seed": 0}
        fields |= {
            "model_seconds": 300.0,
            "kernel_seconds": 60.0,
            "budget_seconds": None,
            "move_to": None,
            "halves": True,
        }
        return transfer.Evaluation(argparse.Namespace(**fields | other), transfer_records.State(state_file))

    return SimpleNamespace(
        evaluation=evaluation,
        bench=bench,
        state=lambda: transfer_records.State(state_file),
        forget=transfer.forget,
        donors=list(transfer_subjects.DONOR_NAMES),
    )


def test_everything_is_tuned_once(kit: SimpleNamespace) -> None:
    kit.evaluation().tune()
    assert sorted(kit.bench.tuned) == sorted([*MODELS, *KERNELS, *kit.donors])
    kit.evaluation().tune()
    assert len(kit.bench.tuned) == len(set(kit.bench.tuned))


def test_more_seconds_are_another_maximum(kit: SimpleNamespace) -> None:
    kit.evaluation(models=["squeezenet"], kernels=[]).tune()
    kit.evaluation(models=["squeezenet"], kernels=[], model_seconds=600.0).tune()
    assert kit.bench.tuned == ["squeezenet", "squeezenet"]


def test_a_model_is_left_out_with_its_family(kit: SimpleNamespace) -> None:
    kit.evaluation().tune()
    kit.evaluation().move()
    kit.evaluation().move()
    all_others = {
        "squeezenet": ["MiniLM-L3", "MiniLM-L3-64"],
        "MiniLM-L3": ["squeezenet"],
        "MiniLM-L3-64": ["squeezenet"],
        "gemm-127": kit.donors,
    }
    halves = {"all": True, "all, transferred only": True, "nothing, search only": False}
    assert kit.bench.moved == [
        *(
            (name, half, of if has_library else [])
            for name, of in all_others.items()
            for half, has_library in halves.items()
        ),
        ("MiniLM-L3", "MiniLM-L3-64", ["MiniLM-L3-64"]),
        ("MiniLM-L3-64", "MiniLM-L3", ["MiniLM-L3"]),
    ]


def test_some_models_are_sources_only(kit: SimpleNamespace) -> None:
    kit.evaluation(kernels=[]).tune()
    kit.evaluation(kernels=[], move_to=["squeezenet"], halves=False).move()
    assert kit.bench.moved == [("squeezenet", "all", ["MiniLM-L3", "MiniLM-L3-64"])]


def test_half_a_library_is_no_library(kit: SimpleNamespace) -> None:
    kit.evaluation(models=["squeezenet", "MiniLM-L3"], kernels=[]).tune()
    kit.evaluation(models=["squeezenet", "MiniLM-L3", "resnet50"], kernels=[]).move()
    assert {library for _, library, _ in kit.bench.moved} == {"MiniLM-L3", "MiniLM-L3-64"}


def test_single_sources_are_never_of_the_family(kit: SimpleNamespace) -> None:
    kit.evaluation().tune()
    kit.evaluation().sources()
    assert {(name, library) for name, library, _ in kit.bench.moved} == {
        ("squeezenet", "MiniLM-L3"),
        ("squeezenet", "MiniLM-L3-64"),
        ("MiniLM-L3", "squeezenet"),
        ("MiniLM-L3-64", "squeezenet"),
    }


def test_what_fails_stops_nothing_else(kit: SimpleNamespace) -> None:
    kit.bench.failing = {"squeezenet"}
    kit.evaluation(kernels=[]).tune()
    assert set(kit.state().tuned) == {"MiniLM-L3", "MiniLM-L3-64"}
    kit.bench.failing = set()
    kit.evaluation(kernels=[]).tune()
    assert set(kit.state().tuned) == set(MODELS)


def test_nothing_begins_that_would_not_end_in_time(kit: SimpleNamespace) -> None:
    kit.evaluation(models=["squeezenet"], kernels=["gemm-127"], budget_seconds=200.0).tune()
    assert "squeezenet" not in kit.bench.tuned
    assert "gemm-127" in kit.bench.tuned


@pytest.mark.parametrize(
    ("part", "n_tuned", "is_left"),
    [
        pytest.param("sources", 3, {"all": True, "source": False, "length": True}, id="sources alone"),
        pytest.param("move", 3, {"all": False, "source": True, "length": False}, id="moves, but not the sources"),
        pytest.param(
            "tune", 0, {"all": False, "source": False, "length": False}, id="tuning, and what was made of it"
        ),
    ],
)
def test_forgetting(kit: SimpleNamespace, part: str, n_tuned: int, is_left: dict[str, bool]) -> None:
    evaluation = kit.evaluation(kernels=[])
    evaluation.tune()
    evaluation.move()
    evaluation.sources()
    state = kit.state()
    kit.forget(state, [part], set(MODELS))
    pairs = {"all": ("squeezenet", "all"), "source": ("MiniLM-L3", "squeezenet")}
    pairs["length"] = ("MiniLM-L3", "MiniLM-L3-64")
    assert {what: pair in state.moved for what, pair in pairs.items()} == is_left
    assert len(state.tuned) == n_tuned


def test_others_are_not_forgotten(kit: SimpleNamespace) -> None:
    kit.evaluation(kernels=[]).tune()
    state = kit.state()
    kit.forget(state, ["tune"], {"squeezenet"})
    assert set(state.tuned) == {"MiniLM-L3", "MiniLM-L3-64"}
