"""What every ScheduleTransfer must do, as a pytest class. Subclass it and give it your transfer.

class TestMyTransfer(ScheduleTransferContract):
    @pytest.fixture
    def transfer(self):
        return MyTransfer()
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pytest

from prune_engine.contracts import check_transfer
from prune_engine.hardware.schema import HardwareProfile
from prune_engine.library.entries import LibraryQuery
from prune_engine.space import DesignSpace
from prune_engine.store import Store, open_store
from prune_engine.strategies import ScheduleTransfer, TransferContext, TransferProposal
from prune_engine.testing.builders import make_batch, make_entries, make_space, make_task
from prune_engine.testing.checks import check_name, check_proposal, snapshot
from prune_engine.testing.profiles import make_profile
from prune_engine.testing.workbench import FakeWorkbench

MakeContext = Callable[[Store], TransferContext]


def fill_store(store: Store, source: DesignSpace) -> None:
    """Store 40 entries of each sketch of a space."""
    for number in range(len(source.sketches)):
        batch = make_batch(40, space=source, sketch=number)
        store.add_entries(make_entries(batch, FakeWorkbench().true_latency_secs(batch).tolist()))


class ScheduleTransferContract:
    """Override ``transfer``; override ``source`` or ``space`` if it only knows particular ones."""

    @pytest.fixture
    def transfer(self) -> ScheduleTransfer:
        """The transfer under test."""
        raise NotImplementedError("give the contract a transfer")

    @pytest.fixture
    def profile(self) -> HardwareProfile:
        """The device."""
        return make_profile()

    @pytest.fixture
    def source(self) -> DesignSpace:
        """The space of the task that the library has schedules of."""
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
        """A store whose library has schedules of ``source``."""
        fill_store(empty_store, source)
        return empty_store

    @pytest.fixture
    def transfer_context(self, profile: HardwareProfile) -> MakeContext:
        """What a transfer may look at, with a store as the library."""

        def fitness(batch: object) -> np.ndarray:
            return np.ones(len(batch))  # type: ignore[arg-type]

        return lambda store: TransferContext(store, "testing-device", 2, profile, fitness)

    def test_name_and_order(self, transfer: ScheduleTransfer) -> None:
        """A dotted name and an order."""
        check_name(transfer)
        assert isinstance(transfer.order, int), f"order is {transfer.order!r}, not an int"

    @pytest.mark.parametrize("limit", [0, 1, 16])
    def test_proposes_at_most_limit(
        self,
        transfer: ScheduleTransfer,
        space: DesignSpace,
        store: Store,
        transfer_context: MakeContext,
        limit: int,
    ) -> None:
        """Allowed rows of the space, at most one batch a sketch, distinct, no more than ``limit``."""
        proposal = check_transfer(
            transfer.name, transfer.propose(space.task, space, transfer_context(store), limit), space, limit
        )
        check_proposal(transfer, [seeds.batch for seeds in proposal.seeds], space)

    def test_empty_library(
        self, transfer: ScheduleTransfer, space: DesignSpace, empty_store: Store, transfer_context: MakeContext
    ) -> None:
        """Nothing known is no error."""
        check_transfer(
            transfer.name, transfer.propose(space.task, space, transfer_context(empty_store), 16), space, 16
        )

    def test_same_library_same_seeds(
        self, transfer: ScheduleTransfer, space: DesignSpace, store: Store, transfer_context: MakeContext
    ) -> None:
        """Asking twice gives the same seeds."""
        first, again = (_seeds(transfer.propose(space.task, space, transfer_context(store), 16)) for _ in range(2))
        assert first == again

    def test_inputs_are_not_changed(
        self, transfer: ScheduleTransfer, space: DesignSpace, store: Store, transfer_context: MakeContext
    ) -> None:
        """The space stays as it was, and nothing is written to the store."""
        before, runs, known = snapshot(space), len(store.runs()), store.find(LibraryQuery())
        transfer.propose(space.task, space, transfer_context(store), 16)
        assert snapshot(space) == before, "the transfer changed the space"
        assert len(store.runs()) == runs, "the transfer wrote to the store"
        assert store.find(LibraryQuery()) == known, "the transfer changed the library"


def _seeds(proposal: TransferProposal) -> list[object]:
    """A proposal as plain values, in order."""
    found: list[object] = []
    for seeds in proposal.seeds:
        rows = seeds.batch.indices.tolist()
        found += zip(
            [seeds.batch.sketch.index] * len(rows), map(tuple, rows), seeds.sources, seeds.policies, strict=True
        )
    return [*found, *((one.trace_json, one.source) for one in proposal.rewritten)]
