"""Whether TVM accepts a GPU kernel, and which of its limits a refused one breaks."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from prune_engine.errors import SpaceError
from prune_engine.metaschedule._compat import import_tvm, load_intrinsics
from prune_engine.metaschedule.materialise import SCHEDULE_ERRORS, last_line
from prune_engine.metaschedule.targets import architecture_of, make_target
from prune_engine.metaschedule.tir_lowered import lower_for_gpu
from prune_engine.metaschedule.tir_nest import TirBlock, TirNest, read_nest

#: What VerifyGPUCode allows whatever the target says.
MAX_VTHREAD, MAX_VECTOR_BYTES = 8, 16

_LOW, _HIGH = "meta_schedule.thread_extent_low_inclusive", "meta_schedule.thread_extent_high_inclusive"


def verify_gpu_code(mod: Any, target: str) -> bool:
    """Ask MetaSchedule's own post-processor, on a module that went through those before it.

    RewriteTensorize comes *after* it in MetaSchedule's list: hand over the module as it was before that.
    """
    return bool(_postprocessor(target).apply(import_tvm().s_tir.Schedule(mod, debug_mask="none")))


def why_not(mod: Any, target: str) -> str | None:
    """The limit that a kernel breaks, in words; None for one that is accepted.

    Begins with "thread extent: ", "lowering: " or "limits: ", in the order in which TVM looks; "limits: "
    carries TVM's own messages, joined by "; ".
    """
    if reason := _thread_extent(read_nest(mod), int(_limit(target, "thread_warp_size"))):
        return f"thread extent: {reason}"
    constraints = {
        "max_shared_memory_per_block": _limit(target, "max_shared_memory_per_block"),
        "max_threads_per_block": _limit(target, "max_threads_per_block"),
        "max_vthread": MAX_VTHREAD,
        "max_vector_bytes": MAX_VECTOR_BYTES,
    }
    try:
        lowered = lower_for_gpu(mod, target).late
    except SpaceError as error:
        return f"lowering: {error.problem.removeprefix('a kernel cannot be lowered: ')}"
    try:
        _verifier()(constraints)(lowered)
    except SCHEDULE_ERRORS as error:
        return f"limits: {_violations(str(error))}"
    return None


def _thread_extent(nest: TirNest, warp_size: int) -> str | None:
    """The first block whose threads are outside the range that its sketch asks for."""
    for block in nest.blocks:
        low, high = block.annotations.get(_LOW), block.annotations.get(_HIGH)
        if low is None or high is None:
            continue
        n_threads = _threads_around(nest, block, warp_size)
        if not low <= n_threads <= high:
            return f"block {block.name} runs on {n_threads} threads, outside [{low}, {high}]"
    return None


def _threads_around(nest: TirNest, block: TirBlock, warp_size: int) -> int:
    """Threads that TVM counts: of each axis the innermost loop; a warp-wide block replaces threadIdx.x."""
    axes = {loop.kind: loop.extent for loop in block.loops if loop.kind.startswith("threadIdx.")}
    outer: TirBlock | None = block
    while outer is not None:
        if "warp_execution" in outer.annotations:
            axes["threadIdx.x"] = warp_size
        outer = None if outer.parent is None else nest.blocks[outer.parent]
    product = 1
    for extent in axes.values():
        product *= extent
    return product


def _violations(message: str) -> str:
    lines = [line.strip().rstrip(";") for line in message.splitlines()]
    return "; ".join(line for line in lines if " greater than " in line or " does not match " in line) or last_line(
        message
    )


def _limit(target: str, name: str) -> int:
    """An attribute of the target that VerifyGPUCode needs. Raises SpaceError."""
    value = dict(make_target(target).attrs).get(name)
    if value is None:
        raise SpaceError(
            f"the target does not say {name}",
            who=f"target {target}",
            expected="a GPU target with its limits",
            remedy='Use a tag such as "nvidia/nvidia-a100", or state it.',
        )
    return int(value)


@lru_cache(maxsize=1)
def _verifier() -> Any:
    """The pass that raises with every violated limit; TVM does not export it to Python."""
    return import_tvm().get_global_func("s_tir.transform.VerifyGPUCode")


@lru_cache(maxsize=16)
def _postprocessor(target: str) -> Any:
    """VerifyGPUCode set up for a target."""
    load_intrinsics(architecture_of(target))
    from tvm.s_tir import meta_schedule as ms

    context = ms.TuneContext(target=make_target(target))
    made = ms.postproc.VerifyGPUCode()
    made._initialize_with_tune_context(context)
    return made
