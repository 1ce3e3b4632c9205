"""Predicted loop nests against the nests that TVM built: the first difference, readably."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from kits.oracle import Realised

from prune_engine.candidates import CandidateBatch
from prune_engine.metaschedule.gpu_check import why_not
from prune_engine.metaschedule.tir_lowered import compacted_buffers, pipelined_buffers
from prune_engine.metaschedule.tir_nest import TirBlock, TirIter, TirNest, read_nest
from prune_engine.symbols.evaluate import evaluate
from prune_engine.symbols.expr import Expr, as_expr
from prune_engine.symbols.loop_nest import LoopKind, Statement

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
#: Coefficients by iterator and constant of an index (None: not affine), and how many elements from there.
_Dimension = tuple[tuple[tuple[tuple[str, int], ...], int] | None, int | None]
#: Buffer, whether it is written, and each dimension of an access.
_Touch = tuple[str, bool, tuple[_Dimension, ...]]


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
    leaves = {block.name: block for block in nest.blocks if block.is_leaf}
    statements = {statement.name: statement for statement in predicted.nest.statements}
    if sorted(leaves) != sorted(statements) or _without_inits(leaves) != _without_inits(statements):
        yield Difference("statements", list(leaves), list(statements))
        return
    for name, block in leaves.items():
        yield from _statement_differences(nest, block, statements[name], predicted)
    yield from _buffer_differences(built, predicted, is_gpu=is_gpu)


def _without_inits(names: Iterable[str]) -> list[str]:
    """Statements in their order, but for inits: TVM puts one before the first reduction loop that is not 1.

    The loops around it are the same wherever it stands, apart from loops of extent 1.
    """
    return [name for name in names if not name.endswith("_init")]


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
    axes = {axis.name: axis for axis in own_axes(nest, block)}
    # Of a quotient of an axis, which an index may be made of, the prediction makes an iterator of its own.
    own = [iterator for iterator in statement.iterators if iterator.name in axes or "//" not in iterator.name]
    expected_axes = sorted((axis.extent, axis.kind == "R") for axis in axes.values() if axis.extent > 1)
    extents = predicted(*(as_expr(iterator.extent) for iterator in own))
    got_axes = sorted((e, i.is_reduction) for e, i in zip(extents, own, strict=True) if e > 1)
    if expected_axes != got_axes:
        yield Difference(f"axes of {block.name}", expected_axes, got_axes)
    yield from _access_differences(block, statement)


def _access_differences(block: TirBlock, statement: Statement) -> Iterator[Difference]:
    expected, got = set(_block_accesses(block)), set(_accesses(statement))
    missing = [a for a in expected if not any(_matches(a, b) for b in got)]
    surplus = [b for b in got if not any(_matches(a, b) for a in expected)]
    if missing or surplus:
        yield Difference(f"accesses of {block.name}", _listed(missing), _listed(surplus))


def _buffer_differences(built: Realised, predicted: Prediction, *, is_gpu: bool) -> Iterator[Difference]:
    allocated = (
        pipelined_buffers(built.checked or built.mod) if is_gpu else compacted_buffers(built.mod, is_gpu=False)
    )
    expected = sorted((_label(b.name), b.scope, b.dtype, b.n_elements) for b in allocated)
    own = [b for b in predicted.nest.buffers.values() if not b.is_argument]
    sizes = predicted(*(buffer.stored_elements for buffer in own))
    got = sorted((_label(b.name), b.scope, b.dtype, size) for b, size in zip(own, sizes, strict=True))
    if expected != got:
        yield Difference("buffers", [b for b in expected if b not in got], [b for b in got if b not in expected])


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


def _block_accesses(block: TirBlock) -> Iterator[_Touch]:
    # A reduction with its init reads what it writes, though its signature does not say so.
    reads = (*block.reads, *(block.writes if block.has_init else ()))
    for accesses, is_write in ((reads, False), (block.writes, True)):
        for access in accesses:
            starts = (None if s is None else (s.coefficients, s.constant) for s in access.starts)
            yield _label(access.buffer), is_write, tuple(zip(starts, access.extents, strict=True))


def _accesses(statement: Statement) -> Iterator[_Touch]:
    names = [iterator.name for iterator in statement.iterators]
    for access in statement.accesses:
        dimensions: list[_Dimension] = []
        for index in access.indices:
            named = tuple(sorted((names[i], c) for i, c in index.coefficients or () if c))
            dimensions.append((None if index.coefficients is None else (named, index.offset), index.width))
        yield _label(access.buffer), access.is_write, tuple(dimensions)


def _matches(expected: _Touch, got: _Touch) -> bool:
    """Whether an access is the predicted one; where TVM's index is not affine any prediction will do."""
    if expected[:2] != got[:2] or len(expected[2]) != len(got[2]):
        return False
    return all(a[0] is None or a == b for a, b in zip(expected[2], got[2], strict=True))


def _label(name: str) -> str:
    """A buffer's name as TVM prints it: ``C.rf`` is shown as ``C_rf``."""
    return name.replace(".", "_")


def _listed(touches: Iterable[_Touch]) -> list[str]:
    return sorted(f"{'write' if is_write else 'read'} {name}{list(where)}" for name, is_write, where in touches)
