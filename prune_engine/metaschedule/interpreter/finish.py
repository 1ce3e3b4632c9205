"""A post-processed tree as a LoopNest: statements with numbered loops, buffers with what they take up."""

from __future__ import annotations

from dataclasses import replace

from prune_engine.metaschedule.interpreter.allocation import around_init, stored_elements
from prune_engine.metaschedule.interpreter.gpu_limits import GpuLimits, laid_out_bytes, refusals, versions_of
from prune_engine.metaschedule.interpreter.postprocs import Processed
from prune_engine.metaschedule.interpreter.quotients import is_beyond_trial
from prune_engine.metaschedule.interpreter.tensorize import init_tile, tile_of
from prune_engine.metaschedule.interpreter.tree import (
    AccessNode,
    BlockNode,
    BufferNode,
    IndexNode,
    IterNode,
    LoopNode,
    Node,
    NotInterpretedError,
    TermNode,
    Tree,
    loops_of,
)
from prune_engine.symbols.expr import Expr, as_expr, either, product, where
from prune_engine.symbols.loop_nest import (
    Access,
    Buffer,
    Index,
    Iterator,
    Loop,
    LoopKind,
    LoopNest,
    Pipeline,
    Role,
    Statement,
    Term,
)

#: Why TVM's DisallowDynamicLoop refuses a candidate.
DYNAMIC = "a loop without a constant extent"


def loop_nest(
    done: Processed,
    is_canonical: Expr,
    limits: GpuLimits | None,
    known: dict[object, dict[object, Expr]] | None = None,
) -> LoopNest:
    """The nest of a post-processed tree. ``limits`` are those of a GPU target.

    ``known`` is what symbols made of the statements of other structures, and is added to.
    """
    order = _program_order(done)
    # Two buffers may have one name in TVM; here names are keys.
    names = _unique_names(done.tree)
    versions = versions_of(done.tree)
    buffers = {names[b]: _buffer(done, b, names[b], versions.get(b, as_expr(1))) for b in done.tree.buffers}
    statements: list[Statement] = []
    previous: list[LoopNode] = []
    for block, role in order:
        around = loops_of(block)
        n_shared = next((k for k, (a, b) in enumerate(zip(around, previous, strict=False)) if a is not b), None)
        n_shared = min(len(around), len(previous)) if n_shared is None else n_shared
        statements.append(_statement(done, block, role, names, n_shared))
        statements[-1].share_formulas({} if known is None else known)
        previous = around
    nest = LoopNest(tuple(statements), buffers, as_expr(0), is_canonical, tuple(_pipelines(done.tree)))
    reasons = refusals(done, nest, limits) if limits is not None else {}
    unsure = dynamic = refused = as_expr(0)
    for block in done.tree.blocks():
        unsure = either(unsure, block.dynamic.is_unsure)
        dynamic = either(dynamic, block.dynamic.is_certain)
    if limits is not None and _has_untried_size(done.tree):
        unsure = as_expr(1)
    if dynamic.constant != 0:
        reasons[DYNAMIC] = dynamic
    for condition in reasons.values():
        refused = either(refused, condition)
    shared = laid_out_bytes(done.tree, nest) if limits is not None else None
    return replace(nest, is_refused=refused, is_unsure=unsure, refusals=reasons, laid_out_shared_bytes=shared)


def _has_untried_size(tree: Tree) -> bool:
    """Whether a buffer that counts against a GPU's limits has a size that is not known for certain."""
    staged = [
        access
        for block in tree.blocks()
        for access in (*block.reads, *block.writes)
        if access.buffer.scope.startswith("shared")
    ]
    return any(is_beyond_trial(index) for access in staged for index in access.indices)


def _program_order(done: Processed) -> list[tuple[BlockNode, Role]]:
    """Blocks in the order they run, a decomposed reduction's initialisation before the loop that reduces."""
    points: dict[int, list[BlockNode]] = {}
    for block in done.inits:
        around = loops_of(block)
        before = around_init(done, block)
        anchor: Node = around[len(before)] if len(before) < len(around) else block
        points.setdefault(id(anchor), []).append(block)
    order: list[tuple[BlockNode, Role]] = []

    def visit(node: Node) -> None:
        order.extend((block, Role.INIT) for block in points.get(id(node), ()))
        if isinstance(node, LoopNode):
            for child in node.children:
                visit(child)
        else:
            order.append((node, _role(node)))

    for root in done.tree.roots:
        visit(root)
    return order


def _role(block: BlockNode) -> Role:
    if not block.is_spatial:
        return Role.UPDATE
    return Role.COPY if block.is_copy else Role.COMPUTE


def _unique_names(tree: Tree) -> dict[BufferNode, str]:
    names: dict[BufferNode, str] = {}
    taken: set[str] = set()
    for buffer in tree.buffers:
        name, number = buffer.name, 1
        while name in taken:
            name, number = f"{buffer.name}.{number}", number + 1
        taken.add(name)
        names[buffer] = name
    return names


