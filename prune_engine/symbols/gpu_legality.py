"""Which GPU candidates TVM accepts, in closed form: threads, shared memory, vectors, software pipelines.

Every formula follows what MetaSchedule's VerifyGPUCode post-processor does to a kernel (it lowers it nearly
to code and looks at what came out). Source files are named relative to TVM 0.27's ``src/``. Arguments and
results are expressions (or plain integers) of one candidate's decisions; conditions are 1 or 0.

What TVM does *not* limit, although it reads as if it did: local memory, and virtual threads
(``s_tir/analysis/verify_gpu_code.cc`` looks for loops called "vthread.s", which no schedule makes; shared
buffers are not multiplied by them either).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from prune_engine.errors import SpaceError
from prune_engine.symbols.expr import (
    Expr,
    ExprLike,
    as_expr,
    both,
    either,
    maximum,
    minimum,
    product,
    total,
    where,
)

#: Widest vector that passes, whatever the target (s_tir/meta_schedule/postproc/verify_gpu_code.cc).
MAX_VECTOR_BYTES = 16

#: Indices are 32-bit by the time they are looked at (the NarrowDataType pass).
_INDEX_BYTES = 4

#: Dtypes wider than this are fetched one by one (s_tir/meta_schedule/postproc/rewrite_cooperative_fetch.cc).
_MAX_FETCHED_BYTES = 4

#: Where an allocation inside the merged shared memory may begin (TVM's kAllocAlignment).
_SHARED_ALIGNMENT_BYTES = 64

#: A buffer takes over the memory of one up to this many times its size (tirx/transform/storage_rewrite.cc).
_MATCH_RANGE = 16

#: How many buffers may be staged next to an output: of three, not all would be laid over.
_MAX_STAGED = 2


@dataclass(frozen=True, slots=True)
class SharedBuffer:
    """One allocation in shared memory: ``elements`` of one version (padding included), ``item_bytes`` each.

    ``versions`` is how many the software pipeline around it keeps, see ``buffer_versions``.
    """

    dtype: str
    item_bytes: int
    elements: ExprLike
    versions: int = 1

    @property
    def n_bytes(self) -> Expr:
        """All versions together."""
        return as_expr(self.elements) * (self.item_bytes * self.versions)


def n_threads(x: ExprLike = 1, y: ExprLike = 1, z: ExprLike = 1) -> Expr:
    """Threads of a block, from the extents along the three axes.

    Of an axis bound more than once the innermost loop around the statement counts; under a block annotated
    ``warp_execution`` x is the target's warp size (ThreadExtentChecker in
    s_tir/meta_schedule/postproc/verify_gpu_code.cc).
    """
    return product((x, y, z))


def thread_range_ok(threads: ExprLike, low: int, high: int) -> Expr:
    """Whether the threads around a block are in the range it is annotated with, both ends included."""
    return both(as_expr(low).le(threads), as_expr(threads).le(high))


def threads_ok(threads: ExprLike, max_threads_per_block: int) -> Expr:
    """Whether a kernel's threads per block are few enough (s_tir/analysis/verify_gpu_code.cc)."""
    return as_expr(threads).le(max_threads_per_block)


def fetch_lanes(asked: ExprLike, fused_extent: ExprLike, widest_bytes: int) -> Expr:
    """Vector lanes that a cooperative fetch gets of those it asked for.

    ``fused_extent`` is its loop before it is split over the threads, ``widest_bytes`` the widest dtype in
    the block (s_tir/meta_schedule/postproc/rewrite_cooperative_fetch.cc).
    """
    if widest_bytes > _MAX_FETCHED_BYTES:
        return as_expr(1)
    return where((as_expr(fused_extent) % asked).eq(0), asked, 1)


def vector_ok(lanes: ExprLike, widest_bytes: int, is_contiguous: bool) -> Expr:
    """Whether a vectorised access is narrow enough.

    ``widest_bytes`` is the widest dtype loaded, stored or cast to. Where the lanes are not neighbours in
    memory (``is_contiguous`` false), the vector of their 32-bit indices counts as well
    (CheckBufferIndicesVectorizable in s_tir/analysis/verify_gpu_code.cc): eight lanes are too many.
    """
    item_bytes = widest_bytes if is_contiguous else max(widest_bytes, _INDEX_BYTES)
    return either((as_expr(lanes) * item_bytes).le(MAX_VECTOR_BYTES), as_expr(lanes).le(1))


def aligned_elements(rows: ExprLike, row_elements: ExprLike, factor: int, offset: int) -> Expr:
    """Elements of a buffer whose rows are padded by ``storage_align(axis=-2, factor, offset)``.

    A row then begins at a multiple of ``factor``, plus ``offset``; the last row is padded too
    (CalcStrides in s_tir/transform/compact_buffer_region.cc).
    """
    row = as_expr(row_elements)
    padding = (as_expr(factor + offset) - row % factor) % factor
    return as_expr(rows) * (row + padding)


