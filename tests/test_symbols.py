"""Symbols: registered once, computed once per batch, checked, and there for every strategy."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np
import pytest
from kits.engine import RunEngine

from prune_engine.candidates import CandidateBatch
from prune_engine.errors import PluginContractError, PluginError
from prune_engine.hookspecs import hookimpl
from prune_engine.store.base import Store
from prune_engine.strategies import Rule
from prune_engine.symbols.table import Column, SymbolDef, symbol_table
from prune_engine.testing import make_batch, make_space, make_task
from prune_engine.verdicts import BoolArray, RuleKind


def innermost(batch: CandidateBatch) -> Column:
    return batch.column(0)[:, -1].astype(np.int64)


def define(name: str = "innermost_i", compute: object = innermost) -> SymbolDef:
    return SymbolDef(name, "elements", "innermost factor of i", "this test", compute)  # type: ignore[arg-type]


def batch_with(*symbols: SymbolDef) -> CandidateBatch:
    return make_batch(space=replace(make_space(), symbols=symbol_table(symbols)))


def test_column_is_computed_once_and_read_only() -> None:
    calls = []

    def compute(batch: CandidateBatch) -> Column:
        calls.append(len(batch))
        return innermost(batch)

    batch = batch_with(define(compute=compute))
    column = batch.symbol("innermost_i")
    assert column.tolist() == batch.column(0)[:, -1].tolist()
    assert batch.symbol("innermost_i") is column
    assert calls == [len(batch)]
    with pytest.raises(ValueError, match="read-only"):
        column[0] = 1


def test_part_of_a_batch_has_its_own_columns() -> None:
    batch = batch_with(define())
    whole = batch.symbol("innermost_i")
    assert batch.take(np.array([2, 5])).symbol("innermost_i").tolist() == whole[[2, 5]].tolist()


def test_unknown_symbol_names_those_that_exist() -> None:
    with pytest.raises(PluginContractError, match=r"'nope'.*innermost_i"):
        batch_with(define()).symbol("nope")


@pytest.mark.parametrize(
    "column", [np.zeros(3), np.zeros((8, 1)), np.zeros(8, dtype=np.float32), [0.0] * 8], ids=str
)
def test_column_of_a_wrong_form_is_refused(column: object) -> None:
    with pytest.raises(PluginContractError, match="symbol innermost_i"):
        batch_with(define(compute=lambda batch: column)).symbol("innermost_i")


def test_two_of_one_name_are_an_error() -> None:
    with pytest.raises(PluginError, match="innermost_i"):
        symbol_table([define(), define()])


class SmallTiles(Rule):
    """Keep innermost tiles of i below 4, by symbol."""

    name = "test.small-tiles"
    kind = RuleKind.LEGALITY

    def mask(self, batch: CandidateBatch, profile: object) -> BoolArray:
        mask: BoolArray = batch.symbol("innermost_i") < 4
        return mask


class Plugin:
    @hookimpl
    def register_symbols(self) -> Iterable[SymbolDef]:
        return [define()]

    @hookimpl
    def register_rules(self) -> Sequence[Rule]:
        return [SmallTiles()]


class Clash:
    @hookimpl
    def register_symbols(self) -> Iterable[SymbolDef]:
        return [define()]


def test_rules_can_ask_for_registered_symbols(run_engine: RunEngine, store: Store) -> None:
    task = make_task()
    run = run_engine([task], plugins={"small": Plugin()}, n_trials=24)
    assert not run.failures
    tiles = [row.decisions[0] for row in store.candidates(task.task_id, "fake-cpu", 2) if row.decisions]
    assert len(tiles) == 24
    assert all(tile[-1] < 4 for tile in tiles)


def test_a_clash_is_recorded_and_the_first_one_stays(run_engine: RunEngine) -> None:
    run = run_engine([make_task()], plugins={"a": Plugin(), "b": Clash()}, n_trials=8)
    assert "innermost_i" in run.failures["b"]
    assert len(run.asked) == 8
