"""Predicted loop nests against the nests that TVM built: the first difference, readably."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from kits.oracle import Realised

from prune_engine.candidates import CandidateBatch
from prune_engine.metaschedule.gpu_check import why_not
from prune_engine.metaschedule.tir_affine import Affine
from prune_engine.metaschedule.tir_lowered import compacted_buffers
from prune_engine.metaschedule.tir_nest import TirBlock, TirIter, TirNest, read_nest
from prune_engine.symbols.evaluate import evaluate
from prune_engine.symbols.expr import Expr, as_expr
from prune_engine.symbols.loop_nest import Access, LoopKind, Statement
from prune_engine.symbols.loop_nest import Iterator as NestIterator

#: Names of loop kinds as TVM has them.
KIND_NAMES = {
    LoopKind.SERIAL: "serial",
    LoopKind.PARALLEL: "parallel",
    LoopKind.VECTORIZED: "vectorized",
    LoopKind.UNROLLED: "unrolled",
    LoopKind.BLOCK_X: "blockIdx.x",
    LoopKind.BLOCK_Y: "blockIdx.y",
    LoopKind.BLOCK_Z: "blockIdx.z",
    LoopKind.VTHREAD: "vthread.x",
    LoopKind.THREAD_X: "threadIdx.x",
    LoopKind.THREAD_Y: "threadIdx.y",
    LoopKind.THREAD_Z: "threadIdx.z",
}
_MERGED = ("parallel", "vectorized")  # TVM fuses neighbours of these kinds
_UNROLL = ("pragma_auto_unroll_max_step", "pragma_unroll_explicit")

Shape = list[tuple[int, str]]


@dataclass(frozen=True)
class Difference:
    """Where a prediction and the built kernel differ."""

    where: str
    expected: object  #: what TVM built
    got: object  #: what was predicted

    def __str__(self) -> str:
        return f"{self.where}\n    TVM built   {self.expected}\n    predicted   {self.got}"


class Prediction:
    """The numbers of one candidate's predicted nest."""

    def __init__(self, batch: CandidateBatch, row: int) -> None:
        assert batch.sketch.nests is not None, "an opaque sketch has no prediction"
        self._tables = batch.sketch.nests.tables
        self._indices = batch.indices[row : row + 1]
        groups = batch.sketch.nests.groups(self._indices)
        (self.nest,) = (group.nest for group in groups if group.rows is None or len(group.rows))

    def refusal(self) -> str:
        """Why it is predicted to be refused."""
        names = list(self.nest.refusals)
        holds = self(*self.nest.refusals.values())
        return "refused: " + (
            ", ".join(name for name, h in zip(names, holds, strict=True) if h) or "no reason given"
        )

    def __call__(self, *exprs: Expr) -> list[int]:
        return [int(column[0]) for column in evaluate(exprs, self._tables, self._indices)]


def differences(batch: CandidateBatch, row: int, built: Realised, *, is_gpu: bool) -> Iterator[Difference]:
    """What is predicted otherwise than built, the coarsest first: later ones often follow from it."""
    predicted = Prediction(batch, row)
    is_canonical, is_refused = predicted(predicted.nest.is_canonical, predicted.nest.is_refused)
    if bool(is_canonical) == built.is_repaired:
        yield Difference("decisions kept", built.decisions if built.is_repaired else "as asked", bool(is_canonical))
    if built.is_repaired:  # another candidate's kernel
        return
    if bool(is_refused) == built.is_legal:
        reason = why_not(built.checked, batch.space.task.target) if built.checked is not None else None
        verdict = "accepted" if built.is_legal else f"refused: {built.refusal or reason}"
        yield Difference("legality", verdict, predicted.refusal() if is_refused else "accepted")
    if built.mod is None:
        return
    nest = read_nest(built.mod)
    leaves = [block for block in nest.blocks if block.is_leaf]
    names = [block.name for block in leaves], [s.name for s in predicted.nest.statements]
    if names[0] != names[1]:
        yield Difference("statements", *names)
        return
    for block, statement in zip(leaves, predicted.nest.statements, strict=True):
        yield from _statement_differences(nest, block, statement, predicted)
    yield from _buffer_differences(built, predicted, is_gpu=is_gpu)


