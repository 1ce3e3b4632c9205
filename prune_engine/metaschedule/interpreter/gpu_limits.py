"""What MetaSchedule's VerifyGPUCode refuses, as conditions on a candidate.

After verify_gpu_code.cc (thread ranges, threads, shared bytes, vector bytes) and inject_software_pipeline.cc
(how many versions of a staged buffer live at once, and which pipelines cannot be made).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from prune_engine.errors import SpaceError
from prune_engine.metaschedule.interpreter.tree import (
    AccessNode,
    BlockNode,
    BufferNode,
    LoopNode,
    NotInterpretedError,
    Tree,
    blocks_under,
    loops_of,
)
from prune_engine.symbols import gpu_legality
from prune_engine.symbols.expr import Expr, as_expr, both, either, maximum, negate, total
from prune_engine.symbols.gpu_legality import (
    SharedBuffer,
    buffer_versions,
    pipeline_ok,
    thread_range_ok,
    threads_ok,
)
from prune_engine.symbols.loop_nest import THREAD_KINDS, LoopKind, LoopNest

if TYPE_CHECKING:
    from prune_engine.metaschedule.interpreter.postprocs import Processed

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
            low, high = int(block.annotations[_LOW]), int(block.annotations[_HIGH])
            _add(
                found,
                "threads per block are out of the range of the sketch",
                negate(thread_range_ok(threads, low, high)),
            )
        _add(found, "a vector access is too wide", _too_wide(block))
    for root in tree.roots:
        blocks = blocks_under(root)
        threads = as_expr(1)
        for kind in THREAD_KINDS:
            threads = threads * _maximum(_axis_extents(blocks, kind, limits))
        _add(found, "too many threads per block", negate(threads_ok(threads, limits.max_threads_per_block)))
        _add(found, "threads of one axis differ within a kernel", _differ(blocks, limits))
        shared = shared_bytes(done.tree, nest, root)
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
        stages = [int(stage) for stage in loop.annotations.get("software_pipeline_stage", ())]
        order = [int(place) for place in loop.annotations.get("software_pipeline_order", ())]
        if not stages or not len(stages) == len(order) == len(loop.children):
            continue
        statements = [blocks_under(child) for child in loop.children]
        buffers = {a.buffer for blocks in statements for b in blocks for a in b.writes if not a.buffer.is_argument}
        for buffer in buffers:
            writers = [k for k, blocks in enumerate(statements) if _touch(buffer, [b.writes for b in blocks])]
            readers = [k for k, blocks in enumerate(statements) if _touch(buffer, [b.reads for b in blocks])]
            n_versions = buffer_versions(stages, order, writers, readers)
            if n_versions > 1:
                found[buffer] = as_expr(n_versions)
    return found


def _touch(buffer: BufferNode, accesses: Sequence[Sequence[AccessNode]]) -> bool:
    return any(access.buffer is buffer for of_block in accesses for access in of_block)


def laid_out_bytes(tree: Tree, nest: LoopNest) -> Expr | None:
    """Shared memory of the kernel with most, where dynamic buffers may use each other's; None where none is."""
    if not any(buffer.scope == "shared.dyn" for buffer in tree.buffers):
        return None
    return _maximum([shared_bytes(tree, nest, root) for root in tree.roots])


def shared_bytes(tree: Tree, nest: LoopNest, root: LoopNode | BlockNode) -> Expr:
    """Bytes of shared memory of the kernel that a root-level node is.

    Raises NotInterpretedError where it is not known which dynamic buffers live at the same time.
    """
    touched = [{a.buffer for a in (*block.reads, *block.writes)} for block in blocks_under(root)]
    static: list[Expr] = []
    dynamic: list[tuple[int, int, SharedBuffer]] = []
    for node, buffer in zip(tree.buffers, nest.buffers.values(), strict=True):
        at = [k for k, buffers in enumerate(touched) if node in buffers]
        if at and buffer.scope == "shared":
            static.append(buffer.stored_elements * buffer.item_bytes)
        elif at and buffer.scope == "shared.dyn":
            own = SharedBuffer(buffer.dtype, buffer.item_bytes, buffer.stored_elements)
            dynamic.append((at[0], at[-1], own))
    return total(static) + _dynamic_bytes(dynamic)


