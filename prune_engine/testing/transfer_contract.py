"""What every ScheduleTransfer must do, as a pytest class. Subclass it and give it your transfer.

class TestMyTransfer(ScheduleTransferContract):
    @pytest.fixture
    def transfer(self):
        return MyTransfer()
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from prune_engine.measurement import MeasuredCandidate
from prune_engine.space import DesignSpace
from prune_engine.store import Store, open_store
from prune_engine.strategies import ScheduleTransfer
from prune_engine.testing.builders import make_batch, make_space, make_task
from prune_engine.testing.checks import check_name, check_proposal, measure_batch, proposed, snapshot


def fill_store(store: Store, source: DesignSpace) -> None:
    """Store measurements of 40 candidates of each sketch of a space; some failed, some are censored."""
    run = store.start_run({})
    store.add_tasks(run, [source.task])
    sketch_ids = [sketch.sketch_id for sketch in source.sketches]
    for number in range(len(source.sketches)):
        batch = make_batch(40, space=source, sketch=number)
        measurements = measure_batch(batch, fail_every=7)
        measured = [MeasuredCandidate(batch.candidate(i), m) for i, m in enumerate(measurements)]
        store.add_measured(run, source.task.task_id, sketch_ids, measured)


class ScheduleTransferContract:
    """Override ``transfer``; override ``source`` or ``space`` if it only knows particular ones."""

    @pytest.fixture
    def transfer(self) -> ScheduleTransfer:
        """The transfer under test."""
        raise NotImplementedError("give the contract a transfer")

    @pytest.fixture
    def source(self) -> DesignSpace:
        """The space of the task that the store knows measurements of."""
        return make_space(make_task("source"))

    @pytest.fixture
    def space(self) -> DesignSpace:
        """The space of the task to find seeds for."""
        return make_space(make_task("wanted", shape=(128, 96, 64)))

    @pytest.fixture
    def empty_store(self) -> Iterator[Store]:
        """A store that knows nothing."""
        store = open_store("sqlite://")
        yield store
        store.close()

    @pytest.fixture
    def store(self, empty_store: Store, source: DesignSpace) -> Store:
        """A store with measurements of ``source``, failures among them."""
        fill_store(empty_store, source)
        return empty_store

    def test_name_and_order(self, transfer: ScheduleTransfer) -> None:
        """A dotted name and an order."""
        check_name(transfer)
        assert isinstance(transfer.order, int), f"order is {transfer.order!r}, not an int"

    @pytest.mark.parametrize("limit", [0, 1, 16])
    def test_proposes_at_most_limit(
        self, transfer: ScheduleTransfer, space: DesignSpace, store: Store, limit: int
    ) -> None:
        """Allowed rows of the space, at most one batch a sketch, distinct, no more than ``limit``."""
        seeds = check_proposal(transfer, transfer.propose(space.task, space, store, limit), space)
        assert sum(map(len, seeds)) <= limit, f"at most {limit} seeds, got {sum(map(len, seeds))}"

    def test_empty_store(self, transfer: ScheduleTransfer, space: DesignSpace, empty_store: Store) -> None:
        """Nothing known is no error."""
        check_proposal(transfer, transfer.propose(space.task, space, empty_store, 16), space)

    def test_same_store_same_seeds(self, transfer: ScheduleTransfer, space: DesignSpace, store: Store) -> None:
        """Asking twice gives the same seeds."""
        first = proposed(transfer.propose(space.task, space, store, 16))
        assert proposed(transfer.propose(space.task, space, store, 16)) == first

    def test_inputs_are_not_changed(
        self, transfer: ScheduleTransfer, space: DesignSpace, source: DesignSpace, store: Store
    ) -> None:
        """The space stays as it was, and nothing is written to the store."""
        before, runs = snapshot(space), len(store.runs())
        known = store.candidates(source.task.task_id, "testing-device", 2)
        transfer.propose(space.task, space, store, 16)
        assert snapshot(space) == before, "the transfer changed the space"
        assert len(store.runs()) == runs, "the transfer wrote to the store"
        assert store.candidates(source.task.task_id, "testing-device", 2) == known