def _statement_differences(
    nest: TirNest, block: TirBlock, statement: Statement, predicted: Prediction
) -> Iterator[Difference]:
    expected = merged((loop.extent, loop.kind) for loop in block.loops)
    extents = predicted(*(loop.extent for loop in statement.loops))
    kinds = predicted(*(as_expr(loop.kind) for loop in statement.loops))
    got = merged((e, KIND_NAMES[LoopKind(k)]) for e, k in zip(extents, kinds, strict=True))
    if expected != got:
        yield Difference(f"loops of {block.name}", shown(expected), shown(got))
    steps = unroll_steps(block)
    if [steps] != predicted(statement.unroll_steps):
        yield Difference(f"unroll pragma of {block.name}", steps, predicted(statement.unroll_steps)[0])
    iterators = [(i.name, predicted(as_expr(i.extent))[0], i.is_reduction) for i in statement.iterators]
    axes = [(i.name, i.extent, i.kind == "R") for i in own_axes(nest, block)]
    # An init has no reduction axes; which names TVM gives renamed axes is not our business.
    if sorted((e, r) for _, e, r in axes if e > 1) != sorted((e, r) for _, e, r in iterators if e > 1):
        yield Difference(f"axes of {block.name}", axes, iterators)
    wanted, have = Counter(_block_accesses(block)), Counter(_accesses(statement.accesses, statement.iterators))
    if set(wanted) != set(have):
        yield Difference(
            f"accesses of {block.name}", sorted(set(wanted) - set(have)), sorted(set(have) - set(wanted))
        )


def _buffer_differences(built: Realised, predicted: Prediction, *, is_gpu: bool) -> Iterator[Difference]:
    expected = sorted((b.name, b.scope, b.dtype, b.n_elements) for b in compacted_buffers(built.mod, is_gpu=is_gpu))
    own = [b for b in predicted.nest.buffers.values() if not b.is_argument]
    sizes = predicted(*(buffer.stored_elements for buffer in own))
    got = sorted((b.name, b.scope, b.dtype, size) for b, size in zip(own, sizes, strict=True))
    if expected != got:
        only_expected = [b for b in expected if b not in got]
        yield Difference("buffers", only_expected, [b for b in got if b not in expected])


def merged(loops: Iterable[tuple[int, str]]) -> Shape:
    """Loops without those of extent 1; neighbours that are parallel, or vectorised, as one."""
    found: Shape = []
    for extent, kind in loops:
        if extent == 1:
            continue
        if found and kind in _MERGED and found[-1][1] == kind:
            found[-1] = (found[-1][0] * extent, kind)
        else:
            found.append((extent, kind))
    return found


def shown(loops: Shape) -> str:
    return " ".join(f"{extent}{'' if kind == 'serial' else ':' + kind}" for extent, kind in loops) or "(none)"


def unroll_steps(block: TirBlock) -> int:
    """The innermost unroll pragma around a block, 0 without one."""
    steps = [loop.annotations[name] for loop in block.loops for name in _UNROLL[:1] if name in loop.annotations]
    return int(steps[-1]) if steps else 0


def own_axes(nest: TirNest, block: TirBlock) -> Iterator[TirIter]:
    """A block's axes and those of the blocks it is nested in: together they place an instance."""
    if block.parent is not None:
        yield from own_axes(nest, nest.blocks[block.parent])
    yield from block.iters


def _block_accesses(block: TirBlock) -> Iterator[tuple[object, ...]]:
    for accesses, is_write in ((block.reads, False), (block.writes, True)):
        for access in accesses:
            starts = tuple(_affine(start) for start in access.starts)
            yield access.buffer, is_write, tuple(zip(starts, access.extents, strict=True))


def _affine(start: Affine | None) -> tuple[tuple[tuple[str, int], ...], int] | None:
    return None if start is None else (start.coefficients, start.constant)


def _accesses(accesses: Iterable[Access], iterators: tuple[NestIterator, ...]) -> Iterator[tuple[object, ...]]:
    for access in accesses:
        dimensions: list[tuple[object, int]] = []
        for index in access.indices:
            if index.coefficients is None:
                dimensions.append((None, index.width))
                continue
            named = tuple(sorted((iterators[i].name, c) for i, c in index.coefficients if c))
            dimensions.append(((named, index.offset), index.width))
        yield access.buffer, access.is_write, tuple(dimensions)
