"""Which model of a library to transfer from."""

from __future__ import annotations

from dataclasses import replace
from typing import get_args

import pytest
from kits.engine import PlannedSeeds, RunEngine, StrategyPlugin

from prune_engine.config import EngineConfig
from prune_engine.errors import ConfigError
from prune_engine.library import LibraryQuery
from prune_engine.store.base import Store
from prune_engine.testing import make_batch, make_entries, make_space, make_task
from prune_engine.transfers.source_choice import (
    ANCHOR_WEIGHT,
    FORMS,
    KnownKernels,
    OnlyModel,
    kernels_by_model,
    rank_sources,
)

SECS = {"conv": 8.0, "dense": 1.0, "pool": 1.0}
COUNTS = {
    "few convolutions": {"conv": 1},
    "many of all": {"conv": 1, "dense": 9, "pool": 9},
    "dense alone": {"dense": 400},
    "stranger": {"attention": 50},
}
KERNELS = {model: {name: KnownKernels(n) for name, n in counts.items()} for model, counts in COUNTS.items()}


def order(form: str) -> list[str]:
    return [one.model for one in rank_sources(SECS, KERNELS, form)]


def test_the_published_form_lets_the_dominant_class_decide() -> None:
    first, *_ = ranked = rank_sources(SECS, KERNELS, "squared")
    assert [one.model for one in ranked] == ["many of all", "few convolutions", "dense alone"]
    assert first.score == pytest.approx(0.64 + 2 * 0.01 * 3)
    assert first.covered == pytest.approx(1.0)
    assert first.n_kernels == 19
    assert ranked[-1].covered == pytest.approx(0.1)


def test_what_is_covered_decides_unless_told_otherwise() -> None:
    """One kernel of each class is more than any number of one class: what is left untuned takes the time."""
    kernels = {
        "a little of all": {"conv": KnownKernels(1), "dense": KnownKernels(1), "pool": KnownKernels(1)},
        "convolutions": {"conv": KnownKernels(400)},
    }
    assert [one.model for one in rank_sources(SECS, kernels)] == ["a little of all", "convolutions"]
    assert [one.model for one in rank_sources(SECS, kernels, "squared")] == ["convolutions", "a little of all"]
    assert EngineConfig().source_form == "covered"


def test_forms_differ() -> None:
    assert order("linear") == ["dense alone", "many of all", "few convolutions"]
    assert order("covered") == ["many of all", "few convolutions", "dense alone"]
    assert order("count") == ["dense alone", "many of all", "few convolutions"]


def test_of_those_that_cover_as_much_the_richer_comes_first_and_of_equals_the_smaller() -> None:
    three = {
        "a": {"conv": KnownKernels(1)},
        "b": {"conv": KnownKernels(3), "pool": KnownKernels(3)},
        "c": {"conv": KnownKernels(3)},
    }
    assert [s.model for s in rank_sources({"conv": 1.0}, three)] == ["b", "c", "a"]
    assert [s.model for s in rank_sources({"conv": 1.0, "pool": 0.0}, three)] == ["c", "b", "a"]


@pytest.mark.parametrize("form", FORMS)
def test_an_anchor_counts_less_than_the_class_and_more_than_nothing(form: str) -> None:
    kernels = {
        "stranger": {"attention": KnownKernels(9, 9)},
        "anchor": {"conv": KnownKernels(0, 2)},
        "class": {"conv": KnownKernels(2)},
        "both": {"conv": KnownKernels(2, 7), "dense": KnownKernels(0, 2)},
    }
    both, of_class, of_anchor = rank_sources(SECS, kernels, form)
    assert [one.model for one in (both, of_class, of_anchor)] == ["both", "class", "anchor"]
    assert of_anchor.score == pytest.approx(ANCHOR_WEIGHT * of_class.score)
    assert both.score == pytest.approx(of_class.score + ANCHOR_WEIGHT * FORMS[form](0.1, 2))
    told = [(one.covered, one.covered_by_anchor, one.n_kernels) for one in (both, of_class, of_anchor)]
    assert told == [pytest.approx(row) for row in ((0.8, 0.1, 4), (0.8, 0, 2), (0, 0.8, 2))]