def _dynamic_bytes(buffers: list[tuple[int, int, SharedBuffer]]) -> Expr:
    """Bytes of dynamic buffers, each with the first and the last block that touches it."""
    if not buffers:
        return as_expr(0)
    *staged, last = sorted(buffers, key=lambda b: b[0])
    output = last[2] if staged and last[0] > max(end for _, end, _ in staged) else None
    if output is None:
        staged.append(last)
    if max(start for start, _, _ in staged) > min(end for _, end, _ in staged):
        raise NotInterpretedError("dynamic shared buffers of more than two ages")
    try:
        return gpu_legality.shared_bytes([b for _, _, b in staged], output, is_dynamic=True)
    except SpaceError as error:
        raise NotInterpretedError(str(error)) from error


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
    accesses = (*block.reads, *block.writes)
    width = max((a.buffer.item_bytes for a in accesses), default=1)
    for loop in loops_of(block):
        if loop.kind is LoopKind.VECTORIZED:
            condition = either(condition, negate(gpu_legality.vector_ok(loop.extent, width, is_contiguous=True)))
            strided = negate(gpu_legality.vector_ok(loop.extent, width, is_contiguous=False))
            for access in accesses:
                condition = either(condition, both(strided, _lanes_apart(access, loop)))
    return condition


def _lanes_apart(access: AccessNode, lanes: LoopNode) -> Expr:
    """1 where the lanes of a vector are elements at a distance, and TVM sees that it is always the same.

    Only such an index counts as a vector of its own. It is one of a fused loop split into lanes, threads and
    more: TVM sees through the remainder that picks the element's place in its row if the other parts drop
    out of it, because whole rows lie between their steps.
    """
    condition = as_expr(0)
    for number, index in enumerate(reversed(access.indices)):
        for it, coefficient in index.coefficients or ():
            for term in it.terms:
                step = next((d for d in term.over if d.loop is lanes and term.divisor.constant == 1), None)
                if step is None or (number == 0 and (step.flat_stride * term.stride * coefficient).constant == 1):
                    continue
                is_seen = as_expr(1)
                for digit in term.over[:-2]:
                    drops_out = either(digit.loop.extent.eq(1), (digit.flat_stride % term.modulus).eq(0))
                    is_seen = both(is_seen, drops_out)
                condition = either(condition, is_seen)
    return condition


def _axis_extents(blocks: list[BlockNode], kind: LoopKind, limits: GpuLimits) -> list[Expr]:
    extents = [loop.extent for loop in _loops(blocks) if loop.kind is kind]
    if kind is LoopKind.THREAD_X and any("warp_execution" in b.annotations for b in blocks):
        extents.append(as_expr(limits.thread_warp_size))
    return extents


def _differ(blocks: list[BlockNode], limits: GpuLimits) -> Expr:
    condition = as_expr(0)
    for kind in THREAD_KINDS:
        extents = _axis_extents(blocks, kind, limits)
        for extent in extents[1:]:
            condition = either(condition, negate(extent.eq(extents[0])))
    return condition


def _breaks_pipeline(done: Processed, loop: LoopNode) -> Expr:
    """A reduction that starts inside the pipelined loop adds a statement that has no stage.

    That is so where the pipelined loop runs once: fusing drops its variable, so it reduces nothing, and the
    initialisation goes inside.
    """
    starts_inside = any(block in done.inits for child in loop.children for block in blocks_under(child))
    return negate(pipeline_ok(loop.extent)) if starts_inside else as_expr(0)


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
