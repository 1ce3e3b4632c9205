"""Spaces of choice tables: from JSON to columns that rules read."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from prune_engine.candidates import CandidateBatch
from prune_engine.errors import ConfigError
from prune_engine.ffi.table_spaces import MAX_TABLE_ROWS, table_space, with_columns, work_out
from prune_engine.space import VariableKind, perfect_tile_table


def source(*variables: dict[str, Any], **others: Any) -> dict[str, Any]:
    return {"sketches": [{"variables": list(variables)}], **others}


def batch_of(space: Any, rows: list[list[int]]) -> CandidateBatch:
    return CandidateBatch(space, space.sketches[0], np.array(rows, dtype=np.int32))


def test_three_ways_to_say_what_can_be_chosen() -> None:
    made = table_space(
        source(
            {"name": "a", "values": [3, 1]},
            {"name": "b", "table": [[1, 2], [3, 4]], "kind": "location"},
            {"name": "c", "extent": 12, "parts": 2, "max_innermost_factor": 4},
        ),
        "test",
    )
    a, b, c = made.space.sketches[0].variables
    assert a.table.tolist() == [[3], [1]]
    assert (a.kind, b.kind, c.kind) == (VariableKind.CATEGORICAL, VariableKind.LOCATION, VariableKind.TILE)
    assert c.table.tolist() == perfect_tile_table(12, 2, 4).tolist()
    assert made.space.size == 2 * 2 * len(c.table)


def test_identity_follows_from_what_is_said() -> None:
    variable = {"name": "a", "values": [1, 2]}
    one, same = (table_space(source(variable, symbols={"s": "a"}), "test").space.task.task_id for _ in range(2))
    other = table_space(source(variable, symbols={"s": "2 * a"}), "test").space.task.task_id
    assert one == same != other


@pytest.mark.parametrize(
    ("variable", "problem"),
    [
        ({"name": "a"}, "got nothing; expected values, table or extent"),
        ({"name": "a", "values": [1], "extent": 4}, "got values, extent"),
        ({"name": "a", "values": []}, "at least 1 item"),
        ({"name": "a", "values": [1, 1]}, "a choice that is there twice"),
        ({"name": "a", "values": [1.5]}, "valid integer"),
        ({"name": "a", "values": [True]}, "valid integer"),
        ({"name": "a", "values": [2**31]}, "no int32; got 2147483648"),
        ({"name": "a", "values": [-(2**31) - 1]}, "no int32"),
        ({"name": "a", "table": [[1], [2, 3]]}, "not of one length"),
        ({"name": "a", "table": [[]]}, "not of one length"),
        ({"name": "a", "extent": 8}, "into how many parts"),
        ({"name": "a", "extent": 0, "parts": 2}, "greater than or equal to 1"),
        ({"name": "a", "extent": 2**30, "parts": 16}, "too large a table; got 344,867,425,584 rows"),
        ({"name": "", "values": [1]}, "at least 1 character"),
        ({"name": "a", "values": [1], "colour": 3}, "colour"),
    ],
)
def test_what_cannot_be_a_variable(variable: dict[str, Any], problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        table_space(source(variable), "test")


def test_a_table_of_the_most_rows_is_made() -> None:
    assert MAX_TABLE_ROWS > 2_000_000  # what a tile of five parts of 2^31 needs is far below


def test_formulas_are_columns_and_given_columns_replace_them() -> None:
    made = table_space(
        source({"name": "a", "values": [1, 2, 4]}, symbols={"threads_per_block": "32 * a", "mine": None}), "test"
    )
    assert made.declared == {"threads_per_block", "mine"}
    batch = batch_of(made.space, [[0], [2], [1]])
    assert batch.symbol("threads_per_block").tolist() == [32, 128, 64]
    assert not batch.knows("mine")
    brought = with_columns(batch, {"threads_per_block": np.array([7, 8, 9]), "mine": np.array([0.5, 1.5, 2.5])})
    assert brought.symbol("threads_per_block").tolist() == [7, 8, 9]
    assert brought.take(np.array([2, 0])).symbol("mine").tolist() == [2.5, 0.5]
    assert batch.symbol("threads_per_block").tolist() == [32, 128, 64]


def test_what_is_wrong_with_a_column_is_its_owners_error() -> None:
    formulas = {"threads_per_block": "a - 2", "mine": "1 // (a - 4)"}
    made = table_space(source({"name": "a", "values": [1, 2, 4]}, symbols=formulas), "test")
    with pytest.raises(ConfigError, match="'threads_per_block', candidate 1: is negative; got -1"):
        work_out(batch_of(made.space, [[1], [0]]))
    with pytest.raises(ConfigError, match="no value for some candidate"):
        work_out(batch_of(made.space, [[2]]))
    work_out(batch_of(made.space, [[1]]))
