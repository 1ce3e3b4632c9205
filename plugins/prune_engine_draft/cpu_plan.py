"""What of a loop nest the CPU draft reads: which loops move which buffers, found once per structure.

Everything that differs between candidates is one column per loop (its extent, its kind where that differs, the
unroll limit). The rest is structure. A tiled iterator's span from some depth inwards is then the product of the
extents of its loops there: exact for perfect tiles.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from prune_engine.symbols.bands import kernel_of, possible_kinds, reduction_loops
from prune_engine.symbols.expr import Expr
from prune_engine.symbols.footprint import indexing_loops
from prune_engine.symbols.loop_nest import Access, LoopKind, LoopNest, Role, Statement
from prune_engine.symbols.statement import last_dimension_iterators

Float32Array = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Term:
    """One digit of an iterator: the loops that count it; a digit of a fused loop has a divisor and a modulus."""

    loops: tuple[int, ...]
    divisor: int
    modulus: int | None


@dataclass(frozen=True, slots=True)
class Reach:
    """One dimension of an access: iterators with the size of their step, elements from there, and the dimension."""

    iterators: tuple[tuple[int, int], ...]
    width: int
    size: int
    is_affine: bool


@dataclass(frozen=True, slots=True)
class AccessPlan:
    """An access: its dimensions, the loops that move it, and how it follows each of those.

    ``along`` are loops through consecutive elements, ``apart`` others that move it.
    """

    buffer: str
    dimensions: tuple[Reach, ...]
    moving: frozenset[int]
    along: frozenset[int]
    apart: frozenset[int]
    is_write: bool
    is_result: bool


@dataclass(frozen=True, slots=True)
class BufferPlan:
    """All that a statement does with one buffer. ``strides`` in bytes, of all dimensions but the last."""

    name: str
    accesses: tuple[AccessPlan, ...]
    item_bytes: int
    directions: int
    strides: tuple[int, ...]
    is_argument: bool
    moving: frozenset[int]


@dataclass(frozen=True, slots=True)
class StatementPlan:
    """A statement without its loops of one turn. ``..._columns`` say where its columns are among the nest's.

    ``auto`` gives for each loop that runs along the output's last dimension the loops further in that do so too.
    Where a reduction's results go to a buffer of the kernel's own, ``results_from`` is the depth from which loops
    move them within what is left of it when it is compacted; elsewhere it is -1.
    """

    statement: Statement
    n_loops: int
    kinds: tuple[LoopKind | None, ...]
    terms: tuple[tuple[Term, ...], ...]
    extents: tuple[int | None, ...]
    buffers: tuple[BufferPlan, ...]
    reducing: frozenset[int]
    #: Loops that move nothing: what is inside is done again.
    idle: frozenset[int]
    auto: dict[int, tuple[int, ...]]
    extent_columns: tuple[int, ...]
    unroll_column: int
    #: One object for all statements, of whatever structures, that are drafted alike when their columns are equal.
    likeness: object
    #: Statements of the same kernel, and the depth down to which they run in the same loops.
    others: tuple[tuple[int, int], ...] = ()
    is_first_of_kernel: bool = False
    #: Whether it is a reduction that reads past the edges of a buffer: its reads are then behind a condition.
    is_guarded: bool = False
    item_bytes: int = 4
    dtypes: tuple[str, ...] = ()
    #: Loops whose kind differs between candidates -> the column that says which it is.
    kind_columns: dict[int, int] = field(default_factory=dict)
    results_from: int = -1
    #: Per statement that reads the results: its loops that may be vectorised, as columns of extent and of kind
    #: (None where it is vectorised for all candidates).
    readers: tuple[tuple[tuple[int, int | None], ...], ...] = ()


@dataclass(frozen=True, slots=True)
class NestPlan:
    """All statements, and the expressions whose columns they read."""

    statements: tuple[StatementPlan, ...]
    exprs: tuple[Expr, ...]


@lru_cache(maxsize=4096)
def plan_of(nest: LoopNest) -> NestPlan:
    """Read a nest. A nest is equal only to itself, so this is done once for each."""
    places: dict[Expr, int] = {}
    plans = [_statement(nest, number, places) for number in range(len(nest.statements))]
    return NestPlan(tuple(plans), tuple(places))


def _statement(nest: LoopNest, number: int, places: dict[Expr, int]) -> StatementPlan:
    """Read one statement. ``places`` numbers the expressions that are wanted, and is added to."""

    def column(expr: Expr) -> int:
        return places.setdefault(expr, len(places))

    statement = nest.statements[number]
    kept = [d for d, loop in enumerate(statement.loops) if loop.extent.constant != 1]
    place = {d: k for k, d in enumerate(kept)}
    kinds: list[LoopKind | None] = []
    kind_columns: dict[int, int] = {}
    for k, d in enumerate(kept):
        possible = possible_kinds(statement.loops[d].kind)
        kinds.append(next(iter(possible)) if len(possible) == 1 else None)
        if len(possible) > 1:
            kind_columns[k] = column(statement.loops[d].kind)
    terms = tuple(
        tuple(
            Term(
                tuple(place[d] for d, _ in term.over if d in place),
                term.divisor.constant or 1,
                term.modulus.constant if len(term.over) > 1 or term.divisor.constant != 1 else None,
            )
            for term in it.terms
        )
        for it in statement.iterators
    )
    last = last_dimension_iterators(nest, statement)
    along = [[place[d] for t in statement.iterators[n].terms for d, _ in t.over if d in place] for n in last]
    buffers = _buffers(nest, statement, place)
    others = _others(nest, number, kept)
    apart = frozenset[int]().union(*(a.apart for b in buffers for a in b.accesses))
    auto = {d: tuple(k for k in loops if k > d) for loops in along for d in loops if d not in apart}
    is_guarded = statement.role is Role.UPDATE and any(_leaves(nest, statement, a) for a in statement.accesses)
    extents = tuple(it.extent.constant for it in statement.iterators)
    reducing = frozenset(place[d] for d in reduction_loops(statement) if d in place)
    is_first = kernel_of(nest, number).start == number
    reading = _reading(nest, statement, buffers, others)
    item_bytes = max(nest.buffers[access.buffer].item_bytes for access in statement.accesses)
    dtypes = tuple({nest.buffers[a.buffer].dtype for a in statement.accesses if not a.is_write})
    does = statement.role, statement.flop_count, statement.call_count, statement.tile, is_guarded, is_first
    likeness = _one_of(
        (*does, tuple(kinds), terms, extents, buffers, reducing, tuple(auto.items()), item_bytes, frozenset(dtypes))
    )
    return StatementPlan(
        statement=statement,
        n_loops=len(kept),
        kinds=tuple(kinds),
        terms=terms,
        extents=extents,
        buffers=buffers,
        idle=frozenset(range(len(kept))).difference(*(b.moving for b in buffers)),
        reducing=reducing,
        auto=auto,
        extent_columns=tuple(column(statement.loops[d].extent) for d in kept),
        unroll_column=column(statement.unroll_steps),
        likeness=likeness,
        others=others,
        is_first_of_kernel=is_first,
        is_guarded=is_guarded,
        item_bytes=item_bytes,
        dtypes=dtypes,
        kind_columns=kind_columns,
        results_from=min((depth for _, depth in reading), default=-1),
        readers=tuple(_vectors(nest.statements[other], column) for other, _ in reading),
    )


@lru_cache(maxsize=1 << 14)
def _one_of(description: tuple[object, ...]) -> object:  # noqa: ARG001 - what it is remembered by
    """One object for all equal descriptions: those are long, so they are hashed once per statement."""
    return object()


def _leaves(nest: LoopNest, statement: Statement, access: Access) -> bool:
    """Whether the box of an access, over the whole of its iterators, is larger than the buffer: padding."""
    for index, size in zip(access.indices, nest.buffers[access.buffer].shape, strict=True):
        if index.coefficients is None or not size:
            continue
        ends = [(c, (statement.iterators[n].extent.constant or 1) - 1) for n, c in index.coefficients]
        first = index.offset + sum(min(c, 0) * last for c, last in ends)
        past = index.offset + sum(max(c, 0) * last for c, last in ends) + index.width
        if first < 0 or past > size:
            return True
    return False


def _others(nest: LoopNest, number: int, kept: Sequence[int]) -> tuple[tuple[int, int], ...]:
    """Statements of the kernel with the number of (kept) loops that they share with this one."""
    found = []
    for other in kernel_of(nest, number):
        if other == number:
            continue
        between = nest.statements[min(number, other) + 1 : max(number, other) + 1]
        shared = min(s.n_shared_with_previous for s in between)
        theirs = nest.statements[other].loops
        of_theirs = sum(loop.extent.constant != 1 for loop in theirs[:shared])
        found.append((other, min(sum(d < shared for d in kept), of_theirs)))
    return tuple(found)


def _reading(
    nest: LoopNest, statement: Statement, buffers: Sequence[BufferPlan], others: Sequence[tuple[int, int]]
) -> list[tuple[int, int]]:
    """Who reads a reduction's results, and the loops that both share; nobody where those are an argument."""
    if statement.role is not Role.UPDATE:
        return []
    own = [b.name for b in buffers if not b.is_argument and any(access.is_result for access in b.accesses)]
    return [
        (other, depth)
        for other, depth in others
        if nest.statements[other].role is not Role.INIT
        and any(access.buffer in own for access in nest.statements[other].accesses)
    ]


