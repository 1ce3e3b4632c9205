"""Symbols with planted values: who has which, and what a batch without them does."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

from prune_engine.candidates import CandidateBatch
from prune_engine.errors import PluginContractError, SpaceError
from prune_engine.hardware import DeviceKind
from prune_engine.hardware.schema import HardwareProfile
from prune_engine.space import DesignSpace
from prune_engine.strategies import Rule
from prune_engine.testing import RuleContract, make_batch, make_profile, make_space
from prune_engine.testing.planted import opaque_twin
from prune_engine.verdicts import BoolArray


class Warps(Rule):
    """Keeps blocks of two warps and more."""

    name = "acme.warps"

    def mask(self, batch: CandidateBatch, profile: HardwareProfile) -> BoolArray:
        if batch.is_opaque:
            return np.ones(len(batch), dtype=np.bool_)
        return np.asarray(batch.symbol("threads_per_block") >= 64)

    def reason(self, symbols: Mapping[str, float], profile: HardwareProfile) -> str:
        return f"{symbols['threads_per_block']:.0f} threads"


class Unguarded(Warps):
    """Asks for symbols that a sketch nobody could read does not have."""

    def mask(self, batch: CandidateBatch, profile: HardwareProfile) -> BoolArray:
        return np.asarray(batch.symbol("threads_per_block") >= 64)


class Forgetful(Warps):
    """Takes for granted in the reason of a cut that there are symbols."""

    def restrict(self, space: DesignSpace, profile: HardwareProfile) -> None:
        return None


@pytest.fixture
def space() -> DesignSpace:
    return make_space(symbols={"threads_per_block": [32, 64, 2048], "share": [0.5]})


class TestContractOfARuleThatReadsSymbols(RuleContract):
    @pytest.fixture
    def rule(self) -> Rule:
        return Warps()

    @pytest.fixture
    def space(self) -> DesignSpace:
        return make_space(symbols={"threads_per_block": [32, 64, 2048]})

    @pytest.fixture
    def profile(self) -> HardwareProfile:
        return make_profile(DeviceKind.GPU)

    def test_symbols_are_those_of_a_dropped_candidate(self, symbols: Mapping[str, float]) -> None:
        assert symbols["threads_per_block"] == 32


def test_contract_catches_a_rule_that_does_not_ask_whether_a_sketch_was_read(space: DesignSpace) -> None:
    check = RuleContract().test_sketches_that_could_not_be_read_are_no_failure
    check(Warps(), space, make_profile())
    with pytest.raises(SpaceError, match="is_opaque"):
        check(Unguarded(), space, make_profile())


def test_contract_catches_a_cut_whose_reason_needs_symbols() -> None:
    check = RuleContract().test_reason_is_one_clause
    check(Warps(), {"threads_per_block": 32.0}, make_profile())
    with pytest.raises(KeyError):
        check(Forgetful(), {"threads_per_block": 32.0}, make_profile())


@pytest.mark.parametrize("sketch", [0, 1])
def test_space_gives_each_candidate_one_of_the_values(space: DesignSpace, sketch: int) -> None:
    batch = make_batch(100, space=space, sketch=sketch)
    threads = batch.symbol("threads_per_block")
    assert not batch.is_opaque
    assert threads.dtype == np.int64
    assert set(threads.tolist()) == {32, 64, 2048}
    order = np.arange(100)[::-3]
    assert batch.take(order).symbol("threads_per_block").tolist() == threads[order].tolist()
    assert batch.symbol("share").tolist() == [0.5] * 100


def test_batch_gives_row_i_the_value_i() -> None:
    batch = make_batch(symbols={"threads_per_block": [1024, 1025, 7]})
    assert batch.symbol("threads_per_block").tolist() == [1024, 1025, 7]
    assert batch.take(np.array([2, 0])).symbol("threads_per_block").tolist() == [7, 1024]
    assert len(batch.take(np.array([], dtype=np.int64)).symbol("threads_per_block")) == 0
    assert Warps().mask(batch, make_profile()).tolist() == [True, True, False]


def test_what_was_not_planted_is_an_error() -> None:
    batch = make_batch(symbols={"threads_per_block": [1024]})
    with pytest.raises(PluginContractError, match="one of: threads_per_block"):
        batch.symbol("grid_blocks")
    nests = batch.sketch.nests
    assert nests is not None
    with pytest.raises(SpaceError, match="have no loop nest"):
        nests.groups(batch.indices)


def test_columns_of_another_length_are_refused() -> None:
    for columns in ({"a": [1, 2], "b": [1]}, {"a": list(range(10**6))}):
        with pytest.raises(ValueError, match="columns of that length"):
            make_batch(symbols=columns)
    with pytest.raises(ValueError, match="columns of that length"):
        make_batch(3, symbols={"a": [1, 2]})
    with pytest.raises(ValueError, match="list of numbers"):
        make_space(symbols={"a": []})


def test_opaque_twin_has_no_symbols(space: DesignSpace) -> None:
    batch = make_batch(space=opaque_twin(space))
    assert batch.is_opaque
    with pytest.raises(SpaceError, match="is_opaque"):
        batch.symbol("share")
