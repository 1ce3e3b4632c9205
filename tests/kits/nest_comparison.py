"""Predicted loop nests against the nests that TVM built: the first difference, readably."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from kits.oracle import Realised
from kits.tiled import untiled
from kits.touches import label, listed, matches, touched_by_block, touched_by_statement

from prune_engine.candidates import CandidateBatch
from prune_engine.errors import SpaceError
from prune_engine.metaschedule.gpu_check import why_not
from prune_engine.metaschedule.interpreter.check import KIND_NAMES, MERGED, Shape, merged
from prune_engine.metaschedule.tir_lowered import compacted_buffers, pipelined_buffers
from prune_engine.metaschedule.tir_nest import TirBlock, TirIter, TirNest, read_nest
from prune_engine.symbols.evaluate import evaluate
from prune_engine.symbols.expr import Expr, as_expr
from prune_engine.symbols.loop_nest import LoopKind, Statement

#: Points of the loops at which accesses are compared.
_N_POINTS = 5
_UNROLL = ("pragma_auto_unroll_max_step", "pragma_unroll_explicit")


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
    # The prediction may hold more: iterators that an index is made of.
    own = {iterator.name: iterator for iterator in statement.iterators}
    for axis in own_axes(nest, block):
        iterator = own.get(axis.name)
        got_axis = None if iterator is None else (*predicted(as_expr(iterator.extent)), iterator.is_reduction)
        if got_axis != (axis.extent, axis.kind == "R"):
            yield Difference(f"axis {axis.name} of {block.name}", (axis.extent, axis.kind == "R"), got_axis)
    if expected == got:
        yield from _access_differences(nest, block, statement, predicted)


def _access_differences(
    nest: TirNest, block: TirBlock, statement: Statement, predicted: Prediction
) -> Iterator[Difference]:
    """Where the two touch other elements while the loops stand at the same point; a few points are tried."""
    rng = np.random.default_rng(len(block.name))
    extents = predicted(*(loop.extent for loop in statement.loops))
    kinds = [KIND_NAMES[LoopKind(k)] for k in predicted(*(as_expr(loop.kind) for loop in statement.loops))]
    shape = merged((loop.extent, loop.kind) for loop in block.loops)
    for _ in range(_N_POINTS):
        point = [int(rng.integers(extent)) for extent, _ in shape]
        predicted_at = spread(point, list(zip(extents, kinds, strict=True)))
        built_at = spread(point, [(loop.extent, loop.kind) for loop in block.loops])
        touched = touched_by_block(nest, block, built_at)
        if touched is None:  # left over of an imperfect split: nothing runs there
            continue
        expected = set(untiled(touched, {label(b.name): b.shape for b in nest.buffers}))
        got = set(touched_by_statement(statement, predicted_at, predicted))
        missing = [a for a in expected if not any(matches(a, b) for b in got)]
        surplus = [b for b in got if not any(matches(a, b) for a in expected)]
        if missing or surplus:
            yield Difference(
                f"accesses of {block.name} at {point} of {shown(shape)}", listed(missing), listed(surplus)
            )
            return


def _buffer_differences(built: Realised, predicted: Prediction, *, is_gpu: bool) -> Iterator[Difference]:
    try:
        allocated = pipelined_buffers(built.checked) if is_gpu else compacted_buffers(built.mod, is_gpu=False)
    except SpaceError:
        if built.is_legal:
            raise
        return  # it cannot be lowered, which is why it is refused
    expected = sorted(
        # Reductions across threads get places of their own when they are lowered.
        (label(b.name), b.scope, b.dtype, b.n_elements)
        for b in allocated
        if not b.name.startswith(("cross_thread_", "in_thread_"))
    )
    own = [b for b in predicted.nest.buffers.values() if not b.is_argument]
    sizes = predicted(*(buffer.stored_elements for buffer in own))
    got = sorted((label(b.name), b.scope, b.dtype, size) for b, size in zip(own, sizes, strict=True))
    if expected != got:
        yield Difference("buffers", [b for b in expected if b not in got], [b for b in got if b not in expected])


def spread(point: Sequence[int], loops: Shape) -> list[int]:
    """The values of all loops where the merged ones have those of ``point``."""
    values, remaining = [0] * len(loops), list(point)
    significant = [number for number, (extent, _) in enumerate(loops) if extent > 1]
    while significant:
        kind = loops[significant[0]][1]
        n_joined = 1
        while kind in MERGED and n_joined < len(significant) and loops[significant[n_joined]][1] == kind:
            n_joined += 1
        flat = remaining.pop(0)
        for number in reversed(significant[:n_joined]):
            flat, values[number] = divmod(flat, loops[number][0])
        significant = significant[n_joined:]
    return values


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
