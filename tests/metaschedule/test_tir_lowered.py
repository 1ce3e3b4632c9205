"""Bytes, threads and vectors of a lowered kernel, and the limits TVM refuses it by."""

from __future__ import annotations

import json

import pytest
from kits.schedules import on_gpu, on_processor, pipelined_on_gpu

from prune_engine.errors import SpaceError
from prune_engine.metaschedule.gpu_check import verify_gpu_code, why_not
from prune_engine.metaschedule.targets import resolve_target
from prune_engine.metaschedule.tir_lowered import buffer_bytes, compacted_buffers, lowered_memory, pipelined_buffers
from prune_engine.metaschedule.tir_nest import TirBuffer

SHARED_BYTES = 32 * 16 * 4


def gpu(**limits: int) -> str:
    """An A100 with some limits of its own."""
    config = json.loads(resolve_target("nvidia/nvidia-a100", 1))
    return resolve_target(json.dumps({**config, **limits}), 1)


def test_bytes_threads_and_vectors_of_a_gpu_kernel() -> None:
    (kernel,) = lowered_memory(on_gpu(lanes=4).mod, gpu())
    assert kernel.shared_bytes == SHARED_BYTES
    assert kernel.local_bytes == 4 * 4 * 2  # four columns, once per virtual thread
    assert (kernel.threads, kernel.grid, kernel.n_threads) == ({"threadIdx.x": 32}, {"blockIdx.x": 8}, 32)
    assert kernel.virtual_threads == {"vthread.x": 2}
    assert kernel.max_vector_bytes == 16
    assert kernel.mismatches == ()


def test_scalar_code_has_no_vectors() -> None:
    (kernel,) = lowered_memory(on_gpu(lanes=1).mod, gpu())
    assert kernel.max_vector_bytes == 0


def test_compacted_buffers() -> None:
    assert compacted_buffers(on_processor().mod, is_gpu=False) == (TirBuffer("C", "global", "float32", (1, 8)),)
    assert set(compacted_buffers(on_gpu().mod, is_gpu=True)) == {
        TirBuffer("C_local", "local", "float32", (1, 4)),
        TirBuffer("A_shared", "shared", "float32", (32, 16)),
    }


@pytest.mark.parametrize(("stage", "versions"), [(2, 3), (3, 4)])
def test_a_software_pipeline_keeps_versions_of_what_it_fetches(stage: int, versions: int) -> None:
    mod = pipelined_on_gpu(stage).mod
    (single,) = [b for b in compacted_buffers(mod, is_gpu=True) if b.scope == "shared"]
    (kept,) = [b for b in pipelined_buffers(mod) if b.scope == "shared"]
    assert (single.n_elements, kept.n_elements) == (32 * 4, versions * 32 * 4)
    kernels = lowered_memory(mod, gpu())
    assert [kernel.shared_bytes for kernel in kernels] == [versions * 32 * 4 * 4, 0]
    assert [kernel.n_threads for kernel in kernels] == [32, 1]


def test_padding_counts() -> None:
    sch = on_gpu()
    sch.storage_align(sch.get_sblock("A_shared"), 0, axis=0, factor=32, offset=8)
    (shared,) = [b for b in compacted_buffers(sch.mod, is_gpu=True) if b.scope == "shared"]
    assert shared.strides == (40, 1)
    assert buffer_bytes(shared) == 32 * 40 * 4
    assert lowered_memory(sch.mod, gpu())[0].shared_bytes == 32 * 40 * 4


@pytest.mark.parametrize(
    ("schedule", "limits", "reason"),
    [
        pytest.param({}, {"max_shared_memory_per_block": SHARED_BYTES}, None, id="shared-memory-at-the-limit"),
        pytest.param(
            {},
            {"max_shared_memory_per_block": SHARED_BYTES - 1},
            "limits: Used shared memory per block (2048) is greater than the allowed maximum (2047)",
            id="shared-memory-past-the-limit",
        ),
        pytest.param({}, {"max_threads_per_block": 32}, None, id="threads-at-the-limit"),
        pytest.param(
            {},
            {"max_threads_per_block": 31},
            "limits: Used threads per block (32) is greater than the allowed maximum (31)",
            id="threads-past-the-limit",
        ),
        pytest.param({"low": 32}, {}, None, id="least-threads-at-the-limit"),
        pytest.param(
            {"low": 33}, {}, "thread extent: block C runs on 32 threads, outside [33, 1024]", id="too-few-threads"
        ),
        pytest.param({"lanes": 4}, {}, None, id="vector-at-the-limit"),
        pytest.param({"lanes": 8}, {}, "limits: Number of lanes (8) times number of bytes (32)", id="wide-vector"),
    ],
)
def test_why_a_kernel_is_refused_and_that_tvm_agrees(
    schedule: dict[str, int], limits: dict[str, int], reason: str | None
) -> None:
    mod, target = on_gpu(**schedule).mod, gpu(**limits)
    said = why_not(mod, target)
    assert said == reason or (reason is not None and said is not None and said.startswith(reason))
    assert verify_gpu_code(mod, target) is (reason is None)


def test_a_kernel_that_cannot_be_lowered_is_refused() -> None:
    sch = on_gpu()
    serial = sch.get_loops(sch.get_sblock("C"))[-1]
    sch.annotate(serial, "software_pipeline_stage", [0, 0, 3])
    sch.annotate(serial, "software_pipeline_order", [0, 1, 2])
    with pytest.raises(SpaceError, match="cannot be lowered"):
        lowered_memory(sch.mod, gpu())
    assert str(why_not(sch.mod, gpu())).startswith("lowering: ")
    assert not verify_gpu_code(sch.mod, gpu())


def test_a_target_without_limits_is_refused() -> None:
    with pytest.raises(SpaceError, match="thread_warp_size"):
        why_not(on_gpu().mod, resolve_target("llvm", 1))
