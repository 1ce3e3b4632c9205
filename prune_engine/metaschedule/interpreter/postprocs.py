"""What MetaSchedule's post-processors do to a tree, for all candidates at once.

After TVM's rewrite_cooperative_fetch.cc, rewrite_unbound_block.cc, rewrite_parallel_vectorize_unroll.cc and
rewrite_reduction_block.cc. Which loops are fused for parallel or vectorised running differs between candidates:
kinds are expressions, and adjacent loops of one kind are one loop.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from prune_engine.metaschedule.interpreter.instructions import TraceRunner
from prune_engine.metaschedule.interpreter.loops import fuse_loops, split_loop
from prune_engine.metaschedule.interpreter.tree import (
    AccessNode,
    BlockNode,
    IterNode,
    LoopNode,
    NotInterpretedError,
    Tree,
    is_data_parallel,
    loops_of,
    uses,
)
from prune_engine.symbols.expr import Expr, as_expr, both, ceildiv, either, minimum, negate, product, where
from prune_engine.symbols.gpu_legality import fetch_lanes
from prune_engine.symbols.loop_nest import THREAD_KINDS, LoopKind

#: The most blocks of threads that MetaSchedule binds a loop to.
_MAX_THREAD_BLOCKS = 256


@dataclass
class Processed:
    """A tree after post-processing."""

    tree: Tree
    #: Kind of each loop, as an expression of LoopKind numbers.
    kinds: dict[LoopNode, Expr] = field(default_factory=dict)
    #: Limit of the unroll pragma around each block.
    unroll: dict[BlockNode, Expr] = field(default_factory=dict)
    #: Element-wise blocks of which some candidates run as one fused loop: where, parallel and vector extent.
    fused: dict[BlockNode, tuple[Expr, Expr, Expr]] = field(default_factory=dict)
    #: Whether a loop reduces nothing, asked for many times.
    parallel: dict[LoopNode, Expr] = field(default_factory=dict)
    #: Reductions whose start value is set apart: by loop, whether the initialisation runs inside it.
    inits: dict[BlockNode, list[Expr]] = field(default_factory=dict)


def post_process(runner: TraceRunner, target_kind: str, max_threads_per_block: int) -> Processed:
    """Apply the post-processors of a target kind ("llvm" or "cuda") to what a trace made."""
    tree = runner.tree
    if target_kind == "cuda":
        _cooperative_fetch(runner)
        _bind_unbound_blocks(tree, max_threads_per_block)
    done = Processed(tree)
    for block in tree.blocks():
        for loop in loops_of(block):
            if loop not in done.kinds:
                done.kinds[loop] = as_expr(int(loop.kind))
                done.parallel[loop] = is_data_parallel(loop)
    _parallel_vectorize_unroll(done, runner.root_annotations)
    for block in tree.blocks():
        if block.has_init and not _is_cross_thread(block):
            done.inits[block] = _init_loops(done, block)
    return done


def _cooperative_fetch(runner: TraceRunner) -> None:
    for block, lanes, threads_x, threads_y in runner.fetches:
        block.annotations.pop("meta_schedule.cooperative_fetch", None)
        loop = loops_of(block)[-1]
        if threads_x is None:
            raise NotInterpretedError(f"block {block.name!r} is fetched by threads that are not bound before")
        widest = max(a.buffer.item_bytes for a in (*block.reads, *block.writes))
        vector = fetch_lanes(lanes, loop.extent, widest)
        threads = [threads_x] if threads_y is None else [threads_y, threads_x]
        parts = [*threads, vector]
        made = split_loop(runner.tree, loop, [ceildiv(loop.extent, product(parts)), *parts], is_perfect=False)
        made[-1].kind = LoopKind.VECTORIZED
        made[-2].kind = LoopKind.THREAD_X
        if threads_y is not None:
            made[-3].kind = LoopKind.THREAD_Y


def _bind_unbound_blocks(tree: Tree, max_threads_per_block: int) -> None:
    for block in tree.blocks():
        around = loops_of(block)
        has_block = any(loop.kind in (LoopKind.BLOCK_X, LoopKind.BLOCK_Y, LoopKind.BLOCK_Z) for loop in around)
        has_thread = any(loop.kind in THREAD_KINDS for loop in around)
        if has_block and has_thread:
            continue
        if has_block or has_thread or "meta_schedule.tiling_structure" in block.annotations:
            raise NotInterpretedError(f"block {block.name!r} is bound in part")
        _bind(tree, block, around, max_threads_per_block)


def _bind(tree: Tree, block: BlockNode, around: list[LoopNode], max_threads_per_block: int) -> None:
    spatial: list[LoopNode] = []
    for loop in around:
        parallel = is_data_parallel(loop).constant
        if parallel is None:
            raise NotInterpretedError(f"whether loop {loop.name} is parallel depends on a decision")
        if not parallel or loop.kind != LoopKind.SERIAL:
            break
        spatial.append(loop)
        if len(loop.children) > 1:
            break
    if not spatial:
        raise NotInterpretedError(f"block {block.name!r} has no loop to bind")
    fused = fuse_loops(tree, spatial)
    extent = fused.extent.constant
    if extent is None:
        raise NotInterpretedError(f"block {block.name!r}: the extent to bind depends on a decision")
    if extent <= _MAX_THREAD_BLOCKS * max_threads_per_block:
        factor = min(extent, max_threads_per_block)
        outer, inner = split_loop(
            tree, fused, [ceildiv(extent, factor), as_expr(factor)], is_perfect=extent % factor == 0
        )
        outer.kind, inner.kind = LoopKind.BLOCK_X, LoopKind.THREAD_X
        return
    raise NotInterpretedError(f"block {block.name!r} has more elements than blocks of threads")


def _parallel_vectorize_unroll(done: Processed, annotations: dict[str, Any]) -> None:
    max_parallel = annotations.get("meta_schedule.parallel")
    max_vector = annotations.get("meta_schedule.vectorize")
    steps = annotations.get("meta_schedule.unroll_explicit", annotations.get("meta_schedule.unroll_implicit"))
    seen: set[int] = set()
    for block in done.tree.blocks():
        around = loops_of(block)
        if not around:
            continue
        is_first = id(around[0]) not in seen
        seen.add(id(around[0]))
        if max_parallel is not None and max_vector is not None:
            _parallel_and_vector(done, block, around, int(max_parallel), int(max_vector), is_first=is_first)
    if steps is not None:
        for root in done.tree.roots:
            if isinstance(root, LoopNode):
                from prune_engine.metaschedule.interpreter.tree import blocks_under

                inside = blocks_under(root)
                limit = as_expr(0) if all(b.is_spatial for b in inside) else as_expr(steps)
                done.unroll.update((b, limit) for b in inside)


def _parallel_and_vector(
    done: Processed, block: BlockNode, around: list[LoopNode], max_parallel: int, max_vector: int, *, is_first: bool
) -> None:
    """Kinds of a block's loops: a prefix that is parallel, a suffix that is vectorised, or all of them fused.

    Loops shared with an earlier block of the nest are parallel as that one left them.
    """
    n = len(around)
    parallel = [done.parallel[loop] for loop in around]
    is_free = [loop.kind == LoopKind.SERIAL and not loop.annotations for loop in around]
    is_single = [len(loop.children) == 1 for loop in around]
    tail = n
    while tail and is_free[tail - 1] and is_single[tail - 1] and parallel[tail - 1].constant != 0:
        tail -= 1
    n_fusible = _fusible(block, around[tail:])  # loops further out are never vectorised
    in_vector, any_vector = _vector_suffix(around, parallel, is_free, is_single, n_fusible, max_vector)
    n_vector = _count(in_vector)
    if not is_first:
        _mark(done, around, in_vector, LoopKind.VECTORIZED)
        return
    in_parallel, any_parallel = _parallel_prefix(around, parallel, is_free, is_single, max_parallel)
    decided = both(any_parallel, any_vector)
    if all(is_free) and all(is_single):
        whole = both(decided, n_fusible.eq(n))
        for condition in parallel:
            whole = both(whole, condition)
    else:
        whole = as_expr(0)
    # Vectorising wins where both want a loop.
    room = where(decided, as_expr(n) - n_vector, n)
    in_parallel = [both(both(p, any_parallel), as_expr(k).lt(room)) for k, p in enumerate(in_parallel)]
    in_vector = [both(v, any_vector) for v in in_vector]
    if whole.constant != 0:
        total = product(loop.extent for loop in around)
        done.fused[block] = (whole, ceildiv(total, max_vector), as_expr(max_vector))
        in_parallel = [both(p, negate(whole)) for p in in_parallel]
        in_vector = [both(v, negate(whole)) for v in in_vector]
    _mark(done, around, in_parallel, LoopKind.PARALLEL)
    _mark(done, around, in_vector, LoopKind.VECTORIZED)


def _mark(done: Processed, around: list[LoopNode], conditions: list[Expr], kind: LoopKind) -> None:
    for loop, condition in zip(around, conditions, strict=True):
        done.kinds[loop] = where(condition, int(kind), done.kinds[loop])


def _count(conditions: list[Expr]) -> Expr:
    number = as_expr(0)
    for condition in conditions:
        number = number + condition
    return number


def _parallel_prefix(
    around: list[LoopNode], parallel: list[Expr], is_free: list[bool], is_single: list[bool], most: int
) -> tuple[list[Expr], Expr]:
    """Which loops are fused for parallel running, and whether that is more than one iteration."""
    goes_on, extent = as_expr(1), as_expr(1)
    taken: list[Expr] = []
    for loop, is_parallel, free, single in zip(around, parallel, is_free, is_single, strict=True):
        goes_on = both(goes_on, is_parallel) if free else as_expr(0)
        taken.append(goes_on)
        extent = where(goes_on, extent * loop.extent, extent)
        goes_on = both(goes_on, extent.le(most)) if single else as_expr(0)
    return taken, as_expr(1).lt(extent)


def _vector_suffix(
    around: list[LoopNode],
    parallel: list[Expr],
    is_free: list[bool],
    is_single: list[bool],
    n_fusible: Expr,
    most: int,
) -> tuple[list[Expr], Expr]:
    """Which loops are fused and vectorised, and whether TVM counts that as vectorising at all."""
    goes_on, extent, number = as_expr(1), as_expr(1), as_expr(0)
    tried = as_expr(1)  # the product, including the loop that was too much
    taken: list[Expr] = [as_expr(0)] * len(around)
    for k in range(len(around) - 1, -1, -1):
        goes_on = both(both(goes_on, parallel[k]), number.lt(n_fusible))
        if not (is_free[k] and is_single[k]) or goes_on.constant == 0:
            break
        extent = extent * around[k].extent
        tried = where(goes_on, extent, tried)
        goes_on = both(goes_on, extent.le(most))
        taken[k] = goes_on
        number = number + goes_on
    return taken, as_expr(1).lt(tried)


def _fusible(block: BlockNode, around: list[LoopNode]) -> Expr:
    """How many of the loops, from inside, walk through memory without a gap, for every access of the block."""
    most: Expr | None = None
    for access in (*block.reads, *block.writes):
        number = _fusible_for(access, around)
        most = number if most is None else minimum(most, number)
    return as_expr(len(around)) if most is None else most


def _fusible_for(access: AccessNode, around: list[LoopNode]) -> Expr:
    goes_on, number = as_expr(1), as_expr(0)
    has_previous, next_stride = as_expr(0), as_expr(0)
    for loop in reversed(around):
        stride = _stride(access, loop)
        is_unused = stride.eq(0)
        is_first = negate(has_previous)
        fits = either(
            is_unused,
            where(is_first, either(stride.eq(1), number.eq(0)), stride.eq(next_stride)),
        )
        goes_on = both(goes_on, fits)
        if goes_on.constant == 0:
            break
        number = number + goes_on
        takes = both(goes_on, negate(is_unused))
        next_stride = where(takes, stride * loop.extent, next_stride)
        has_previous = either(has_previous, takes)
    return number


def _stride(access: AccessNode, loop: LoopNode) -> Expr:
    """Elements from one iteration of a loop to the next, 0 where TVM sees none (in quotients and differences)."""
    inner = as_expr(1)
    found = as_expr(0)
    is_found = as_expr(0)
    for index, size in zip(reversed(access.indices), reversed(access.buffer.shape), strict=True):
        if index.coefficients is not None:
            coefficient, start = as_expr(0), as_expr(index.offset)
            for it, c in index.coefficients:
                coefficient = coefficient + _plain_stride(it, loop) * c
                start = start + it.offset * c
            if any(c < 0 for _, c in index.coefficients):
                coefficient = as_expr(0)
            # TVM writes a sum with a negative part as a difference, and does not look into differences.
            coefficient = where(start.lt(0), 0, coefficient)
            found = where(is_found, found, coefficient * inner)
            is_found = either(is_found, negate(coefficient.eq(0)))
            if is_found.constant == 1:
                break
        inner = inner * as_expr(size)
    return found


def _plain_stride(it: IterNode, loop: LoopNode) -> Expr:
    stride = as_expr(0)
    for term in it.terms:
        if term.plain_loop is loop:
            stride = stride + term.stride
    return stride


def _is_cross_thread(block: BlockNode) -> bool:
    """Whether a reduction variable is bound to a thread: the sum is then made across threads, undecomposed."""
    return any(
        uses(it, loop).constant != 0
        for it in block.real_iters
        if it.is_reduction
        for loop in loops_of(block)
        if loop.is_bound and loop.kind != LoopKind.VTHREAD
    )


def _init_loops(done: Processed, block: BlockNode) -> list[Expr]:
    """By loop: whether the initialisation runs inside it. It stands before the first loop that reduces."""
    inside: list[Expr] = []
    is_before = as_expr(1)
    for loop in loops_of(block):
        is_before = both(is_before, done.parallel[loop])
        is_used = as_expr(0)
        for it in block.real_iters:
            if not it.is_reduction:
                is_used = either(is_used, uses(it, loop))
        inside.append(either(is_before, is_used))
    return inside
