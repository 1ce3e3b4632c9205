"""Spaces of named parameters, and the symbols that come with them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from prune_engine.errors import ConfigError, PluginContractError, SpaceError
from prune_engine.own_kernels.given import with_columns, with_symbols, work_out_given
from prune_engine.own_kernels.own_spaces import batch_of, decisions_of, own_space, whole
from prune_engine.testing import make_batch, make_space

CHOICES: dict[str, list[Any]] = {
    "block": [32, 64, 2**40],
    "scale": [0.5, 2],
    "layout": ["row", "column"],
    "pad": [True, False],
}


def space(**symbols: Any) -> Any:
    return own_space("kernel", CHOICES, symbols)


def test_whole_space_has_every_combination_once() -> None:
    batch = whole(space())
    assert len(batch) == space().size == 24
    told = decisions_of(batch, range(24))
    assert len({tuple(one.values()) for one in told}) == 24
    assert told[0] == {"block": 32, "scale": 0.5, "layout": "row", "pad": True}
    assert [type(v) for v in told[0].values()] == [int, float, str, bool]


def test_values_come_back_as_they_were_given() -> None:
    mixed = own_space("kernel", {"x": [1, 2.5, 4]})
    assert [repr(one["x"]) for one in decisions_of(whole(mixed), [0, 1, 2])] == ["1", "2.5", "4"]


@pytest.mark.parametrize("is_by_column", [True, False])
def test_candidates_are_found_by_their_values(is_by_column: bool) -> None:
    rows = [
        {"block": 2**40, "scale": 2, "layout": "column", "pad": False},
        {"block": 32, "scale": 2.0, "layout": "row", "pad": True},
    ]
    decisions: Any = {name: [row[name] for row in rows] for name in rows[0]} if is_by_column else rows
    batch = batch_of(space(), decisions)
    assert decisions_of(batch, [0, 1]) == rows


def test_a_function_sees_values_not_rows() -> None:
    own = space(
        threads_per_block=lambda c: np.where(c["layout"] == "row", c["block"], 1) * np.where(c["pad"], 2, 1)
    )
    batch = batch_of(
        own,
        {"block": [64, 64, 32], "scale": [2, 2, 2], "layout": ["row", "column", "row"], "pad": [True, True, False]},
    )
    assert batch.symbol("threads_per_block").tolist() == [128, 2, 32]
    assert batch.is_opaque
    assert batch.knows("threads_per_block")
    assert not batch.knows("threads_per_block", "grid_blocks")


def test_a_symbol_is_a_number_a_variable_or_a_function() -> None:
    batch = whole(space(flops_total=7, threads_per_block="block", mine=lambda c: 0.5))
    assert set(batch.symbol("flops_total").tolist()) == {7}
    assert set(batch.symbol("threads_per_block").tolist()) == {32, 64, 2**40}
    assert batch.symbol("mine").dtype == np.float64


def test_a_tile_of_a_compilers_space_is_seen_whole() -> None:
    own = with_symbols(make_space(), {"mine": lambda c: c["i"][:, -1] * c["unroll"]})
    batch = make_batch(16, space=own)
    assert batch.symbol("mine").tolist() == (batch.column(0)[:, -1] * batch.column(3)[:, 0]).tolist()


def test_given_symbols_hide_registered_ones() -> None:
    planted = make_space(symbols={"threads_per_block": [5]})
    assert set(make_batch(space=planted).symbol("threads_per_block").tolist()) == {5}
    assert set(
        make_batch(space=with_symbols(planted, {"threads_per_block": 6})).symbol("threads_per_block").tolist()
    ) == {6}


def test_columns_follow_their_candidates() -> None:
    batch = batch_of(
        space(),
        {"block": [64, 32], "scale": [2, 2], "layout": ["row", "row"], "pad": [True, True]},
        {"mine": [1.5, 2.5]},
    )
    assert batch.symbol("mine").tolist() == [1.5, 2.5]
    assert batch.take(np.array([1])).symbol("mine").tolist() == [2.5]
    work_out_given(batch)
    assert batch.take(np.array([False, True])).symbol("mine").tolist() == [2.5]
    other = whole(batch.space)
    with pytest.raises(ConfigError, match="'mine': has no value for a candidate"):
        other.symbol("mine")


def test_columns_of_many_candidates_are_found_again() -> None:
    big = own_space("kernel", {"x": list(range(100)), "y": list(range(-50, 50))})
    batch = with_columns(whole(big), {"mine": np.arange(10_000)})
    drawn = np.random.default_rng(0).permutation(10_000)
    assert batch.take(drawn).symbol("mine").tolist() == drawn.tolist()


def test_who_reads_a_given_symbol_is_noted() -> None:
    batch = whole(space(flops_total=7, mine=1))
    read = work_out_given(batch)
    batch.take(np.array([0])).symbol("mine")
    assert read == {"mine"}


BAD_SYMBOLS = {
    "no such variable": (
        {"flops_total": "blok"},
        "given as a variable that there is not.*'blok'.*block, layout, pad, scale",
    ),
    "no number": ({"flops_total": True}, "cannot be computed.*bool True"),
    "text of numbers": ({"flops_total": lambda c: c["layout"]}, "is no column of numbers"),
    "wrong length": ({"flops_total": lambda c: c["block"][:-1]}, r"is no column of numbers.*\(23,\).*\(24,\)"),
    "not finite": ({"flops_total": lambda c: np.where(c["pad"], np.inf, 1.0)}, "is not finite.*candidate 0"),
    "negative": ({"flops_total": lambda c: -c["block"]}, "is negative"),
    "raises": ({"flops_total": lambda c: 1 if c["block"] > 3 else 2}, "its function failed.*ValueError.*np.where"),
    "asks for nothing there": (
        {"flops_total": lambda c: c["bx"]},
        "asks for a variable that there is not.*'bx'.*block",
    ),
}


def test_symbols_that_are_no_mapping_are_told() -> None:
    with pytest.raises(ConfigError, match=r"symbols of 'k'.*wrong type; got list"):
        own_space("k", {"x": [1]}, ["x"])  # type: ignore[arg-type]


@pytest.mark.parametrize("case", BAD_SYMBOLS)
def test_bad_symbol_is_told(case: str) -> None:
    symbols, message = BAD_SYMBOLS[case]
    with pytest.raises(ConfigError, match=f"symbol 'flops_total'.*{message}"):
        work_out_given(whole(space(**symbols)))


def test_unknown_symbol_names_the_given_ones() -> None:
    with pytest.raises(PluginContractError, match="one of: mine"):
        whole(space(mine=1)).symbol("yours")


@pytest.mark.parametrize(
    ("choices", "message"),
    [
        ({}, "has no parameters"),
        ({"x": []}, "'x'.*has no values"),
        ({"x": [1, 2, 1]}, "has a value twice; got 1"),
        ({"x": [1, True]}, "has a value twice; got True"),
        ({"x": [[1]]}, "neither number nor text; got list"),
        ({"x": [1, float("nan")]}, "neither number nor text; got float nan"),
        ({"x": 5}, "'x'.*values of the wrong type; got int 5"),
        ({"x": "abc"}, "'x'.*values of the wrong type; got str 'abc'"),
        ({1: [1]}, "parameter 1: is no name; got int"),
        ([1], "has no parameters; got list"),
    ],
    ids=["none", "empty", "twice", "equal", "list", "nan", "number", "text", "name", "no mapping"],
)
def test_bad_choices_are_told(choices: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        own_space("kernel", choices)


@pytest.mark.parametrize(
    ("decisions", "message"),
    [
        ({"x": [1]}, "other parameters; got x; expected exactly: x, y"),
        ([{"x": 1, "y": 2}, {"y": 2}], "other parameters; got y in candidate 1"),
        ({"x": [1, 1], "y": [2]}, "different numbers of values; got x: 2, y: 1"),
        ({"x": [1, 3], "y": [2, 2]}, "x has no such value; got .*3.* in candidate 1; expected one of: 1, 2"),
        ({"x": [1, "a"], "y": [2, 2]}, "x has no such value; got 'a' in candidate 1"),
        (5, "of the wrong type; got int 5"),
        ("x", "of the wrong type; got str 'x'"),
        ([{"x": 1, "y": 2}, 5], "other parameters; got int 5 in candidate 1"),
    ],
    ids=["missing", "missing in one", "lengths", "value", "type", "number", "text", "number in list"],
)
def test_bad_candidates_are_told(decisions: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        batch_of(own_space("kernel", {"x": [1, 2], "y": [2]}), decisions)


def test_a_space_too_large_is_not_listed() -> None:
    with pytest.raises(SpaceError, match="too many candidates to list them all; got 1,000,000,000"):
        whole(own_space("kernel", {name: list(range(1000)) for name in "xyz"}))


def test_a_compilers_space_has_no_values() -> None:
    with pytest.raises(ConfigError, match="is a compiler's space"):
        whole(make_space())


def test_one_kernel_has_one_identity() -> None:
    ids = {
        own_space("kernel", {"x": [1, 2]}).task.task_id,
        own_space("kernel", {"x": [1, 2]}, {"mine": 1}).task.task_id,
    }
    others = {own_space("kernel", {"x": [1, 3]}).task.task_id, own_space("other", {"x": [1, 2]}).task.task_id}
    assert len(ids) == 1
    assert len(ids | others) == 3
