"""TVM's per-store features by name, on a kernel whose numbers are known."""

from __future__ import annotations

import pytest
from kits.schedules import on_gpu, on_processor

from prune_engine.metaschedule.store_features import StoreFeatures, store_features
from prune_engine.metaschedule.targets import resolve_target

PRODUCTS = 64 * 32 * 16


@pytest.fixture(scope="module")
def product_and_rest() -> tuple[StoreFeatures, ...]:
    return store_features(on_processor().mod, resolve_target("llvm", 4))


def test_operations_and_loops(product_and_rest: tuple[StoreFeatures, ...]) -> None:
    product, rest = product_and_rest
    assert [(f.buffer, f.block) for f in product_and_rest] == [("C", "C"), ("D", "D")]
    assert (product.operations["float_add_sub"], product.operations["float_mul"]) == (PRODUCTS, PRODUCTS)
    assert (product.iterations, product.n_loops, product.unroll_max_step) == (PRODUCTS, 6, 64)
    assert (rest.operations["float_add_sub"], rest.operations["float_cmp"]) == (64 * 32, 64 * 32)
    assert rest.loop_counts == {"vectorized": 1, "unrolled": 0, "parallel": 1}
    assert rest.loop_products == {"vectorized": 8, "unrolled": 0, "parallel": 4}
    assert not rest.axes


def test_accesses(product_and_rest: tuple[StoreFeatures, ...]) -> None:
    product, rest = product_and_rest
    # B is read with a stride of a row, A along a row; C has become one row of 8.
    assert [(a.kind, a.unique_bytes, a.stride, a.reuse_count) for a in product.accesses] == [
        ("read", 16 * 32 * 4, 32, 16),
        ("read", 64 * 16 * 4, 1, 8),
        ("read_write", 8 * 4, 0, 4),
    ]
    assert {a.n_bytes for a in product.accesses} == {PRODUCTS * 4}
    assert product.allocated_bytes == 8 * 4
    assert rest.allocated_bytes == 64 * 32 * 4


def test_axes_of_a_gpu_kernel() -> None:
    features = store_features(on_gpu(lanes=4).mod, resolve_target("nvidia/nvidia-a100", 1))
    staged = {f.buffer: f for f in features}["A_shared"]
    assert (staged.axes["blockIdx.x"], staged.axes["threadIdx.x"], staged.axes["vthread"]) == (8, 32, 2)
    assert staged.axes["threadIdx.y"] == 1
    assert staged.loop_products["vectorized"] == 4
    assert staged.allocated_bytes == 32 * 16 * 4


def test_a_reduction_across_threads_has_a_row_where_a_thread_sums_more_than_one() -> None:
    """TVM drops loops of extent 1 first, so that the sum within a thread is not always there."""
    from kits.oracle import case, random_batch

    space, oracle = case("global_avg_pool", "cuda")
    sketch = space.sketches[1]
    batch = random_batch(space, sketch, 12)
    names = set()
    for row in range(len(batch)):
        built = oracle.realise(sketch, batch.candidate(row).decisions)
        names.add(tuple(f.buffer for f in store_features(built.mod, space.task.target)))
    assert names == {("X_red_shared", "T_divide"), ("in_thread_X_red_shared", "X_red_shared", "T_divide")}
