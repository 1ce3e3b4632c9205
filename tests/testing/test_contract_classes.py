"""The contract classes pass what keeps the contract and catch, test by test, what breaks it."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from kits.contract_breaches import BROKEN
from kits.contract_strategies import DrawingExplorer, MemoryVerifier, NoTransfer, OddRule, TopSelector, TrueDraft

from prune_engine import testing
from prune_engine.errors import PluginContractError, SpaceError
from prune_engine.store import open_store
from prune_engine.store.base import Store
from prune_engine.strategies import (
    DraftScorer,
    Explorer,
    Rule,
    ScheduleTransfer,
    Selector,
    TransferContext,
    Verifier,
)
from prune_engine.testing import (
    DraftScorerContract,
    ExplorerContract,
    RuleContract,
    ScheduleTransferContract,
    SelectorContract,
    VerifierContract,
    make_context,
    make_profile,
    make_space,
    make_task,
)
from prune_engine.testing.transfer_contract import fill_store

CAUGHT = (AssertionError, PluginContractError)


class TestRulePasses(RuleContract):
    @pytest.fixture
    def rule(self) -> Rule:
        return OddRule()


class TestDraftPasses(DraftScorerContract):
    @pytest.fixture
    def draft_scorer(self) -> DraftScorer:
        return TrueDraft()


class TestExplorerPasses(ExplorerContract):
    @pytest.fixture
    def explorer(self) -> Explorer:
        return DrawingExplorer()


class TestVerifierPasses(VerifierContract):
    @pytest.fixture
    def verifier(self) -> Verifier:
        return MemoryVerifier()


class TestSelectorPasses(SelectorContract):
    @pytest.fixture
    def selector(self) -> Selector:
        return TopSelector()


class TestTransferPasses(ScheduleTransferContract):
    @pytest.fixture
    def transfer(self) -> ScheduleTransfer:
        return NoTransfer()


@pytest.fixture
def stores() -> Iterator[Mapping[str, Store]]:
    """An empty store and one that knows measurements, for the tests that want one."""
    empty, known = open_store("sqlite://"), open_store("sqlite://")
    fill_store(known, make_space(make_task("source")))
    yield {"empty_store": empty, "store": known}
    empty.close()
    known.close()


@pytest.mark.parametrize(
    ("contract", "fixture", "test", "strategy"),
    BROKEN,
    ids=[f"{c.__name__}-{t}-{i}" for i, (c, _, t, _) in enumerate(BROKEN)],
)
def test_breach_is_caught(
    contract: type, fixture: str, test: str, strategy: object, stores: Mapping[str, Store], tmp_path: Path
) -> None:
    offered = {
        **stores,
        fixture: strategy,
        "space": copy.deepcopy(make_space(make_task(shape=(64, 48, 32)))),
        "source": make_space(make_task("source")),
        "profile": make_profile(),
        "context": make_context(),
        "transfer_context": lambda store: TransferContext(store, "cpu", 2, make_profile(), make_context().draft),
        "symbols": {},
        "fitness": None,
        "tmp_path": tmp_path,
        "n": 50,
        "k": 16,
        "limit": 16,
        "is_trained": True,
        "n_trained": 100,
        "content": b"no model",
    }
    method = getattr(contract(), test)
    arguments = {name: offered[name] for name in inspect.signature(method).parameters}
    # Whatever a broken strategy raises by itself fails the contract's test as well.
    with pytest.raises((*CAUGHT, SpaceError, TypeError, KeyError, IndexError, pytest.fail.Exception, ValueError)):
        method(**arguments)


@pytest.mark.parametrize("contract", sorted({c for c, *_ in BROKEN}, key=lambda c: c.__name__))
def test_every_contract_test_was_seen_failing(contract: type) -> None:
    tests = {name for name in dir(contract) if name.startswith("test_")}
    assert tests == {test for c, _, test, _ in BROKEN if c is contract}


def test_names_of_the_kit() -> None:
    assert all(getattr(testing, name) for name in testing.__all__)
    with pytest.raises(AttributeError, match="NoSuchContract"):
        testing.NoSuchContract  # noqa: B018
    assert issubclass(testing.StoreContract, object)