def buffer_versions(
    stages: Sequence[int], order: Sequence[int], writers: Sequence[int], readers: Sequence[int]
) -> int:
    """How many versions of a buffer a software pipeline keeps.

    ``stages`` and ``order`` are the loop's annotations, one number per statement in it; ``writers`` and
    ``readers`` are the positions of the statements that touch the buffer. A buffer that is not written in
    the loop keeps one (ComputeBufferVersions in s_tir/transform/inject_software_pipeline.cc).
    """
    if not writers or not readers:
        return 1
    versions = max(stages[r] for r in readers) - min(stages[w] for w in writers) + 1
    overlaps = any(order[w] < order[r] and stages[w] < stages[r] for w in writers for r in readers)
    if versions == 2 and not overlaps:
        return 1
    return max(versions, 1)


def pipeline_ok(extent: ExprLike) -> Expr:
    """Whether a software-pipelined reduction loop still has the statements it was annotated for.

    ``extent`` is the annotated loop's. RewriteReductionBlock sets the accumulator to its start value right
    before the first loop that a reduction depends on, and on a fused loop of extent 1 none does: it then
    goes inside, and the pipeline has one statement too many, however short the loops in there are
    (PipelineInjector in s_tir/transform/inject_software_pipeline.cc). Fewer iterations than stages are fine.
    """
    return as_expr(2).le(extent)


def shared_bytes(staged: Sequence[SharedBuffer], output: SharedBuffer | None = None, *, is_dynamic: bool) -> Expr:
    """Shared memory of a kernel in bytes.

    ``staged`` are live together; ``output``, where results are gathered before they are stored, only after
    all of them. ``is_dynamic``: scope "shared.dyn", whose allocations are merged into one; static ones
    ("shared") lie side by side.
    Raises SpaceError for what is not worked out here: an output next to static buffers, to more than two
    or to several dtypes.
    """
    sizes = [buffer.n_bytes for buffer in staged]
    if output is None:
        return _laid_out(sizes) if is_dynamic else total(sizes)
    if not is_dynamic or len(staged) > _MAX_STAGED or len({buffer.dtype for buffer in staged}) != 1:
        raise SpaceError(
            "it is not known how these shared buffers use each other's memory",
            got=f"{'dynamic' if is_dynamic else 'static'}: {', '.join(b.dtype for b in (*staged, output))}",
            expected="dynamic shared memory, at most two staged, of one dtype",
            remedy="Let TVM check these candidates.",
        )
    return _reused(_ascending(sizes), output.n_bytes, output.dtype == staged[0].dtype)


def _reused(sizes: list[Expr], output: Expr, is_same_dtype: bool) -> Expr:
    """Bytes with an output that comes when all else is dead; ``sizes`` ascending.

    StorageRewrite (FindAlloc in tirx/transform/storage_rewrite.cc) puts it into the smallest buffer that
    holds it; else, for one dtype, into the largest that does not, which grows. Otherwise
    MergeSharedMemoryAllocations lays it over as many smaller buffers as it takes.
    """
    result = as_expr(0)
    for n_smaller in range(len(sizes) + 1):
        layout = _laid_over(sizes, n_smaller, output)
        if is_same_dtype and n_smaller:
            at = n_smaller - 1
            grown = _laid_out([*sizes[:at], output, *sizes[at + 1 :]])
            # In bits, as TVM divides.
            layout = where((output * 8 // _MATCH_RANGE).le(sizes[at] * 8), grown, layout)
        if n_smaller < len(sizes):
            fits = sizes[n_smaller].le(output * _MATCH_RANGE)
            layout = where(fits, _laid_out(sizes), layout)
        result = where(_smaller_are(sizes, output, n_smaller), layout, result)
    return result


def _smaller_are(sizes: list[Expr], output: Expr, n_smaller: int) -> Expr:
    """Whether exactly the first ``n_smaller`` of ascending sizes are below the output's."""
    condition = as_expr(1)
    if n_smaller:
        condition = both(condition, sizes[n_smaller - 1].lt(output))
    if n_smaller < len(sizes):
        condition = both(condition, output.le(sizes[n_smaller]))
    return condition


def _laid_over(sizes: list[Expr], n_smaller: int, output: Expr) -> Expr:
    """Bytes when the output lies over the ``n_smaller`` first, which are smaller than it.

    With one or two of them, all are taken (FindAlloc and ComputeOffsets in
    s_tir/transform/merge_shared_memory_allocations.cc).
    """
    end = maximum(_laid_out(sizes[:n_smaller]), output)
    return _laid_out(sizes[n_smaller:], end)


def _laid_out(sizes: Sequence[Expr], begin: ExprLike = 0) -> Expr:
    """End of buffers laid one after the other from ``begin``, each from an aligned start."""
    end = as_expr(begin)
    for size in sizes:
        end = _aligned(end) + size
    return end


def _aligned(offset: Expr) -> Expr:
    return (offset + (_SHARED_ALIGNMENT_BYTES - 1)) // _SHARED_ALIGNMENT_BYTES * _SHARED_ALIGNMENT_BYTES


def _ascending(sizes: Sequence[Expr]) -> list[Expr]:
    """One or two sizes sorted, candidate by candidate."""
    first, *rest = sizes
    return [minimum(first, rest[0]), maximum(first, rest[0])] if rest else [first]
