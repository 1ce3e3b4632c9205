"""A transposed convolution's input, spread out and padded in one place: a rare choice among random ones."""

from __future__ import annotations

import pytest
from kits.nest_comparison import differences
from kits.oracle import case

from prune_engine.candidates import CandidateBatch, rows_of

UNROLL = (16,)


@pytest.mark.parametrize(
    ("channels", "rows", "columns", "steps", "window", "locations"),
    [
        pytest.param(
            (4, 4, 1, 4), (1, 1, 4, 7), (4, 1, 7, 1), (8, 16), ((1, 4), (2, 2)), (8, -1, 3), id="single-element"
        ),
        pytest.param(
            (4, 8, 2, 1), (1, 4, 1, 7), (7, 2, 2, 1), (4, 32), ((1, 4), (2, 2)), (8, 3, 6), id="moved-by-one-loop"
        ),
        pytest.param(
            (16, 1, 4, 1), (7, 1, 4, 1), (14, 2, 1, 1), (64, 2), ((4, 1), (1, 4)), (7, 7, 9), id="moved-by-several"
        ),
    ],
)
def test_what_is_allocated_where_padding_begins(
    channels: tuple[int, ...],
    rows: tuple[int, ...],
    columns: tuple[int, ...],
    steps: tuple[int, ...],
    window: tuple[tuple[int, ...], ...],
    locations: tuple[int, ...],
) -> None:
    space, oracle = case("conv_transposed", "llvm")
    sketch = space.sketches[0]
    decisions = ((1, 1, 1, 1), channels, rows, columns, steps, *window, UNROLL, *((x,) for x in locations))
    indices = rows_of(sketch, list(decisions))
    assert indices is not None
    built = oracle.realise(sketch, decisions)
    assert not built.is_repaired
    batch = CandidateBatch(space, sketch, indices[None, :])
    assert not [str(d) for d in differences(batch, 0, built, is_gpu=False)]
