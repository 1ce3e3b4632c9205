"""What every Store must do, as a pytest class. Subclass it and give it your store.

class TestMyStore(StoreContract):
    @pytest.fixture
    def store(self):
        store = MyStore(...)
        yield store
        store.close()
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from prune_engine.errors import StoreError
from prune_engine.library.entries import LibraryQuery
from prune_engine.measurement import (
    DEFAULT_CANDIDATE,
    Comparison,
    MeasuredCandidate,
    MeasureError,
    MeasureErrorKind,
)
from prune_engine.store.base import Store
from prune_engine.testing.store_samples import DEVICE, SKETCHES, THREADS, store_entry, store_measured, store_task
from prune_engine.verdicts import Outcome, Stage, Verdict
from prune_engine.whitelist.entries import WhitelistAction, WhitelistEvent


class StoreContract:
    """Override ``store``; override ``open_again`` too if others can see what it writes."""

    @pytest.fixture
    def store(self) -> Iterator[Store]:
        """An empty store, closed afterwards."""
        raise NotImplementedError("give the contract a store")

    @pytest.fixture
    def open_again(self) -> Callable[[], Store] | None:
        """Opens the same store once more, as another process would; None if that is impossible."""
        return None

    @pytest.fixture
    def run_id(self, store: Store) -> str:
        """A started run with task-1 and task-2."""
        run_id = store.start_run({"seed": 1})
        store.add_tasks(run_id, [store_task("task-1"), store_task("task-2")])
        return run_id

    def test_has_a_url(self, store: Store) -> None:
        """People are told where the store is."""
        assert store.url

    def test_runs_newest_first(self, store: Store) -> None:
        """Runs come back with their manifest, unfinished ones without an end."""
        manifest = {"versions": {"tvm": "0.27"}, "seed": 3, "load": 0.1, "options": [None, True, "é"]}
        first, second = store.start_run(manifest), store.start_run({})
        store.finish_run(first)
        newest, oldest = store.runs()
        assert (newest.run_id, oldest.run_id) == (second, first)
        assert newest.finished_at is None
        assert oldest.manifest == manifest
        assert oldest.finished_at is not None
        assert oldest.finished_at >= oldest.started_at

    def test_a_manifest_may_grow(self, store: Store) -> None:
        """What is known at the end is added, or the store leaves it; nothing that was there changes."""
        run_id = store.start_run({"seed": 3})
        store.add_to_manifest(run_id, {"seed": 4, "load_after": {"at": 1.5}})
        (run,) = store.runs()
        assert run.manifest["seed"] == 3
        assert run.manifest.get("load_after", {"at": 1.5}) == {"at": 1.5}

    def test_unknown_run_cannot_finish(self, store: Store) -> None:
        """An id that start_run did not return is an error."""
        with pytest.raises(StoreError):
            store.finish_run("nonsense")

    def test_manifest_must_be_json(self, store: Store) -> None:
        """What cannot be read back is not taken, and nothing of it is written."""
        with pytest.raises(StoreError):
            store.start_run({"object": object()})
        assert list(store.runs()) == []

    def test_tasks_may_be_added_again(self, store: Store, run_id: str) -> None:
        """A second run, or the same one, may name the same tasks, under other weights."""
        store.add_tasks(run_id, [store_task("task-1", weight=7)])
        store.add_tasks(store.start_run({}), [store_task("task-1", weight=7), store_task("task-1")])

    def test_tasks_of_a_run_come_back(self, store: Store, run_id: str) -> None:
        """Names and weights are those that each run knew the tasks by."""
        other = store.start_run({})
        store.add_tasks(other, [replace(store_task("task-1", weight=7), name="elsewhere")])
        assert list(store.tasks(run_id)) == [store_task("task-1"), store_task("task-2")]
        assert list(store.tasks(other)) == [replace(store_task("task-1", weight=7), name="elsewhere")]
        assert list(store.tasks("nonsense")) == []

    @pytest.mark.parametrize(
        "measured",
        [
            store_measured("c1"),
            store_measured("c1", run_secs=(0.1 + 0.2, 5e-324, 1.7976931348623157e308, 1e-9 / 3)),
            store_measured("c1", decisions=(), sketch_index=0, trace_json=None),
            store_measured("c1", decisions=((), (2**31 - 1, -2))),
            store_measured("c1", error=MeasureError(MeasureErrorKind.CRASH, "signal 11\n„ü“ 🙂 '\"; --")),
            store_measured("c1", error=MeasureError(MeasureErrorKind.OUT_OF_MEMORY, "")),
        ],
        ids=["plain", "floats", "no-decisions", "odd-decisions", "message", "empty-message"],
    )
    def test_measured_comes_back_the_same(self, store: Store, run_id: str, measured: MeasuredCandidate) -> None:
        """Every field of a measurement and its candidate survives exactly."""
        store.add_measured(run_id, "task-1", SKETCHES, [measured])
        (found,) = store.candidates("task-1", DEVICE, THREADS)
        candidate = measured.candidate
        assert candidate is not None
        assert found.measurement == measured.measurement
        assert found.candidate_id == candidate.candidate_id
        assert (found.sketch_index, found.sketch_id) == (
            candidate.sketch_index,
            SKETCHES[candidate.sketch_index],
        )
        assert found.decisions == candidate.decisions
        assert found.trace_json == measured.trace_json

    def test_all_error_kinds(self, store: Store, run_id: str) -> None:
        """Every kind of failure is remembered as that kind, and counts as measured."""
        failed = [store_measured(kind.value, error=MeasureError(kind, "why")) for kind in MeasureErrorKind]
        store.add_measured(run_id, "task-1", SKETCHES, failed)
        assert [c.measurement for c in store.candidates("task-1", DEVICE, THREADS)] == [
            m.measurement for m in failed
        ]
        assert store.measured_ids("task-1", DEVICE, THREADS) == {kind.value for kind in MeasureErrorKind}

    def test_default_schedule_has_no_sketch(self, store: Store, run_id: str) -> None:
        """The untuned schedule is a candidate without structure."""
        measured = replace(store_measured(DEFAULT_CANDIDATE), candidate=None)
        store.add_measured(run_id, "task-1", (), [measured])
        (found,) = store.candidates("task-1", DEVICE, THREADS)
        assert (found.candidate_id, found.sketch_id, found.sketch_index) == (DEFAULT_CANDIDATE, None, None)
        assert found.decisions == ()

    def test_unstorable_message_loses_no_measurement(self, store: Store, run_id: str) -> None:
        """Half a surrogate pair or a NUL in a compiler's message is spelled out, not an error."""
        error = MeasureError(MeasureErrorKind.BUILD_ERROR, "bad \udc80 byte \x00 end")
        store.add_measured(run_id, "task-1", SKETCHES, [store_measured("c1", error=error)])
        (found,) = store.candidates("task-1", DEVICE, THREADS)
        assert found.measurement.error is not None
        assert found.measurement.error.message.startswith("bad ")
        assert found.measurement.error.message.endswith(" end")

    def test_same_key_changes_nothing(self, store: Store, run_id: str) -> None:
        """The first measurement of a (task, candidate, device, threads) stays, within a batch and after it."""
        first, second = store_measured("c1", run_secs=(1.0,)), store_measured("c1", run_secs=(2.0,))
        store.add_measured(run_id, "task-1", SKETCHES, [first, second])
        store.add_measured(run_id, "task-1", SKETCHES, [second, store_measured("c2", run_secs=(3.0,))])
        found = store.candidates("task-1", DEVICE, THREADS)
        assert [(c.candidate_id, c.measurement.run_secs) for c in found] == [("c1", (1.0,)), ("c2", (3.0,))]

    def test_key_has_task_device_and_threads(self, store: Store, run_id: str) -> None:
        """Another task, device or thread count is another measurement."""
        store.add_measured(run_id, "task-1", SKETCHES, [store_measured("c1")])
        store.add_measured(run_id, "task-2", SKETCHES, [store_measured("c1")])
        store.add_measured(run_id, "task-1", SKETCHES, [store_measured("c1", device_name="gpu")])
        store.add_measured(run_id, "task-1", SKETCHES, [store_measured("c1", n_threads=1)])
        for key in [("task-1", DEVICE, 2), ("task-2", DEVICE, 2), ("task-1", "gpu", 2), ("task-1", DEVICE, 1)]:
            assert len(store.candidates(*key)) == 1
            assert store.measured_ids(*key) == {"c1"}
        assert store.measured_ids("task-2", DEVICE, 1) == frozenset()
        assert list(store.candidates("task-2", "gpu", 2)) == []

    def test_candidates_in_order_of_writing(self, store: Store, run_id: str) -> None:
        """Oldest first, batch by batch and within a batch, whatever the ids sort like."""
        ids = ["z", "a", "m", "b"]
        store.add_measured(run_id, "task-1", SKETCHES, [store_measured(i) for i in ids[:2]])
        store.add_measured(run_id, "task-1", SKETCHES, [store_measured(i) for i in ids[2:]])
        assert [c.candidate_id for c in store.candidates("task-1", DEVICE, THREADS)] == ids

    def test_batch_is_all_or_nothing(self, store: Store, run_id: str) -> None:
        """A batch with one bad member writes none of the others."""
        bad = store_measured("c2", sketch_index=len(SKETCHES))
        with pytest.raises(StoreError):
            store.add_measured(run_id, "task-1", SKETCHES, [store_measured("c1"), bad])
        assert store.measured_ids("task-1", DEVICE, THREADS) == frozenset()

    def test_unknown_task_or_run(self, store: Store, run_id: str) -> None:
        """Measurements of a task or run nobody announced are refused."""
        with pytest.raises(StoreError):
            store.add_measured(run_id, "task-9", SKETCHES, [store_measured("c1")])
        with pytest.raises(StoreError):
            store.add_measured("run-9", "task-1", SKETCHES, [store_measured("c1")])
        assert store.measured_ids("task-9", DEVICE, THREADS) == frozenset()

    def test_empty_batches(self, store: Store, run_id: str) -> None:
        """Writing nothing is fine."""
        store.add_tasks(run_id, [])
        store.add_measured(run_id, "task-1", SKETCHES, [])
        store.add_verdicts(run_id, "task-1", [])
        assert store.measured_ids("task-1", DEVICE, THREADS) == frozenset()
        assert list(store.verdicts("task-1")) == []

    def test_last_comparison(self, store: Store, run_id: str) -> None:
        """The newest comparison of this task on this device, with failures in place."""
        old = Comparison(("c1",), ((1.0,),), (None,))
        new = Comparison(
            (DEFAULT_CANDIDATE, "c2"),
            ((0.1 + 0.2, 5e-324), ()),
            (None, MeasureError(MeasureErrorKind.RUN_TIMEOUT, "10 s \udc80")),
        )
        assert store.last_comparison("task-1", DEVICE, THREADS) is None
        store.add_comparison(run_id, "task-1", DEVICE, THREADS, old)
        store.add_comparison(run_id, "task-1", DEVICE, THREADS, new)
        store.add_comparison(run_id, "task-1", DEVICE, 1, old)
        assert store.last_comparison("task-1", DEVICE, THREADS) == new
        assert store.last_comparison("task-1", DEVICE, 1) == old
        assert store.last_comparison("task-2", DEVICE, THREADS) is None

    def test_verdict_counts_add_up(self, store: Store, run_id: str) -> None:
        """Counts of one (stage, strategy, outcome, reason) are summed in a batch, a run and over runs."""
        drop = Verdict(Stage.RULE, "rules.x", Outcome.DROPPED, "too big", 2**40)
        kept = replace(drop, outcome=Outcome.KEPT, count=5)
        store.add_verdicts(run_id, "task-1", [drop, kept, drop])
        store.add_verdicts(run_id, "task-1", [drop])
        store.add_verdicts(store.start_run({}), "task-1", [drop])
        store.add_verdicts(run_id, "task-2", [drop])
        assert list(store.verdicts("task-1")) == [replace(drop, count=2**42), kept]
        assert list(store.verdicts("task-2")) == [drop]

    def test_verdicts_on_a_candidate(self, store: Store, run_id: str) -> None:
        """A candidate's verdicts come back in order, apart from the counts; the newest evidence stays."""
        drop = Verdict(Stage.DRAFT, "draft.x", Outcome.DROPPED, "", 1, "c1", {"latency_secs": 1e-3 / 3})
        skip = Verdict(Stage.SELECT, "select.x", Outcome.SKIPPED, "not chosen", 1, "c1")
        other, count = replace(drop, candidate_id="c2"), replace(drop, candidate_id=None)
        store.add_verdicts(run_id, "task-1", [drop, skip, other, count])
        assert list(store.verdicts("task-1", "c1")) == [drop, skip]
        assert list(store.verdicts("task-1", "c3")) == []
        assert list(store.verdicts("task-2", "c1")) == []
        everything = list(store.verdicts("task-1"))
        assert len(everything) == 4
        assert all(verdict in everything for verdict in (drop, skip, other, count))
        again = replace(drop, evidence={"latency_secs": 2.0})
        store.add_verdicts(store.start_run({}), "task-1", [again])
        assert store.verdicts("task-1", "c1")[0] == replace(again, count=2)

    def test_entries_of_the_library_come_back_whole(self, store: Store) -> None:
        """Every field of an entry is kept; what the same schedule achieved is kept once."""
        entry = store_entry()
        assert store.add_entries([]) == 0
        assert store.add_entries([entry, entry]) == 1
        assert list(store.find(LibraryQuery())) == [entry]
        assert store.find(LibraryQuery())[0].entry_id == entry.entry_id
        assert store.add_entries([entry]) == 0

    def test_of_equal_entries_the_faster_stays(self, store: Store) -> None:
        """A schedule that was measured again is no other schedule."""
        slow, fast = store_entry((3e-3,)), store_entry((1e-3,))
        assert slow.entry_id == fast.entry_id
        store.add_entries([slow])
        assert store.add_entries([fast, slow]) == 0
        assert list(store.find(LibraryQuery())) == [fast]
        store.add_entries([slow])
        assert list(store.find(LibraryQuery())) == [fast]

    @pytest.mark.parametrize("field", ["strict", "anchor", "device_name", "n_threads", "model"])
    def test_find_by(self, store: Store, field: str) -> None:
        """Each part of a query leaves out what it does not fit."""
        values: dict[str, Any] = {field: 7 if field == "n_threads" else "other"}
        changed = values
        if field in ("strict", "anchor"):
            changed = {"kernel_class": replace(store_entry().kernel_class, **values)}
        entries = [store_entry(), store_entry(sketch_id="sketch-c", **changed)]
        store.add_entries(entries)
        assert list(store.find(LibraryQuery(**values))) == entries[1:]
        assert len(store.find(LibraryQuery())) == 2

    def test_find_gives_the_fastest_first(self, store: Store) -> None:
        """The order is that of flop/s, and a limit keeps its head."""
        entries = [store_entry((secs,), sketch_id=f"sketch-{secs}") for secs in (2e-3, 1e-3, 4e-3, 3e-3)]
        store.add_entries(entries)
        best_first = [entries[k] for k in (1, 0, 3, 2)]
        assert list(store.find(LibraryQuery())) == best_first
        assert list(store.find(LibraryQuery(strict="strict-1", limit=2))) == best_first[:2]

    def test_entries_can_be_removed(self, store: Store) -> None:
        """Any number at once; those that are not there do not count."""
        entries = [store_entry(sketch_id=f"sketch-{k}") for k in range(3)]
        store.add_entries(entries)
        assert store.remove_entries([]) == 0
        unknown = [f"unknown-{k}" for k in range(2000)]
        assert store.remove_entries([entries[0].entry_id, *unknown, entries[2].entry_id]) == 2
        assert list(store.find(LibraryQuery())) == [entries[1]]

    def test_changes_of_the_whitelist_are_numbered(self, store: Store) -> None:
        """They come back whole and in order; one that was decided by an older revision is not written."""
        first = WhitelistEvent("e1", WhitelistAction.ADD, 1.5, "ada", "é \udc80", "strict-1", '{"a": 1}')
        second = WhitelistEvent("e1", WhitelistAction.REMOVE, 0.5, "bob", "slow", "strict-2")
        assert list(store.whitelist_events()) == []
        try:
            assert store.add_whitelist_events([first], after=0) == 1
        except StoreError:
            pytest.skip("this store keeps no whitelist")
        assert store.add_whitelist_events([second]) == 2
        with pytest.raises(StoreError):
            store.add_whitelist_events([first, first], after=1)
        kept = [replace(first, reason="é \\udc80", revision=1), replace(second, revision=2)]
        assert list(store.whitelist_events()) == kept
        assert list(store.whitelist_events("strict-2")) == kept[1:]

    def test_closed_store_says_so(self, store: Store, run_id: str) -> None:
        """After close every call is a StoreError; closing again is not."""
        store.close()
        store.close()
        for call in (
            store.runs,
            lambda: store.start_run({}),
            lambda: store.measured_ids("task-1", DEVICE, THREADS),
            lambda: store.find(LibraryQuery()),
            lambda: store.add_measured(run_id, "task-1", SKETCHES, [store_measured("c1")]),
        ):
            with pytest.raises(StoreError, match="closed"):
                call()

    def test_another_handle_sees_what_was_written(
        self, store: Store, run_id: str, open_again: Callable[[], Store] | None
    ) -> None:
        """What a write returned from is there for everybody, both ways, and nobody stores it twice."""
        if open_again is None:
            pytest.skip("this store is private to its handle")
        store.add_measured(run_id, "task-1", SKETCHES, [store_measured("c1", run_secs=(1.0,))])
        other = open_again()
        try:
            assert other.measured_ids("task-1", DEVICE, THREADS) == {"c1"}
            again = [store_measured("c1", run_secs=(9.0,)), store_measured("c2", run_secs=(2.0,))]
            other.add_measured(other.start_run({}), "task-1", SKETCHES, again)
        finally:
            other.close()
        found = store.candidates("task-1", DEVICE, THREADS)
        assert [(c.candidate_id, c.measurement.run_secs) for c in found] == [("c1", (1.0,)), ("c2", (2.0,))]
