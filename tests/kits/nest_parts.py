"""What loop nests made by hand are put together from: variables, buffers, statements, indices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from prune_engine.space import Int32Array, Sketch, Variable, VariableKind, perfect_tile_table
from prune_engine.symbols.evaluate import TableValues
from prune_engine.symbols.expr import Expr, ExprLike, as_expr, part, product
from prune_engine.symbols.loop_nest import Access, Buffer, Index, Iterator, Loop, LoopNest, Role, Statement, Term
from prune_engine.symbols.structure import NestGroup, canonical_by_nests

UNROLL = (0, 16, 64, 512)


@dataclass(frozen=True)
class FixedNest:
    """A NestSource of one structure."""

    nest: LoopNest
    tables: TableValues

    def canonical(self, indices: Int32Array) -> NDArray[np.bool_]:
        return canonical_by_nests(self, indices)

    def groups(self, indices: Int32Array) -> Sequence[NestGroup]:
        return [NestGroup(self.nest, None)]


@dataclass
class Builder:
    """Variables of a sketch, the buffers and statements of its nest."""

    variables: list[Variable] = field(default_factory=list)
    buffers: dict[str, Buffer] = field(default_factory=dict)
    statements: list[Statement] = field(default_factory=list)

    def tile(self, name: str, extent: int, parts: int, limit: int = 64) -> list[Expr]:
        """A perfect tile; its factors, outermost first."""
        self.variables.append(Variable.of(name, VariableKind.TILE, perfect_tile_table(extent, parts, limit)))
        return [part(len(self.variables) - 1, n) for n in range(parts)]

    def choice(self, name: str, values: Sequence[int]) -> Expr:
        """One of some values."""
        table = np.array([[v] for v in values], dtype=np.int32)
        self.variables.append(Variable.of(name, VariableKind.CATEGORICAL, table))
        return part(len(self.variables) - 1, 0)

    def buffer(
        self,
        name: str,
        shape: Sequence[int],
        scope: str = "global",
        stored: ExprLike | None = None,
        dtype: str = "f4",
    ) -> None:
        size = int(np.prod(shape))
        item = int(dtype[1:])
        is_argument = scope == "global" and stored is None
        self.buffers[name] = Buffer(
            name, scope, dtype, item, tuple(shape), is_argument, as_expr(size if stored is None else stored)
        )

    def statement(
        self,
        name: str,
        role: Role,
        loops: Sequence[tuple[str, ExprLike, ExprLike]],
        iterators: Sequence[Iterator],
        accesses: Sequence[Access],
        *,
        flop_count: int = 0,
        unroll: ExprLike = 0,
        shared: int = 0,
    ) -> None:
        made = tuple(Loop(n, as_expr(extent), as_expr(kind)) for n, extent, kind in loops)
        self.statements.append(
            Statement(
                name,
                role,
                made,
                tuple(iterators),
                tuple(accesses),
                flop_count,
                as_expr(unroll),
                n_shared_with_previous=shared,
            )
        )

    def nest(self, *, is_refused: ExprLike = 0) -> LoopNest:
        return LoopNest(tuple(self.statements), self.buffers, as_expr(is_refused), as_expr(1))

    def sketch(self, nest: LoopNest) -> Sketch:
        sketch = Sketch(0, "hand-made", tuple(self.variables))
        return replace(sketch, nests=FixedNest(nest, TableValues(sketch)))


def tiled(name: str, factors: Sequence[Expr], loops: Sequence[int], is_reduction: bool = False) -> Iterator:
    """An iterator split into plain loops: ``loops[n]`` runs over ``factors[n]``, outermost first."""
    terms = [
        Term(product(factors[n + 1 :]), ((loop, as_expr(1)),), as_expr(1), factors[n])
        for n, loop in enumerate(loops)
    ]
    return Iterator(name, product(factors), is_reduction, tuple(terms))


def sized(iterator: Iterator, extent: int) -> Iterator:
    """The iterator with its extent as a number."""
    return replace(iterator, extent=as_expr(extent))


def digits_of(loop: int, extents: Sequence[Expr]) -> list[Term]:
    """The digits of a fused loop over loops of these extents, outermost first, each a term of stride 1."""
    return [
        Term(as_expr(1), ((loop, as_expr(1)),), product(extents[n + 1 :]), extent)
        for n, extent in enumerate(extents)
    ]


def at(*iterators: int | tuple[int, int] | tuple[tuple[int, int], ...], offset: int = 0) -> Index:
    """An index: iterators by number, or pairs of number and coefficient, added up."""
    pairs: list[tuple[int, int]] = []
    for it in iterators:
        if isinstance(it, int):
            pairs.append((it, 1))
        else:
            pairs.append(it)  # type: ignore[arg-type]
    return Index(tuple(pairs), offset)


def read(buffer: str, *indices: Index | int) -> Access:
    return Access(buffer, tuple(at(i) if isinstance(i, int) else i for i in indices), False)


def write(buffer: str, *indices: Index | int) -> Access:
    return Access(buffer, tuple(at(i) if isinstance(i, int) else i for i in indices), True)


def split_iterator(name: str, extent: int, first_loop: int, width: Expr) -> Iterator:
    """An iterator over a loop split in two, the outer one rounded up: loops ``first_loop`` and the next."""
    over = ((first_loop, width), (first_loop + 1, as_expr(1)))
    return Iterator(name, as_expr(extent), False, (Term(as_expr(1), over, as_expr(1), as_expr(extent)),))
