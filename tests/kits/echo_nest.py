"""A prediction copied from what TVM built: right by construction, to be spoilt by tests of the comparison."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from kits.nest_comparison import KIND_NAMES, own_axes, unroll_steps
from kits.oracle import Realised
from kits.touches import with_parents
from numpy.typing import NDArray

from prune_engine.metaschedule.tir_lowered import compacted_buffers, pipelined_buffers
from prune_engine.metaschedule.tir_nest import TirAccess, TirBlock, TirIter, TirNest, read_nest
from prune_engine.space import Int32Array, Sketch
from prune_engine.symbols.evaluate import TableValues
from prune_engine.symbols.expr import Expr, as_expr
from prune_engine.symbols.loop_nest import Access, Buffer, Index, Iterator, Loop, LoopNest, Role, Statement, Term
from prune_engine.symbols.structure import NestGroup, canonical_by_nests

_KIND_OF = {name: kind for kind, name in KIND_NAMES.items()}


class EchoSource:
    """One nest for whatever is asked."""

    def __init__(self, sketch: Sketch, nest: LoopNest) -> None:
        self.tables = TableValues(sketch)
        self._nest = nest

    def canonical(self, indices: Int32Array) -> NDArray[np.bool_]:
        return canonical_by_nests(self, indices)

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
        iterators=tuple(
            Iterator(a.name, as_expr(a.extent), a.kind == "R", tuple(terms))
            for a, terms in zip(axes, _terms_of_axes(nest, block), strict=True)
        ),
        accesses=(
            *_accesses(block.reads, axes, False),
            *_accesses(block.writes if block.has_init else (), axes, False),
            *_accesses(block.writes, axes, True),
        ),
        flop_count=0,
        unroll_steps=as_expr(unroll_steps(block)),
    )


def _terms_of_axes(nest: TirNest, block: TirBlock) -> list[list[Term]]:
    """How each axis of a block and of those around it follows from the loops."""
    known = {_key(lo.node.loop_var): [_plain(number, lo.extent)] for number, lo in enumerate(block.loops)}
    found: list[list[Term]] = []
    for outer in with_parents(nest, block):
        for axis, binding in zip(outer.node.block.iter_vars, outer.node.iter_values, strict=True):
            known[_key(axis.var)] = list(_terms(binding, 1, known))
            found.append(known[_key(axis.var)])
    return found


def _terms(binding: Any, scale: int, known: dict[int, list[Term]]) -> Iterable[Term]:
    """The terms of ``scale * binding``: sums of variables and of digits of affine expressions."""
    kind = type(binding).__name__
    if kind == "IntImm":
        assert not int(binding.value)
    elif kind == "Add":
        yield from _terms(binding.a, scale, known)
        yield from _terms(binding.b, scale, known)
    elif kind == "Mul":
        yield from _terms(binding.a, scale * int(binding.b.value), known)
    elif kind in ("Var", "PrimVar"):
        yield from (replace(term, stride=term.stride * scale) for term in known[_key(binding)])
    else:
        divisor, modulus = 1, 2**40
        while kind in ("FloorMod", "FloorDiv"):  # from outside inwards: the value is x // divisor % modulus
            number = int(binding.b.value)
            if kind == "FloorDiv":
                divisor *= number
            else:
                assert number % divisor == 0, "a remainder that its quotient does not divide"
                modulus = min(modulus, number // divisor)
            binding = binding.a
            kind = type(binding).__name__
        over = tuple(pair for term in _terms(binding, 1, known) for pair in _flat(term))
        yield Term(as_expr(scale), over, as_expr(divisor), as_expr(modulus))


def _flat(term: Term) -> Iterable[tuple[int, Expr]]:
    assert term.divisor.constant == 1, "a digit of a digit"
    return ((number, flat * term.stride) for number, flat in term.over)


def _plain(number: int, extent: int) -> Term:
    return Term(as_expr(1), ((number, as_expr(1)),), as_expr(1), as_expr(extent))


def _key(variable: Any) -> int:
    return int(variable.__chandle__())


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
