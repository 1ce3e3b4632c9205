"""What TVM allocates for a grouped convolution's padded input, whose channels are a quotient of the output's.

Each candidate is of another class of the rule; random ones meet the rarer classes once in fifty.
"""

from __future__ import annotations

import pytest
from kits.nest_comparison import Prediction
from kits.oracle import case

from prune_engine.candidates import CandidateBatch, rows_of
from prune_engine.metaschedule.tir_lowered import compacted_buffers

#: Neither steps of the window nor unroll limit and fetches matter for the channels.
ON_GPU = ((1, 3, 1), (1, 3, 1), (1,), (1,), (0,))
ON_PROCESSOR = ((3, 1), (1, 3), (0,))


@pytest.mark.parametrize(
    ("channels", "rows", "columns", "steps", "staged"),
    [
        pytest.param((8, 2, 2, 4, 1), (1, 1, 4, 7, 1), (2, 7, 2, 1, 1), (1, 4, 8), 160, id="unclear"),
        pytest.param((16, 1, 8, 1, 1), (1, 2, 14, 1, 1), (2, 7, 2, 1, 1), (1, 4, 8), 192, id="one-digit"),
        pytest.param((16, 1, 8, 1, 1), (1, 28, 1, 1, 1), (2, 14, 1, 1, 1), (1, 4, 8), 160, id="one-whole-loop"),
        pytest.param((16, 1, 4, 2, 1), (1, 2, 14, 1, 1), (2, 7, 2, 1, 1), (1, 4, 8), 160, id="digit-and-loop"),
        pytest.param((128, 1, 1, 1, 1), (1, 1, 4, 7, 1), (2, 7, 2, 1, 1), (1, 4, 8), 32, id="one-channel"),
        pytest.param((8, 1, 16, 1, 1), (1, 2, 14, 1, 1), (2, 7, 2, 1, 1), (1, 4, 8), 160, id="half-a-group"),
        pytest.param((8, 2, 2, 4, 1), (1, 4, 1, 7, 1), (1, 14, 2, 1, 1), (1, 4, 8), 32, id="blocks-of-channels"),
        pytest.param((8, 2, 2, 4, 1), (1, 1, 4, 7, 1), (2, 7, 2, 1, 1), (2, 2, 8), 16, id="split-steps"),
        pytest.param((4, 2, 4, 4, 1), (1, 1, 4, 7, 1), (2, 7, 2, 1, 1), (1, 4, 8), 32, id="whole-groups"),
    ],
)
def test_channels_staged_on_a_gpu(
    channels: tuple[int, ...], rows: tuple[int, ...], columns: tuple[int, ...], steps: tuple[int, ...], staged: int
) -> None:
    decisions = ((1, 1, 1, 1, 1), channels, rows, columns, steps, *ON_GPU)
    check_channels("cuda", 0, decisions, staged)


@pytest.mark.parametrize(
    ("sketch", "location", "channels", "rows", "columns", "steps", "staged"),
    [
        pytest.param(0, 2, (16, 1, 2, 4), (2, 7, 2, 1), (1, 1, 14, 2), (4, 8), 160, id="first-of-parallel"),
        pytest.param(0, 5, (1, 32, 4, 1), (2, 2, 1, 7), (1, 1, 28, 1), (2, 16), 160, id="last-of-parallel"),
        pytest.param(0, 5, (16, 2, 1, 4), (1, 14, 2, 1), (1, 1, 28, 1), (1, 32), 32, id="all-of-parallel"),
        pytest.param(0, 6, (2, 32, 1, 2), (1, 28, 1, 1), (2, 7, 1, 2), (16, 2), 96, id="two-groups"),
        pytest.param(0, 6, (2, 8, 2, 4), (1, 2, 7, 2), (1, 14, 1, 2), (1, 32), 160, id="neighbours"),
        pytest.param(0, 6, (4, 8, 2, 2), (2, 14, 1, 1), (1, 1, 28, 1), (16, 2), 32, id="one-group"),
        pytest.param(0, 5, (1, 8, 4, 4), (14, 1, 2, 1), (7, 1, 4, 1), (8, 4), 32, id="serial"),
        pytest.param(0, 8, (8, 1, 4, 4), (2, 7, 2, 1), (2, 7, 2, 1), (2, 16), 16, id="split-steps"),
        pytest.param(2, 5, (16, 8, 1, 1), (4, 1, 7, 1), (2, 7, 2, 1), (2, 16), 128, id="rounded"),
        pytest.param(2, 6, (8, 16, 1, 1), (1, 7, 4, 1), (2, 2, 7, 1), (4, 8), 32, id="rounded-and-parallel"),
        pytest.param(2, 9, (32, 2, 1, 2), (4, 1, 7, 1), (7, 2, 2, 1), (4, 8), 104, id="rounded-and-steps"),
        pytest.param(2, 5, (16, 8, 1, 1), (7, 1, 4, 1), (2, 7, 2, 1), (2, 16), 32, id="not-rounded"),
    ],
)
def test_channels_padded_on_a_processor(
    sketch: int,
    location: int,
    channels: tuple[int, ...],
    rows: tuple[int, ...],
    columns: tuple[int, ...],
    steps: tuple[int, ...],
    staged: int,
) -> None:
    decisions = ((1, 1, 1, 1), channels, rows, columns, steps, *ON_PROCESSOR, (location,))
    check_channels("llvm", sketch, decisions, staged)


def check_channels(kind: str, number: int, decisions: tuple[tuple[int, ...], ...], staged: int) -> None:
    space, oracle = case("conv_grouped", kind)
    sketch = space.sketches[number]
    built = oracle.realise(sketch, decisions)
    assert built.mod is not None
    assert not built.is_repaired
    buffers = compacted_buffers(built.checked or built.mod, is_gpu=kind == "cuda")
    allocated = next(b for b in buffers if b.name.startswith("pad_temp"))
    assert allocated.shape[1] == staged
    indices = rows_of(sketch, list(decisions))
    assert indices is not None
    predicted = Prediction(CandidateBatch(space, sketch, indices[None, :]), 0)
    assert predicted(predicted.nest.buffers[allocated.name].stored_elements) == [allocated.n_elements]
