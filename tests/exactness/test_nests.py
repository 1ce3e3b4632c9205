"""Predicted loop nests are the nests that TVM builds, candidate by candidate.

PRUNE_ENGINE_EXACTNESS_CANDIDATES says how many random candidates of each sketch are built, and how many that
TVM does not repair (200 for the full check).
"""

from __future__ import annotations

import os

import pytest
from kits.nest_comparison import differences
from kits.oracle import case, kept_batch
from kits.workloads import WORKLOADS

N_CANDIDATES = int(os.environ.get("PRUNE_ENGINE_EXACTNESS_CANDIDATES", "2"))

CASES = [(name, kind) for name, workload in WORKLOADS.items() for kind in workload.kinds]


# A full check builds thousands of candidates, 10-100 ms each.
@pytest.mark.timeout(120 + 10 * N_CANDIDATES)
@pytest.mark.parametrize(("workload", "kind"), CASES)
def test_the_predicted_nest_is_the_one_that_is_built(workload: str, kind: str) -> None:
    space, oracle = case(workload, kind)
    for sketch in space.sketches:
        assert sketch.nests is not None, f"sketch {sketch.index} is opaque: {sketch.opaque_reason}"
        batch = kept_batch(space, sketch, N_CANDIDATES)
        for row in range(len(batch)):
            decisions = batch.candidate(row).decisions
            built = oracle.realise(sketch, decisions)
            for difference in differences(batch, row, built, is_gpu=kind == "cuda"):
                pytest.fail(f"{workload} for {kind}, sketch {sketch.index}, decisions {decisions}:\n{difference}")
