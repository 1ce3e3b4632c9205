"""Symbols of kernels whose values are known from elsewhere or by hand."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
import pytest
from kits import nests

from prune_engine.candidates import CandidateBatch
from prune_engine.space import Sketch
from prune_engine.symbols.expr import Expr
from prune_engine.symbols.footprint import contiguous_elements, span
from prune_engine.symbols.loop_nest import LoopNest
from prune_engine.symbols.structure import nest_columns
from prune_engine.symbols.traffic import turns

_NUMBERS = itertools.count()


def one(sketch: Sketch, *decisions: tuple[int, ...]) -> CandidateBatch:
    rows = [v.index_of(d) for v, d in zip(sketch.variables, decisions, strict=True)]
    assert None not in rows, rows
    return nests.batch_of(sketch, np.array([rows], dtype=np.int32))


@pytest.fixture(scope="module")
def published() -> CandidateBatch:
    """1024^3, fp32: Pruner's worked case, I = J = (8 blocks, 16 threads, 1 virtual, 8, 1), K = (64, 16, 1)."""
    sketch = nests.gemm_cuda(1024, 1024, 1024)
    return one(sketch, (8, 1, 16, 8, 1), (8, 1, 16, 8, 1), (64, 16, 1), (4,), (4,), (512,))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("pruner_s1_l0_mem_alloc", 80),
        ("pruner_s2_l0_comp_count", 65_536),
        ("pruner_s3_l1_mem_alloc", 4_096),
        ("pruner_s4_l1_para_info", 256),
        ("pruner_s5_l2_mem_footprint", 16_777_216),
        ("pruner_s6_l2_para_info", 64),
        ("pruner_s7_l2_trans_dim", 16),
        ("pruner_s8_l2_comp_count", 2**31),
        ("registers_per_thread", 80),
        ("threads_per_block", 256),
        ("grid_blocks", 64),
        ("shared_bytes_per_block", 16_384),
        ("local_bytes_per_thread", 256),
        ("contiguous_bytes", 64),
        ("max_vector_bytes", 16),
        ("flops_total", 2**31),
        # Both operands once per block, the output once.
        ("traffic_dram_bytes", 4 * (16_777_216 + 1024 * 1024)),
    ],
)
def test_published_gemm(published: CandidateBatch, name: str, value: int) -> None:
    assert published.symbol(name).tolist() == [value]


@pytest.fixture(scope="module")
def cpu_gemm() -> CandidateBatch:
    """128 x 256 x 64: four by two outer tiles in parallel, tiles of 4 x 32, reduction 16 by 4."""
    sketch = nests.gemm_cpu(128, 256, 64, jobs=8)
    return one(sketch, (4, 2, 4, 4), (2, 4, 1, 32), (16, 4), (64,))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("parallel_extent", 8),
        ("vector_lanes", 32),
        ("max_vector_bytes", 128),
        ("tile_m", 4),
        ("tile_n", 32),
        ("tile_k", 4),
        ("working_set_l1_bytes", 4 * (4 * 32 + 4 * 4 + 4 * 32)),
        # The tile's cache, where it is written back to, and the panels of A and B.
        ("working_set_l2_bytes", 4 * (2 * 16 * 32 + 16 * 64 + 64 * 32)),
        # A chunk makes 32 x 128 of C through the tile's cache, from 32 x 64 of A and 64 x 128 of B.
        ("working_set_l3_bytes", 4 * (32 * 128 + 32 * 128 + 32 * 64 + 64 * 128)),
        ("traffic_dram_bytes", 4 * (8 * (32 * 64 + 64 * 128) + 2 * 128 * 256)),
        ("cpu_s1_vector_registers", 4 + 1 + 1),
        ("cpu_s2_fma_chains", 4),
        # Rows of A in the tile are the shortest runs: 4 reduction steps.
        ("contiguous_bytes", 16),
        # 4 rows by 4 steps are 16 bodies; the next loop would make it 64 by j2 = 1, then i2 = 4.
        ("unrolled_body_instances", 64),
        ("threads_per_block", 1),
        ("npu_l0a_bytes", 4 * 4 * 4),
        ("npu_l0b_bytes", 4 * 4 * 32),
        ("npu_l0c_bytes", 4 * 4 * 32),
        ("npu_wram_bytes", 4 * 4 * 32),
        ("npu_l1_bytes", 4 * (16 * 64 + 64 * 32)),
        ("npu_sram_bytes", 4 * (16 * 64 + 64 * 32 + 16 * 32)),
    ],
)
def test_cpu_gemm(cpu_gemm: CandidateBatch, name: str, value: int) -> None:
    assert cpu_gemm.symbol(name).tolist() == [value]


