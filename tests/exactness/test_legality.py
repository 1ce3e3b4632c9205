"""Who is refused is whom VerifyGPUCode refuses: on several devices, among random and among legal candidates.

Random candidates are mostly illegal; those predicted legal are drawn on top, as many.
"""

from __future__ import annotations

import numpy as np
import pytest
from kits.oracle import case, random_batch

from prune_engine.symbols.structure import nest_column

N_CANDIDATES = 3
POOL = 512


@pytest.mark.parametrize(
    ("workload", "device"),
    [("gemm_bias_gelu", "t4"), ("conv_strided", "h100"), ("conv_grouped", "a100"), ("gemm_fp16", "t4")],
)
def test_the_verdict_is_that_of_tvm(workload: str, device: str) -> None:
    space, oracle = case(workload, device)
    verdicts = set()
    for sketch in space.sketches:
        pool = random_batch(space, sketch, POOL, seed=4)
        refused = nest_column(pool, "is_refused", lambda nest: nest.is_refused) != 0
        rows = [*range(N_CANDIDATES), *(N_CANDIDATES + np.flatnonzero(~refused[N_CANDIDATES:])[:N_CANDIDATES])]
        for row in rows:
            decisions = pool.candidate(row).decisions
            built = oracle.realise(sketch, decisions)
            if not built.is_repaired:
                assert built.is_legal is not bool(refused[row]), (sketch.index, decisions)
                verdicts.add(built.is_legal)
    assert verdicts == {True, False}
