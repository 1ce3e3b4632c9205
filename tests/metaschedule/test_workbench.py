"""TVM is asked about a candidate before it is given a place among those that are measured."""

from __future__ import annotations

from typing import Any

import pytest
from kits.oracle import case

from prune_engine.candidates import CandidateBatch, Decision, rows_of
from prune_engine.metaschedule import workbench
from prune_engine.metaschedule.measure import MeasureSettings
from prune_engine.metaschedule.workbench import TvmWorkbench

#: Of the output channels of a grouped convolution: TVM finds a constant extent for what the second needs.
DYNAMIC, CONSTANT = (8, 2, 2, 4), (16, 1, 2, 4)


class NoPool:
    """Stands in for the measuring processes: none is needed."""

    def __init__(self, *_: Any) -> None: ...

    def start(self) -> None: ...

    def close(self) -> None: ...


@pytest.mark.parametrize(
    ("channels", "refusal"),
    [(DYNAMIC, "refused by DisallowDynamicLoop"), (CONSTANT, None)],
    ids=["dynamic", "constant"],
)
def test_why_tvm_refuses(channels: tuple[int, ...], refusal: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workbench, "MeasurePool", NoPool)
    space, _ = case("conv_grouped", "llvm")
    sketch = space.sketches[2]
    decisions: list[Decision] = [
        *((1, 1, 1, 1), channels, (2, 7, 2, 1), (1, 1, 14, 2)),
        *((1, 32), (1, 3), (1, 3), (512,), (16,)),
    ]
    rows = rows_of(sketch, decisions)
    assert rows is not None
    candidate = CandidateBatch(space, sketch, rows[None]).candidate(0)
    with TvmWorkbench(MeasureSettings(target=space.task.target, n_threads=1), "digest") as bench:
        assert bench.refusal(space, candidate) == refusal