def test_limit_of_unrolling_stops_at_the_first_loop_that_does_not_fit() -> None:
    sketch = nests.gemm_cpu(128, 256, 64, jobs=8)
    tiles = ((4, 2, 4, 4), (2, 4, 1, 32), (16, 4))
    assert [one(sketch, *tiles, (limit,)).symbol("unrolled_body_instances")[0] for limit in nests.UNROLL] == [
        1,
        16,
        64,
        64,
    ]


def test_launches_of_one_kernel_are_limited_by_the_largest() -> None:
    sketch = nests.softmax_cuda(64, 128, (32, 64, 256))
    batch = one(sketch, (32,), (256,), (64,))
    assert batch.symbol("threads_per_block").tolist() == [256]
    assert batch.symbol("grid_blocks").tolist() == [64 * 128 // 64]


def test_scattered_elements_are_not_boxed() -> None:
    """Each block touches three stretches of 16 of the 768 elements; together they touch each element once."""
    batch = one(nests.scattered_cuda(24, 32, 16, (16,)), (16,))
    assert batch.symbol("traffic_dram_bytes").tolist() == [2 * 4 * 24 * 32]
    assert batch.symbol("working_set_l3_bytes").tolist() == [2 * 4 * 16 * 3]
    assert batch.symbol("contiguous_bytes").tolist() == [4 * 16]


def test_convolution_in_the_terms_of_a_matrix_product() -> None:
    sketch = nests.conv_cpu(8, 4, 16)
    batch = one(sketch, (1, 2, 1, 4), (2, 2, 1, 2), (1, 2, 1, 8), (1, 3), (3, 1), (2, 2), (16,))
    found = [int(batch.symbol(name)[0]) for name in ("tile_m", "tile_n", "tile_k")]
    assert found == [4 * 2, 8, 3 * 1 * 2]
    # The input tile: (4 - 1 + 3) x (2 - 1 + 1) pixels of 2 channels; the weights: 3 x 1 x 2 x 8.
    assert batch.symbol("npu_l0a_bytes").tolist() == [4 * 6 * 2 * 2]
    assert batch.symbol("npu_l0b_bytes").tolist() == [4 * 3 * 2 * 8]


def test_no_matrix_product_takes_no_matrix_memory() -> None:
    sketch = nests.softmax_cuda(64, 128, (32,))
    batch = one(sketch, (32,), (32,), (32,))
    assert batch.symbol("npu_l0a_bytes").tolist() == batch.symbol("npu_wram_bytes").tolist() == [0]
    assert batch.symbol("npu_ub_bytes")[0] > 0


def value_of(batch: CandidateBatch, formula: Callable[[LoopNest], Expr]) -> int:
    name = f"under test {next(_NUMBERS)}"  # a nest remembers formulas by name
    return int(nest_columns(batch, {name: formula})[name][0])


def test_reduction_loops_outside_do_not_bring_the_output_in_again(cpu_gemm: CandidateBatch) -> None:
    """At the depth inside k0 (16 turns) the tile's cache stays; the operands come anew on each."""

    def turns_of(buffer: str, depth: int = 5) -> int:
        batch = cpu_gemm.take(np.array([0]))
        return value_of(batch, lambda nest: turns(nest.statement("update"), buffer, depth))

    chunks = (4 * 2) * (2 * 4)
    assert [turns_of(buffer) for buffer in ("C_cache", "A", "B")] == [chunks, chunks * 16, chunks * 16]
    # Inside j2, which has one turn here, the four turns of i2 outside it leave B in place too.
    assert turns_of("B", 7) == chunks * 16
    assert turns_of("A", 7) == chunks * 16 * 4


def test_padded_outermost_digit_does_not_begin_again() -> None:
    """Three rows over threads of two: two threads hold two rows, though their loop is padded to four."""
    batch = one(nests.softmax_cuda(3, 8), (2,), (2,), (2,))
    assert value_of(batch, lambda nest: span(nest.statement("max"), 0, {1})) == 2


def test_a_loop_with_a_stride_makes_runs_of_one(cpu_gemm: CandidateBatch) -> None:
    def run(nest: LoopNest) -> Expr:
        update = nest.statement("update")
        return contiguous_elements(nest, update, update.accesses[2], {1})  # B along j0 alone

    assert value_of(cpu_gemm.take(np.array([0])), run) == 1
