"""A prediction copied from what TVM built: right by construction, to be spoilt by tests of the comparison."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kits.nest_comparison import KIND_NAMES, own_axes, unroll_steps
from kits.oracle import Realised

from prune_engine.metaschedule.tir_lowered import compacted_buffers, pipelined_buffers
from prune_engine.metaschedule.tir_nest import TirAccess, TirBlock, TirIter, TirNest, read_nest
from prune_engine.space import Int32Array, Sketch
from prune_engine.symbols.evaluate import TableValues
from prune_engine.symbols.expr import as_expr
from prune_engine.symbols.loop_nest import Access, Buffer, Index, Iterator, Loop, LoopNest, Role, Statement
from prune_engine.symbols.structure import NestGroup

_KIND_OF = {name: kind for kind, name in KIND_NAMES.items()}


class EchoSource:
    """One nest for whatever is asked."""

    def __init__(self, sketch: Sketch, nest: LoopNest) -> None:
        self.tables = TableValues(sketch)
        self._nest = nest

    def groups(self, indices: Int32Array) -> Sequence[NestGroup]:
        return [NestGroup(self._nest, None)]


def echo(built: Realised, *, is_gpu: bool) -> LoopNest:
    """The loop nest of a built candidate, all its numbers constants."""
    nest = read_nest(built.mod)
    allocated = pipelined_buffers(built.checked) if is_gpu else compacted_buffers(built.mod, is_gpu=False)
    buffers = {
        b.name: Buffer(b.name, b.scope, b.dtype, 4, b.shape, False, as_expr(b.n_elements)) for b in allocated
    }
    statements = tuple(_statement(nest, block) for block in nest.blocks if block.is_leaf)
    return LoopNest(statements, buffers, as_expr(int(not built.is_legal)), as_expr(int(not built.is_repaired)))


def _statement(nest: TirNest, block: TirBlock) -> Statement:
    axes: list[TirIter] = list(own_axes(nest, block))
    return Statement(
        name=block.name,
        role=Role.COMPUTE,
        loops=tuple(Loop(lo.var, as_expr(lo.extent), as_expr(int(_KIND_OF[lo.kind]))) for lo in block.loops),
        iterators=tuple(Iterator(a.name, as_expr(a.extent), a.kind == "R", ()) for a in axes),
        accesses=(
            *_accesses(block.reads, axes, False),
            *_accesses(block.writes if block.has_init else (), axes, False),
            *_accesses(block.writes, axes, True),
        ),
        flop_count=0,
        unroll_steps=as_expr(unroll_steps(block)),
    )


def _accesses(accesses: Iterable[TirAccess], axes: list[TirIter], is_write: bool) -> Iterable[Access]:
    numbers = {axis.name: number for number, axis in enumerate(axes)}
    for access in accesses:
        yield Access(
            access.buffer,
            tuple(
                Index(None, 0, extent or 0)
                if start is None
                else Index(tuple((numbers[n], c) for n, c in start.coefficients), start.constant, extent or 0)
                for start, extent in zip(access.starts, access.extents, strict=True)
            ),
            is_write,
        )