def _statement(
    done: Processed, block: BlockNode, role: Role, names: dict[BufferNode, str], n_shared: int
) -> Statement:
    around = loops_of(block)
    inside = done.inits.get(block) if role is Role.INIT else None
    whole, parallel_extent, vector_extent = done.fused.get(block, (as_expr(0), as_expr(1), as_expr(1)))
    loops: list[Loop] = []
    for number, loop in enumerate(around):
        extent = loop.extent if inside is None else where(inside[number], loop.extent, 1)
        loops.append(Loop(loop.name, where(whole, 1, extent), done.kinds[loop]))
    first = 0
    if whole.constant != 0:
        first = 2
        loops = [
            Loop("fused_0", where(whole, parallel_extent, 1), as_expr(int(LoopKind.PARALLEL))),
            Loop("fused_1", where(whole, vector_extent, 1), as_expr(int(LoopKind.VECTORIZED))),
            *loops,
        ]
    numbers = {loop: k + first for k, loop in enumerate(around)}
    iters = [it for it in block.iters if not it.is_lost and (role is not Role.INIT or not it.is_reduction)]
    source = block
    if role is Role.INIT and block.inner is not None and (within := init_tile(block)) is not None:
        numbers[within[0]] = len(loops)
        loops.append(Loop(within[0].name, within[0].extent, as_expr(int(LoopKind.VECTORIZED))))
        iters.append(within[1])
        source = block.inner
    flat = _flat_strides(around) if first else {}
    iterators = tuple(_iterator(it, numbers, loops, whole, flat, vector_extent) for it in iters)
    accesses = _accesses(source, role, iters, names)
    is_decomposed = block in done.inits
    suffix = "_init" if role is Role.INIT else "_update" if role is Role.UPDATE and is_decomposed else ""
    return Statement(
        source.name + suffix,
        role,
        tuple(loops),
        iterators,
        accesses,
        0 if role is Role.INIT else block.flop_count,
        done.unroll.get(block, as_expr(0)),
        tile=tile_of(block, is_init=role is Role.INIT),
        n_shared_with_previous=n_shared + first if n_shared else 0,
        annotations={k: v for k, v in block.annotations.items() if isinstance(v, (int, str))},
        call_count=0 if role is Role.INIT else block.call_count,
    )


def _flat_strides(around: list[LoopNode]) -> dict[LoopNode, Expr]:
    return {loop: product(inner.extent for inner in around[k + 1 :]) for k, loop in enumerate(around)}


def _iterator(
    it: IterNode,
    numbers: dict[LoopNode, int],
    loops: list[Loop],
    whole: Expr,
    flat: dict[LoopNode, Expr],
    vector_extent: Expr,
) -> Iterator:
    terms = [_term(term, numbers, loops) for term in (it.seen_terms or it.terms)]
    if flat:  # the same, as digits of the one fused loop
        for term in it.terms:
            loop = term.plain_loop
            if loop is None:
                raise NotInterpretedError("a fused loop is fused again")
            over = ((0, vector_extent), (1, as_expr(1)))
            terms.append(Term(term.stride, over, flat[loop], where(whole, loop.extent, 1)))
    return Iterator(it.name, it.extent, it.is_reduction, tuple(terms), it.offset)


def _term(term: TermNode, numbers: dict[LoopNode, int], loops: list[Loop]) -> Term:
    over = tuple((numbers[d.loop], d.flat_stride) for d in term.over)
    source = term.plain_loop
    if source is not None:
        return Term(term.stride, over, term.divisor, loops[numbers[source]].extent)
    first = term.over[0]
    if len(over) == 1 and term.divisor.constant == 1 and term.modulus is first.modulus and term.start.constant == 0:
        return Term(term.stride, over, first.divisor, first.modulus)
    is_whole = all(d.is_whole for d in term.over)
    digits = () if is_whole else tuple((d.divisor, d.modulus) for d in term.over)
    return Term(term.stride, over, term.divisor, term.modulus, digits, term.start)


def _accesses(
    block: BlockNode, role: Role, iters: list[IterNode], names: dict[BufferNode, str]
) -> tuple[Access, ...]:
    numbers = {it: k for k, it in enumerate(iters)}
    found: list[Access] = []
    if role is not Role.INIT:
        found.extend(_access(a, numbers, names, is_write=False) for a in block.reads)
        if role is Role.UPDATE:
            found.extend(_access(a, numbers, names, is_write=False) for a in block.writes)
    found.extend(_access(a, numbers, names, is_write=True) for a in block.writes)
    return tuple(found)


def _access(
    access: AccessNode, numbers: dict[IterNode, int], names: dict[BufferNode, str], *, is_write: bool
) -> Access:
    return Access(names[access.buffer], tuple(_index(i, numbers) for i in access.indices), is_write)


def _index(index: IndexNode, numbers: dict[IterNode, int]) -> Index:
    if index.coefficients is None or any(it not in numbers or it.is_lost for it, _ in index.coefficients):
        return Index(None)
    return Index(tuple((numbers[it], c) for it, c in index.coefficients), index.offset, index.width)


def _buffer(done: Processed, buffer: BufferNode, name: str, versions: Expr) -> Buffer:
    shape = tuple(as_expr(size) for size in buffer.shape)
    sizes = tuple(size.constant if size.constant is not None else 0 for size in shape)
    stored = product(shape) if buffer.is_argument else stored_elements(done, buffer) * versions
    return Buffer(name, buffer.scope, buffer.dtype, buffer.item_bytes, sizes, buffer.is_argument, stored)


def _pipelines(tree: Tree) -> list[Pipeline]:
    found: list[Pipeline] = []
    seen: set[int] = set()
    for block in tree.blocks():
        for loop in loops_of(block):
            if "software_pipeline_stage" in loop.annotations and id(loop) not in seen:
                seen.add(id(loop))
                found.append(
                    Pipeline(
                        loop.name,
                        tuple(int(s) for s in loop.annotations["software_pipeline_stage"]),
                        tuple(int(s) for s in loop.annotations.get("software_pipeline_order", ())),
                        tuple(int(s) for s in loop.annotations.get("software_pipeline_async_stages", ())),
                    )
                )
    return found
