"""The closed forms of CUDA legality. The literal sizes were read back once from TVM 0.27's lowered kernels."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from prune_engine.errors import SpaceError
from prune_engine.space import Sketch, Variable, VariableKind
from prune_engine.symbols.evaluate import TableValues, evaluate
from prune_engine.symbols.expr import Expr, ExprLike, part
from prune_engine.symbols.gpu_legality import (
    SharedBuffer,
    aligned_elements,
    buffer_versions,
    fetch_lanes,
    n_threads,
    pipeline_ok,
    shared_bytes,
    thread_range_ok,
    threads_ok,
    vector_ok,
)


def number(expr: Expr) -> int:
    assert expr.constant is not None
    return expr.constant


def test_threads_between_both_ends_of_their_range() -> None:
    assert number(n_threads(4, 2, 8)) == 64
    accepted = [t for t in (16, 31, 32, 1024, 1025) if number(thread_range_ok(t, 32, 1024))]
    assert accepted == [32, 1024]
    assert [number(threads_ok(t, 1024)) for t in (1024, 1025)] == [1, 0]


# Fetches of a 3x3 convolution and (the last two) of a GEMM, as RewriteCooperativeFetch split them.
@pytest.mark.parametrize(("asked", "extent", "lanes"), [(3, 13440, 3), (2, 1536, 2), (3, 65536, 1), (2, 32768, 2)])
def test_fetch_gets_its_lanes_only_where_they_divide(asked: int, extent: int, lanes: int) -> None:
    assert number(fetch_lanes(asked, extent, 4)) == lanes


def test_wide_dtypes_are_fetched_one_by_one() -> None:
    assert number(fetch_lanes(2, 1536, 8)) == 1


# Tensor-core GEMMs in half precision: B read along its columns is refused with 8 lanes and accepted with 4.
@pytest.mark.parametrize(
    ("lanes", "widest_bytes", "is_contiguous", "ok"),
    [(8, 2, True, 1), (8, 2, False, 0), (4, 2, False, 1), (4, 4, True, 1), (8, 4, True, 0), (1, 32, True, 1)],
)
def test_vectors_of_sixteen_bytes(lanes: int, widest_bytes: int, is_contiguous: bool, ok: int) -> None:
    assert number(vector_ok(lanes, widest_bytes, is_contiguous)) == ok


# CompactBufferAllocation's strides of the staged tiles of tensor-core GEMMs: storage_align(-2, 32, 8).
@pytest.mark.parametrize(
    ("rows", "row", "elements"),
    [(16, 512, 8320), (128, 128, 17408), (256, 16, 10240), (64, 64, 4608)],
)
def test_rows_are_padded_to_the_alignment(rows: int, row: int, elements: int) -> None:
    assert number(aligned_elements(rows, row, 32, 8)) == elements


# The annotations of MetaSchedule's two pipelined sketches: two fetches, then the computation.
@pytest.mark.parametrize(("last_stage", "versions"), [(2, 3), (3, 4)])
def test_versions_of_the_pipelined_sketches(last_stage: int, versions: int) -> None:
    for fetch in (0, 1):
        assert buffer_versions([0, 0, last_stage], [0, 1, 2], writers=[fetch], readers=[2]) == versions


def test_two_stages_need_two_versions_only_where_they_overlap() -> None:
    assert buffer_versions([0, 1], [0, 1], writers=[0], readers=[1]) == 2
    assert buffer_versions([0, 1], [1, 0], writers=[0], readers=[1]) == 1


def test_buffers_from_outside_the_pipeline_keep_one_version() -> None:
    assert buffer_versions([0, 0, 3], [0, 1, 2], writers=[], readers=[2]) == 1


# gemm:128x128x64 was refused with k in (1, 64, 1), (1, 2, 32) and (1, 1, 64), accepted in (2, 8, 4), (64, 1, 1).
@pytest.mark.parametrize(("extent", "ok"), [(1, 0), (2, 1), (64, 1)])
def test_pipeline_loses_its_form_where_the_loop_does_nothing(extent: int, ok: int) -> None:
    assert number(pipeline_ok(extent)) == ok


def half(elements: int) -> SharedBuffer:
    return SharedBuffer("float16", 2, elements)


def test_static_buffers_lie_side_by_side_in_all_their_versions() -> None:
    # gemm:512x512x512, second sketch, tiles (1,4,1,32,4), (4,4,16,2,1), (16,1,32): float [49152] and [12288].
    staged = [SharedBuffer("float32", 4, 512 * 32, versions=3), SharedBuffer("float32", 4, 32 * 128, versions=3)]
    assert number(shared_bytes(staged, is_dynamic=False)) == (49152 + 12288) * 4
    # A prime GEMM has tiles of any size; nothing is aligned.
    odd = [SharedBuffer("float32", 4, 127), SharedBuffer("float32", 4, 3)]
    assert number(shared_bytes(odd, is_dynamic=False)) == 520


# What MergeSharedMemoryAllocations allocated for tensor-core GEMMs and convolutions (float16 in shared.dyn).
MERGED = [
    pytest.param((69632, 34816), ("float16", 2, 32768), 208896, id="output_in_the_smaller"),
    pytest.param((34816, 17408), ("float32", 4, 32768), 131072, id="output_over_both"),
    pytest.param((10240, 10240), ("float32", 4, 32768), 131072, id="output_over_equals"),
    pytest.param((69632, 34816), ("float32", 4, 32768), 208896, id="output_in_the_larger"),
    pytest.param((4224, 135168), ("float32", 4, 8192), 278784, id="output_in_the_larger_of_unequal"),
    pytest.param((67584, 16896), ("float16", 2, 1024), 171008, id="output_too_small_for_either"),
    pytest.param((33280, 16640), ("float32", 4, 512), 101888, id="small_output_of_another_dtype"),
    pytest.param((10240, 10240), ("float16", 2, 32768), 86016, id="output_grows_one_of_two"),
    pytest.param((4224, 135168), ("float16", 2, 8192), 286720, id="output_grows_the_smaller"),
    pytest.param((225792, 2304), ("float16", 2, 3584), 458752, id="output_grows_the_second"),
    pytest.param((34816, 17408), ("float16", 2, 32768), 104448, id="output_fits_where_one_could_grow"),
    # Kernels made up for it: two copies into shared memory, a use of both, an output gathered in shared memory.
    pytest.param((10240, 10240), ("float32", 4, 8192), 40960, id="output_over_parts_of_both"),
    pytest.param((100, 40), ("float32", 4, 130), 520, id="output_over_both_unaligned"),
    pytest.param((33, 40), ("float16", 2, 5000), 10000, id="both_too_small_to_grow"),
    pytest.param((1000, 37), ("float16", 2, 1200), 2528, id="the_larger_grows"),
    pytest.param((33, 70000), ("float32", 4, 300), 141216, id="over_one_beside_a_far_larger"),
    pytest.param((33, 70000), ("float16", 2, 2000), 144032, id="too_small_beside_a_far_larger"),
]


@pytest.mark.parametrize(("staged", "output", "n_bytes"), MERGED)
def test_dynamic_memory_is_reused_for_the_output(
    staged: tuple[int, int], output: tuple[str, int, int], n_bytes: int
) -> None:
    for order in itertools.permutations(staged):
        result = shared_bytes([half(n) for n in order], SharedBuffer(*output), is_dynamic=True)
        assert number(result) == n_bytes


def test_one_staged_buffer_and_its_output() -> None:
    assert number(shared_bytes([half(64)], SharedBuffer("float16", 2, 64), is_dynamic=True)) == 128


def test_dynamic_allocations_start_aligned() -> None:
    assert number(shared_bytes([half(33), half(10)], is_dynamic=True)) == 128 + 20


def test_unknown_sharing_is_an_error() -> None:
    output = SharedBuffer("float32", 4, 64)
    with pytest.raises(SpaceError, match="each other's memory"):
        shared_bytes([half(64)], output, is_dynamic=False)
    with pytest.raises(SpaceError, match="each other's memory"):
        shared_bytes([half(64), SharedBuffer("int8", 1, 64)], output, is_dynamic=True)
    with pytest.raises(SpaceError, match="each other's memory"):
        shared_bytes([half(64)] * 3, output, is_dynamic=True)


def test_columns_agree_with_numbers() -> None:
    """Every branch at once: the formula over columns against the formula over each row's numbers."""
    rng = np.random.default_rng(0)
    rows = (2 ** rng.integers(5, 15, (400, 3)) * rng.integers(1, 4, (400, 3))).astype(np.int32)
    variable = Variable.of("sizes", VariableKind.CATEGORICAL, rows, [1 / 400] * 400)
    sketch = Sketch(0, "sizes", (variable,))
    a, b, c = (part(0, i) for i in range(3))
    picked = np.arange(400, dtype=np.int32)[:, None]
    for dtype, width in (("float16", 2), ("float32", 4)):
        column = evaluate([_gathered(a, b, c, dtype, width)], TableValues(sketch), picked)[0]
        expected = [number(_gathered(int(x), int(y), int(z), dtype, width)) for x, y, z in variable.table]
        assert column.tolist() == expected


def _gathered(a: ExprLike, b: ExprLike, c: ExprLike, dtype: str, item_bytes: int) -> Expr:
    staged = [SharedBuffer("float16", 2, a), SharedBuffer("float16", 2, b)]
    return shared_bytes(staged, SharedBuffer(dtype, item_bytes, c), is_dynamic=True)
