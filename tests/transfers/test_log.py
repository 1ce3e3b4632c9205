"""Where a seed comes from, as people are told it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from prune_engine.testing import make_batch, make_entries, make_space, make_task
from prune_engine.transfers.log import Seed, TransferLog


@pytest.mark.parametrize(
    ("model", "kernel", "told"),
    [
        ("resnet18", "dense1", "resnet18, dense1"),
        pytest.param("gemm:64x64x64", "gemm:64x64x64", "gemm:64x64x64", id="tuned by itself"),
    ],
)
def test_source_of_a_seed(model: str, kernel: str, told: str) -> None:
    space = make_space(make_task())
    batch = make_batch(1, space=space)
    (entry,) = make_entries(batch, [1e-3], model=model, task_name=kernel)
    seed = Seed(batch.candidate(0), batch.indices[0], "library", "nearest", "entry-1", 1.0)
    log = TransferLog(entries={"entry-1": entry})
    assert log.source_of(seed) == told
    assert log.source_of(replace(seed, source="gone")) == "gone"
