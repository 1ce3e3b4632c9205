"""Symbols of memory, threads and vectors are what is left of accepted candidates once TVM has lowered them."""

from __future__ import annotations

import math

import numpy as np
import pytest
from kits.nest_comparison import Prediction
from kits.oracle import case, random_batch

from prune_engine.metaschedule.tir_lowered import LoweredKernel, lowered_memory
from prune_engine.symbols.builtin import BUILTIN_SYMBOLS
from prune_engine.symbols.structure import nest_column

N_CANDIDATES = 2
#: Few random candidates are legal.
POOL = 512
SYMBOLS = {symbol.name: symbol.formula for symbol in BUILTIN_SYMBOLS}


def symbol(predicted: Prediction, name: str) -> int:
    formula = SYMBOLS[name]
    assert formula is not None
    return predicted(formula(predicted.nest))[0]


def summed_across_threads(kernel: LoweredKernel) -> int:
    """Bytes of local buffers that sums across threads go through; no loop nest has them."""
    return sum(
        math.prod(b.shape) * 4
        for b in kernel.buffers
        if b.scope == "local" and b.name.startswith(("cross_thread_", "in_thread_", "red_buf"))
    )


@pytest.mark.parametrize(
    "workload", ["gemm_square", "conv3x3", "conv_depthwise", "gemm_bias_gelu", "softmax", "gemm_fp16"]
)
def test_what_an_accepted_candidate_takes_up(workload: str) -> None:
    space, oracle = case(workload, "cuda")
    n_seen = 0
    for sketch in space.sketches:
        pool = random_batch(space, sketch, POOL, seed=2)
        refused = nest_column(pool, "is_refused", lambda nest: nest.is_refused)
        batch = pool.take(np.flatnonzero(refused == 0)[:N_CANDIDATES])
        for row in range(len(batch)):
            decisions = batch.candidate(row).decisions
            built = oracle.realise(sketch, decisions)
            assert built.is_legal, decisions
            kernels = lowered_memory(built.checked, space.task.target)
            predicted = Prediction(batch, row)
            expected = {
                "shared_bytes_per_block": max(k.shared_bytes for k in kernels),
                "local_bytes_per_thread": max(k.local_bytes - summed_across_threads(k) for k in kernels),
                "threads_per_block": max(k.n_threads for k in kernels),
                "grid_blocks": max(math.prod(k.grid.values()) for k in kernels),
                "vthreads": max(math.prod(k.virtual_threads.values()) for k in kernels),
            }
            assert {name: symbol(predicted, name) for name in expected} == expected, decisions
            # TVM makes scalars of a vector that reads across a border.
            widest, found = symbol(predicted, "max_vector_bytes"), max(k.max_vector_bytes for k in kernels)
            is_scalar = widest <= 4 or workload.startswith("conv")
            assert found == widest or (is_scalar and found <= widest), decisions
            n_seen += 1
    assert n_seen >= 2
