"""Whitelisted schedules as donors for kernels of other extents."""

from __future__ import annotations

from dataclasses import replace

import pytest
from kits.engine import RunEngine
from kits.whitelists import enlist, make_check, make_listed

from prune_engine.config import EngineConfig
from prune_engine.library import LibraryQuery, Origin
from prune_engine.store.base import Store
from prune_engine.testing import FakeWorkbench, make_task
from prune_engine.transfers.joined_library import library_of
from prune_engine.verdicts import Outcome, Stage
from prune_engine.whitelist.entries import Whitelist
from prune_engine.whitelist.events import whitelist_of
from prune_engine.whitelist.library import MODEL, WhitelistLibrary


def listed(store: Store, *checks: object) -> Whitelist:
    enlist(store, make_listed(checks=checks))  # type: ignore[arg-type]
    return whitelist_of(store.whitelist_events())


def test_an_entry_is_found_with_the_times_of_its_last_check(store: Store) -> None:
    first, last = make_check(), make_check(run_secs=(2e-3, 2e-3), checked_at=2000.0)
    elsewhere = make_check(device_name="another", n_threads=8)
    library = WhitelistLibrary.of(listed(store, first, last, elsewhere))
    found = {(entry.device_name, entry.n_threads): entry for entry in library.find(LibraryQuery())}
    assert {key: entry.latency_secs for key, entry in found.items()} == {
        ("fake-cpu", 2): 2e-3,
        ("another", 8): 1e-3,
    }
    assert {(entry.origin, entry.model) for entry in found.values()} == {(Origin.WHITELIST, MODEL)}
    assert [e.device_name for e in library.find(LibraryQuery())] == ["another", "fake-cpu"]  # fastest first
    assert len(library.find(LibraryQuery(limit=1))) == 1
    known = found["another", 8].kernel_class
    assert len(library.find(LibraryQuery(strict=known.strict, n_threads=8, model=MODEL))) == 1
    for other in ({"strict": "x"}, {"anchor": "x"}, {"device_name": "x"}, {"n_threads": 3}, {"model": "x"}):
        assert library.find(replace(LibraryQuery(), **other)) == []  # type: ignore[arg-type]


@pytest.mark.parametrize("last", [make_check(problems=("wrong result",)), make_check(run_secs=())])
def test_what_failed_its_last_check_is_no_donor(store: Store, last: object) -> None:
    assert WhitelistLibrary.of(listed(store, make_check(), last)).entries == ()


def test_a_run_has_it_with_and_without_what_is_shipped(store: Store) -> None:
    assert library_of(store, EngineConfig(builtin_library=False), lambda *_, **__: []) is store
    enlist(store, make_listed())
    for builtin in (True, False):
        library = library_of(store, EngineConfig(builtin_library=builtin), lambda *_, **__: [])
        assert [entry.model for entry in library.find(LibraryQuery())] == [MODEL]


def test_a_kernel_of_other_extents_begins_with_it(run_engine: RunEngine, store: Store) -> None:
    enlist(store, make_listed())
    other = make_task("other", shape=(128, 64, 32))
    run_engine([other], FakeWorkbench(), n_trials=8)
    seeds = [v for v in store.verdicts(other.task_id) if v.stage is Stage.SELECT and v.reason.startswith("seed")]
    assert [v.outcome for v in seeds] == [Outcome.KEPT] * len(seeds)
    assert seeds
