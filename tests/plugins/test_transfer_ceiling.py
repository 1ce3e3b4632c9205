"""Traces with constants instead of tiles that do not divide."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import pytest
from prune_engine_transfer.ceiling import Ceiled, ceiled, covering

from prune_engine.library import Choice, LibraryEntry
from prune_engine.space import VariableKind
from prune_engine.testing import make_batch, make_entries

#: Two tiles, one used besides the split, a categorical and a location, as the compiler writes them.
INSTRUCTIONS = [
    ["GetSBlock", [], ["matmul", "main"], ["b0"]],
    ["GetLoops", ["b0"], [], ["l1", "l2"]],
    ["SamplePerfectTile", ["l1"], [3, 64], ["v3", "v4", "v5"]],
    ["Split", ["l1", "v3", "v4", "v5"], [True, False], ["l6", "l7", "l8"]],
    ["SamplePerfectTile", ["l2"], [2, 64], ["v9", "v10"]],
    ["Split", ["l2", "v9", "v10"], [True, False], ["l11", "l12"]],
    ["Annotate", ["b0", ["v3", "v9"]], ["both"], []],
    ["SampleCategorical", [], [[0, 16], [0.5, 0.5]], ["v13"]],
    ["Annotate", ["b0", "v13"], ["unroll"], []],
    ["SampleComputeLocation", ["b0"], [], ["l14"]],
    ["EnterPostproc", [], [], []],
    ["Annotate", ["b0", "v4"], ["late"], []],
]
DECISIONS = [[2, [4, 8, 16]], [4, [8, 4]], [7, 1], [9, 2], [11, 5]]


def entry(trace_json: str | None = None) -> LibraryEntry:
    choices = (
        Choice("0.matmul.0", VariableKind.TILE, (4, 8, 16)),
        Choice("1.matmul.1", VariableKind.TILE, (8, 4)),
        Choice("2.unroll", VariableKind.CATEGORICAL, (16,)),
        Choice("3.matmul", VariableKind.LOCATION, (2,)),
    )
    text = json.dumps([INSTRUCTIONS, DECISIONS]) if trace_json is None else trace_json
    return replace(make_entries(make_batch(1), [1e-3])[0], choices=choices, trace_json=text)


def rewritten(extents: dict[int, int], **renamed: str) -> tuple[list[list[object]], dict[int, object], float]:
    found = ceiled(entry(), extents, renamed)
    assert isinstance(found, Ceiled)
    instructions, decisions = json.loads(found.trace_json)
    return instructions, dict(decisions), found.useful_share


@pytest.mark.parametrize(
    ("factors", "extent", "expected"),
    [
        ((4, 8, 16), 512, (4, 8, 16)),
        ((4, 8, 16), 500, (4, 8, 16)),
        ((4, 8, 16), 127, (1, 8, 16)),
        ((4, 8, 16), 129, (2, 8, 16)),
        ((4, 8, 16), 40, (1, 3, 16)),  # a factor is no more than what is left to cover
        ((4, 8, 16), 7, (1, 1, 7)),
        ((4, 8, 16), 1, (1, 1, 1)),
        ((5,), 7, (7,)),
    ],
)
def test_factors_cover_an_extent(factors: tuple[int, ...], extent: int, expected: tuple[int, ...]) -> None:
    assert covering(factors, extent) == expected
    assert math.prod(expected) >= extent


def test_a_tile_that_does_not_divide_becomes_constants() -> None:
    instructions, decisions, share = rewritten({0: 500, 1: 36})
    kinds = [inst[0] for inst in instructions]
    assert kinds.count("SamplePerfectTile") == 1
    assert instructions[2] == ["Split", ["l1", None, 8, 16], [True, False], ["l6", "l7", "l8"]]
    assert instructions[4][1] == ["l2", "v9", "v10"]
    assert decisions == {3: [9, 4], 6: 1, 8: 2}  # the numbers of what follows move up
    assert [instructions[at][0] for at in decisions] == [
        "SamplePerfectTile",
        "SampleCategorical",
        "SampleComputeLocation",
    ]
    assert share == pytest.approx(500 / 512)


def test_factors_used_elsewhere_are_numbers_there() -> None:
    instructions, _, share = rewritten({0: 500, 1: 30})
    assert instructions[4] == ["Annotate", ["b0", [4, 8]], ["both"], []]
    assert share == pytest.approx(500 / 512 * 30 / 32)


def test_postprocessing_is_cut_off() -> None:
    instructions, decisions, _ = rewritten({0: 500, 1: 36})
    assert "EnterPostproc" not in [inst[0] for inst in instructions]
    assert "late" not in json.dumps(instructions)
    assert max(decisions) < len(instructions)


def test_statements_are_called_what_the_kernel_calls_them() -> None:
    instructions, _, _ = rewritten({0: 500, 1: 36}, matmul="dense")
    assert instructions[0] == ["GetSBlock", [], ["dense", "main"], ["b0"]]


def test_where_everything_divides_there_is_nothing_to_do() -> None:
    assert ceiled(entry(), {0: 1024, 1: 36}, {}) is None


@pytest.mark.parametrize(
    "text", ["", "[]", "[[],[],[]]", "[[1],[2]]", '{"a": 1}', "[[],5]", '[[["X"]],[]]', "null"]
)
def test_what_is_no_trace_is_a_reason(text: str) -> None:
    assert ceiled(entry(text), {0: 500, 1: 36}, {}) == "its trace cannot be read"


@pytest.mark.parametrize(
    ("instructions", "decisions"),
    [
        (INSTRUCTIONS, [[2, [2, 16, 16]], *DECISIONS[1:]]),  # another schedule's trace
        (INSTRUCTIONS[4:], [[0, [8, 4]], [3, 1], [5, 2]]),  # a tile is missing
        ([], []),
    ],
)
def test_a_trace_that_is_not_of_the_decisions_is_a_reason(instructions: object, decisions: object) -> None:
    found = ceiled(entry(json.dumps([instructions, decisions])), {0: 500, 1: 36}, {})
    assert found == "its trace does not tell the same as its decisions"