def _vectors(statement: Statement, column: Callable[[Expr], int]) -> tuple[tuple[int, int | None], ...]:
    """Columns of the extents of loops that may be vectorised, and of their kinds where these differ."""
    found = []
    for loop in statement.loops:
        possible = possible_kinds(loop.kind)
        if LoopKind.VECTORIZED in possible and loop.extent.constant != 1:
            found.append((column(loop.extent), None if len(possible) == 1 else column(loop.kind)))
    return tuple(found)


def _buffers(nest: LoopNest, statement: Statement, place: dict[int, int]) -> tuple[BufferPlan, ...]:
    by_buffer: dict[str, list[AccessPlan]] = {}
    for access in statement.accesses:
        by_buffer.setdefault(access.buffer, []).append(_access(nest, statement, access, place))
    found = []
    for name, accesses in by_buffer.items():
        buffer = nest.buffers[name]
        sizes = [size or 1 for size in buffer.shape]
        strides = tuple(math.prod(sizes[d + 1 :]) * buffer.item_bytes for d in range(len(sizes) - 1))
        directions = int(any(a.is_write for a in accesses)) + int(any(not a.is_write for a in accesses))
        moving = frozenset[int]().union(*(a.moving for a in accesses))
        found.append(
            BufferPlan(name, tuple(accesses), buffer.item_bytes, directions, strides, buffer.is_argument, moving)
        )
    return tuple(found)


def _access(nest: LoopNest, statement: Statement, access: Access, place: dict[int, int]) -> AccessPlan:
    sizes = [size or 1 for size in nest.buffers[access.buffer].shape]
    dimensions = tuple(
        Reach(
            tuple((n, abs(c)) for n, c in index.coefficients or () if c),
            index.width,
            size,
            index.coefficients is not None,
        )
        for index, size in zip(access.indices, sizes, strict=True)
    )
    moving = frozenset(place[d] for d in indexing_loops(statement, access) if d in place)
    inner = next((r for r in reversed(dimensions) if r.size != 1 and r.iterators), None)
    along: set[int] = set()
    if inner is not None and all(r.is_affine for r in dimensions):
        for n, step in inner.iterators:
            if step == 1:
                along |= {place[d] for t in statement.iterators[n].terms for d, _ in t.over if d in place}
    written = {a.buffer for a in statement.accesses if a.is_write}
    is_result = statement.role is Role.UPDATE and not access.is_write and access.buffer in written
    return AccessPlan(
        access.buffer, dimensions, moving, frozenset(along), moving - along, access.is_write, is_result
    )
