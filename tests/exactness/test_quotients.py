"""What TVM allocates for a grouped convolution's input, whose channels are a quotient of the output's.

Each candidate is of another class of the rule; random ones meet the rarer classes once in fifty.
"""

from __future__ import annotations

import pytest
from kits.nest_comparison import Prediction
from kits.oracle import case

from prune_engine.candidates import CandidateBatch, rows_of
from prune_engine.metaschedule.tir_lowered import compacted_buffers

#: Rows of 30 elements are staged whole; the channels differ. Unroll limit and fetches do not matter.
REST = ((1, 3, 1), (1, 3, 1), (1,), (1,), (0,))


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
def test_channels_staged(
    channels: tuple[int, ...], rows: tuple[int, ...], columns: tuple[int, ...], steps: tuple[int, ...], staged: int
) -> None:
    space, oracle = case("conv_grouped", "cuda")
    sketch = space.sketches[0]
    decisions = ((1, 1, 1, 1, 1), channels, rows, columns, steps, *REST)
    built = oracle.realise(sketch, decisions)
    allocated = {b.name: b for b in compacted_buffers(built.checked, is_gpu=True)}["pad_temp_shared"]
    assert allocated.shape[1] == staged
    indices = rows_of(sketch, list(decisions))
    assert indices is not None
    predicted = Prediction(CandidateBatch(space, sketch, indices[None, :]), 0)
    assert predicted(predicted.nest.buffers["pad_temp_shared"].stored_elements) == [allocated.n_elements]
