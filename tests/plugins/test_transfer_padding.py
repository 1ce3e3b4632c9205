"""Extents rounded up to what the source's factors divide, and the trace that does it."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from prune_engine_transfer.matching import Match, matches
from prune_engine_transfer.padded_trace import padded_trace
from prune_engine_transfer.padding import PaddedTiling, padded_tilings

from prune_engine.library import Choice, KernelClass, LibraryEntry
from prune_engine.space import DesignSpace, Subject, VariableKind
from prune_engine.testing import make_batch, make_entries, make_space, make_task

#: A product of matrices as the compiler writes it: an unused reading of consumers, and post-processing.
INSTRUCTIONS = [
    ["GetSBlock", [], ["matmul", "main"], ["b0"]],
    ["GetLoops", ["b0"], [], ["l1", "l2", "l3"]],
    ["SamplePerfectTile", ["l1"], [3, 64], ["v4", "v5", "v6"]],
    ["Split", ["l1", "v4", "v5", "v6"], [True, False], ["l7", "l8", "l9"]],
    ["SamplePerfectTile", ["l2"], [3, 64], ["v10", "v11", "v12"]],
    ["SamplePerfectTile", ["l3"], [2, 64], ["v13", "v14"]],
    ["GetConsumers", ["b0"], [], []],
    ["SampleCategorical", [], [[0, 16], [0.5, 0.5]], ["v15"]],
    ["EnterPostproc", [], [], []],
    ["Annotate", ["b0", "v15"], ["late"], []],
]
DECISIONS = [[2, [4, 4, 4]], [4, [3, 2, 8]], [5, [8, 4]], [7, 1]]


def entry(trace: object = None) -> LibraryEntry:
    made = make_entries(make_batch(1, space=make_space(make_task("source"))), [1e-3])[0]
    tiles = [(4, 4, 4), (3, 2, 8), (8, 4)]
    choices = [replace(c, values=v) for c, v in zip(made.choices, [*tiles, (16,)], strict=True)]
    text = json.dumps([INSTRUCTIONS, DECISIONS] if trace is None else trace)
    return replace(made, choices=tuple(choices), trace_json=text)


def space_of(*shape: int) -> DesignSpace:
    m, n, k = shape
    return make_space(make_task("wanted", shape=(m, n, k)))


def match_of(source: LibraryEntry, space: DesignSpace) -> Match:
    kernel = space.task.kernel_class
    assert kernel is not None
    return matches(source, space.sketches, kernel)[0]


def tilings(*shape: int, source: LibraryEntry | None = None) -> list[PaddedTiling]:
    source = source or entry()
    return padded_tilings(match_of(source, space_of(*shape)))


def extents(tiling: PaddedTiling) -> list[int]:
    return [math.prod(row) for row in tiling.factors.values()]


def test_a_prime_is_rounded_up_to_where_the_factors_fit() -> None:
    best, *_ = tilings(127, 96, 64)
    assert extents(best) == [128, 96, 64]
    assert best.factors[0] == (8, 4, 4)
    assert best.useful_share == pytest.approx(127 / 128)


def test_where_near_rows_exist_nothing_is_padded() -> None:
    assert tilings(128, 96, 64) == []
    assert tilings(64, 48, 32) == []
    assert tilings(60, 96, 64) == []  # 3 x 5 x 4 is near enough to 4 x 4 x 4


def test_padding_grows_an_extent_by_less_than_a_third() -> None:
    seen = set()
    for extent in (37, 61, 67, 127, 197, 251):
        for tiling in tilings(extent, 96, 64):
            padded = extents(tiling)[0]
            seen.add(padded)
            assert extent <= padded <= extent * 1.3
            assert tiling.useful_share == pytest.approx(extent / padded)
    assert {40, 64, 72, 128, 256} <= seen


def test_the_vectorised_factor_stays() -> None:
    """Of the contiguous axis, the second: rows with another one would be nearer, or need no padding."""
    for extent in (90, 99, 95, 101):
        found = tilings(128, extent, 64)
        assert found
        assert all(tiling.factors[1][-1] == 8 for tiling in found)
    assert extents(tilings(128, 90, 64)[0])[1] == 96


def test_without_such_a_row_nothing_is_padded() -> None:
    source = entry()
    wide = replace(source.choices[1], values=(1, 1, 48))  # no multiple of 8, 16, 32 or 64 near 65 is one of 48
    assert (
        tilings(127, 65, 64, source=replace(source, choices=(source.choices[0], wide, *source.choices[2:]))) == []
    )


def test_what_rules_cut_does_not_matter() -> None:
    match = match_of(entry(), space_of(127, 96, 64))
    first = match.sketch.variables[0]
    nothing = first.restrict(np.zeros(len(first.table), dtype=np.bool_))
    emptied = replace(match.sketch, variables=(nothing, *match.sketch.variables[1:]))
    assert padded_tilings(replace(match, sketch=emptied)) == padded_tilings(match)


@pytest.mark.parametrize("shape", [(1, 97, 64), (7, 512, 512), (127, 96, 2), (31, 31, 31)], ids=str)
def test_where_copies_weigh_nothing_is_padded(shape: tuple[int, ...]) -> None:
    assert tilings(*shape) == []


def test_only_products_of_matrices_are_padded() -> None:
    """With a second reduction, what is read moves with it, which padding cannot follow."""
    match = match_of(entry(), space_of(127, 96, 64))
    assert padded_tilings(match)
    sketch = match.sketch
    subject = Subject("matmul", "r", True, False, ("R0", "R1"))
    window = replace(sketch.variables[2], subject=subject)
    convolution = replace(
        match.entry, choices=(*match.entry.choices, Choice("4.matmul.3", VariableKind.TILE, (8, 4), subject))
    )
    wider = replace(sketch, variables=(*sketch.variables, window))
    assert padded_tilings(Match(convolution, wider, (*match.numbers, 4), False)) == []
    first, *others = sketch.variables
    unknown = replace(sketch, variables=(replace(first, subject=None), *others))
    assert padded_tilings(replace(match, sketch=unknown)) == []


def test_the_trace_pads_the_loops_before_they_are_asked_for() -> None:
    text = padded_trace(entry(), {0: (8, 4, 4), 1: (6, 2, 8), 2: (17, 4)}, {0: 127, 1: 96, 2: 65}, {})
    assert text is not None
    instructions, decisions = json.loads(text)
    assert [inst[0] for inst in instructions] == [
        "GetSBlock",
        "PadEinsum",
        "GetLoops",
        "SamplePerfectTile",
        "Split",
        "SamplePerfectTile",
        "SamplePerfectTile",
        "SampleCategorical",
    ]
    assert instructions[1] == ["PadEinsum", ["b0"], [[128, 1, 68]], []]
    assert decisions == [[3, [8, 4, 4]], [5, [6, 2, 8]], [6, [17, 4]], [7, 1]]


def test_statements_are_called_what_the_kernel_calls_them() -> None:
    text = padded_trace(entry(), {0: (8, 4, 4)}, {0: 127}, {"matmul": "dense"})
    assert text is not None
    assert json.loads(text)[0][0] == ["GetSBlock", [], ["dense", "main"], ["b0"]]


@pytest.mark.parametrize(
    "trace",
    [
        "text",
        [],
        [[], []],
        [INSTRUCTIONS, [[2, [2, 8, 4]], *DECISIONS[1:]]],
        [INSTRUCTIONS, []],
        [[[1]], []],
        {"a": 1},
    ],
    ids=str,
)
def test_a_trace_that_is_not_of_the_decisions_gives_none(trace: object) -> None:
    assert padded_trace(entry(trace), {0: (8, 4, 4)}, {0: 127}, {}) is None


def test_kernels_of_other_axes_are_not_mistaken() -> None:
    other = KernelClass("other", "testing-matmul", "", (("matmul.i", 64), ("matmul.j", 48), ("matmul.k", 32)))
    assert tilings(127, 96, 64, source=replace(entry(), kernel_class=other))