def test_a_kernel_of_the_class_weighs_as_much_as_four_of_the_anchor() -> None:
    kernels = {"class": {"conv": KnownKernels(1)}, "anchor": {"conv": KnownKernels(0, 4)}}
    one, other = rank_sources(SECS, kernels, "squared")
    assert one.score == pytest.approx(other.score)


@pytest.mark.parametrize("secs", [{}, {"conv": 0.0}, {"norm": 3.0}])
def test_no_source_without_a_common_class(secs: dict[str, float]) -> None:
    assert rank_sources(secs, KERNELS) == []


def test_unknown_form() -> None:
    with pytest.raises(ConfigError, match="one of: covered, squared"):
        rank_sources(SECS, KERNELS, "cubed")
    with pytest.raises(ConfigError, match="source_form"):
        EngineConfig.of(source_form="cubed")
    assert set(get_args(EngineConfig.model_fields["source_form"].annotation)) == set(FORMS)


@pytest.fixture
def library(store: Store) -> Store:
    """Model "a" has schedules of two sizes of the kernel, "b" of one; "a" has two schedules of one of them."""
    for model, shape, n in (("a", (64, 48, 32), 2), ("a", (32, 48, 32), 1), ("b", (16, 48, 32), 1)):
        batch = make_batch(n, space=make_space(make_task("source", shape=shape)))
        store.add_entries(make_entries(batch, [1e-3 * (i + 1) for i in range(n)], model=model))
    return store


def test_kernels_are_counted_and_not_schedules(library: Store) -> None:
    task = make_task()
    assert task.kernel_class
    strict, anchor = task.kernel_class.strict, task.kernel_class.anchor
    assert kernels_by_model(library, {strict: anchor, "other": "none"}) == {
        "a": {strict: KnownKernels(2)},
        "b": {strict: KnownKernels(1)},
    }
    assert kernels_by_model(library, {"fused": anchor}) == {
        "a": {"fused": KnownKernels(0, 2)},
        "b": {"fused": KnownKernels(0, 1)},
    }


def test_library_of_one_model(library: Store) -> None:
    assert {e.model for e in OnlyModel(library, "a").find(LibraryQuery())} == {"a"}
    assert len(OnlyModel(library, "a").find(LibraryQuery(limit=2))) == 2
    assert OnlyModel(library, "nobody").find(LibraryQuery()) == []


class Listening(PlannedSeeds):
    """Notes which models it can see."""

    seen: set[str]

    def propose(self, *args: object) -> object:
        self.seen = {entry.model for entry in args[2].library.find(LibraryQuery())}  # type: ignore[attr-defined]
        return super().propose(*args)


@pytest.mark.parametrize(("source", "seen"), [("library", {"a", "b"}), ("best", {"a"}), ("b", {"b"}), ("c", set())])
def test_transfers_see_the_source_alone(run_engine: RunEngine, library: Store, source: str, seen: set[str]) -> None:
    transfer = Listening()
    plugins = {"acme": StrategyPlugin(transfer)}
    options = {"n_trials": 2, "transfer_source": source, "harvest": False, "builtin_library": False}
    run = run_engine([make_task("wanted")], plugins=plugins, **options)
    assert transfer.seen == seen
    assert [one.model for one in run.result.sources] == (["a", "b"] if source == "best" else [])


def test_a_model_that_shares_only_anchors_is_chosen(run_engine: RunEngine, library: Store) -> None:
    task = make_task("wanted")
    assert task.kernel_class
    fused = replace(task, kernel_class=replace(task.kernel_class, strict="matmul and something else"))
    transfer = Listening()
    plugins = {"acme": StrategyPlugin(transfer)}
    run = run_engine([fused], plugins=plugins, n_trials=2, transfer_source="best", harvest=False)
    assert transfer.seen == {"a"}
    first, second = run.result.sources
    assert (first.model, first.covered, first.covered_by_anchor, first.n_kernels) == ("a", 0.0, 1.0, 2)
    assert second.model == "b"


def test_without_a_source_nothing_is_transferred(run_engine: RunEngine) -> None:
    task = replace(make_task(), kernel_class=None)
    run = run_engine([task], n_trials=2, transfer_source="best")
    assert run.result.sources == ()
    assert len(run.asked) == 2
