"""What MetaSchedule's VerifyGPUCode refuses, as conditions on a candidate.

After verify_gpu_code.cc (thread ranges, threads, shared bytes, vector bytes) and inject_software_pipeline.cc
(how many versions of a staged buffer live at once, and which pipelines cannot be made).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from prune_engine.metaschedule.interpreter.tree import (
    BlockNode,
    BufferNode,
    LoopNode,
    Tree,
    blocks_under,
    loops_of,
)
from prune_engine.symbols.expr import Expr, as_expr, both, either, maximum, negate, total
from prune_engine.symbols.loop_nest import THREAD_KINDS, LoopKind, LoopNest

if TYPE_CHECKING:
    from prune_engine.metaschedule.interpreter.postprocs import Processed

#: What VerifyGPUCode is told to allow for one vector access.
_MAX_VECTOR_BYTES = 16
_LOW, _HIGH = "meta_schedule.thread_extent_low_inclusive", "meta_schedule.thread_extent_high_inclusive"


@dataclass(frozen=True, slots=True)
class GpuLimits:
    """The attributes of a TVM target that its verifier reads."""

    max_threads_per_block: int
    max_shared_memory_per_block_bytes: int
    thread_warp_size: int


def refusals(done: Processed, nest: LoopNest, limits: GpuLimits) -> dict[str, Expr]:
    """Reason -> 1 where VerifyGPUCode refuses a candidate for it."""
    tree = done.tree
    found: dict[str, Expr] = {}
    for block in tree.blocks():
        if _LOW in block.annotations and _HIGH in block.annotations:
            threads = _threads_around(block, limits)
            low, high = as_expr(block.annotations[_LOW]), as_expr(block.annotations[_HIGH])
            _add(
                found,
                "threads per block are out of the range of the sketch",
                either(threads.lt(low), high.lt(threads)),
            )
        _add(found, "a vector access is too wide", _too_wide(block))
    for root in tree.roots:
        blocks = blocks_under(root)
        threads = as_expr(1)
        for kind in THREAD_KINDS:
            threads = threads * _maximum(loop.extent for loop in _loops(blocks) if loop.kind is kind)
        _add(found, "too many threads per block", as_expr(limits.max_threads_per_block).lt(threads))
        _add(found, "threads of one axis differ within a kernel", _differ(blocks, limits))
        shared = shared_bytes(nest, root)
        _add(
            found, "too much shared memory per block", as_expr(limits.max_shared_memory_per_block_bytes).lt(shared)
        )
    for loop in _loops(tree.blocks()):
        if "software_pipeline_stage" in loop.annotations:
            _add(found, "the software pipeline cannot be made", _breaks_pipeline(done, loop))
    return {reason: condition for reason, condition in found.items() if condition.constant != 0}


def versions_of(tree: Tree) -> dict[BufferNode, Expr]:
    """How many copies of each staged buffer a software pipeline keeps (only buffers that have several)."""
    found: dict[BufferNode, Expr] = {}
    for loop in _loops(tree.blocks()):
        stages = loop.annotations.get("software_pipeline_stage")
        if stages is None or len(stages) != len(loop.children):
            continue
        stage_of = {
            block: int(stage)
            for child, stage in zip(loop.children, stages, strict=True)
            for block in blocks_under(child)
        }
        for buffer in {a.buffer for block in stage_of for a in block.writes if not a.buffer.is_argument}:
            defined = [s for b, s in stage_of.items() if any(a.buffer is buffer for a in b.writes)]
            used = [s for b, s in stage_of.items() if any(a.buffer is buffer for a in b.reads)]
            if defined and used and max(used) - min(defined) + 1 >= 3:
                found[buffer] = as_expr(max(used) - min(defined) + 1)
    return found


def shared_bytes(nest: LoopNest, root: LoopNode | BlockNode) -> Expr:
    """Bytes of static shared memory of the kernel that a root-level node is."""
    used = {a.buffer for block in blocks_under(root) for a in (*block.reads, *block.writes)}
    names = {b.name for b in used}
    return total(
        buffer.stored_elements * buffer.item_bytes
        for buffer in nest.buffers.values()
        if buffer.scope == "shared" and buffer.name in names
    )


def _add(found: dict[str, Expr], reason: str, condition: Expr) -> None:
    found[reason] = either(found[reason], condition) if reason in found else condition


def _threads_around(block: BlockNode, limits: GpuLimits) -> Expr:
    threads = as_expr(1)
    for kind in THREAD_KINDS:
        around = [loop for loop in loops_of(block) if loop.kind is kind]
        if kind is LoopKind.THREAD_X and "warp_execution" in block.annotations:
            threads = threads * limits.thread_warp_size
        elif around:
            threads = threads * around[-1].extent
    return threads


def _too_wide(block: BlockNode) -> Expr:
    """The vector loop of a fetch asks for more bytes at once than a load can bring."""
    condition = as_expr(0)
    width = max((a.buffer.item_bytes for a in (*block.reads, *block.writes)), default=1)
    for loop in loops_of(block):
        if loop.kind is LoopKind.VECTORIZED:
            condition = either(condition, as_expr(_MAX_VECTOR_BYTES).lt(loop.extent * width))
    return condition


def _differ(blocks: list[BlockNode], limits: GpuLimits) -> Expr:
    condition = as_expr(0)
    for kind in THREAD_KINDS:
        extents = [loop.extent for loop in _loops(blocks) if loop.kind is kind]
        if kind is LoopKind.THREAD_X and any("warp_execution" in b.annotations for b in blocks):
            extents.append(as_expr(limits.thread_warp_size))
        for extent in extents[1:]:
            condition = either(condition, negate(extent.eq(extents[0])))
    return condition


def _breaks_pipeline(done: Processed, loop: LoopNode) -> Expr:
    """A reduction that starts inside the pipelined loop adds a statement that has no stage.

    That is so where the pipelined loop itself runs once and the loop directly inside it is the first that
    reduces.
    """
    condition = as_expr(0)
    for child in loop.children:
        if not isinstance(child, LoopNode):
            continue
        for block in blocks_under(child):
            if block in done.inits:
                condition = either(condition, both(loop.extent.le(1), as_expr(1).lt(child.extent)))
    return condition


def _loops(blocks: Iterable[BlockNode]) -> list[LoopNode]:
    found: list[LoopNode] = []
    for block in blocks:
        found.extend(loop for loop in loops_of(block) if loop not in found)
    return found


def _maximum(values: Iterable[Expr]) -> Expr:
    most = as_expr(1)
    for value in values:
        most = value if most.constant == 1 else maximum(most, value)
    return most
