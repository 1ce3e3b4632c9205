"""Sums in the untuned kernel's order: what a user may demand of floating-point results."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import combinations

import numpy as np

from prune_engine.candidates import CandidateBatch
from prune_engine.hardware.schema import HardwareProfile
from prune_engine.strategies import Rule
from prune_engine.symbols.bands import reduction_loops
from prune_engine.symbols.expr import ZERO, Expr, as_expr, both, either, product, where
from prune_engine.symbols.loop_nest import LoopKind, LoopNest, Role, Statement
from prune_engine.symbols.structure import nest_column
from prune_engine.verdicts import BoolArray, RuleKind

#: How TVM marks the statement that makes the partial sums of an ``rfactor``; the one that joins them lacks it.
_FACTORED = re.compile(r"_rf(?=_|$)")
#: Kinds of loops whose turns run one after the other.
_IN_TURN = (LoopKind.SERIAL, LoopKind.UNROLLED)


class SummationOrder(Rule):
    """A floating-point result is summed in another order than the untuned kernel's.

    Only with ``strict_fp``. The untuned kernel adds up along its reduction axes in their order, the last one
    fastest. A single axis that is split and put back in order is the same order; several whose tiles interleave,
    one that is divided among threads, lanes or partial sums (``rfactor``), and one inside a matrix instruction are
    not. What cannot be read is dropped too, as the user wants to be sure. Maxima count as sums.
    """

    name, kind, order = "rules.summation-order", RuleKind.LEGALITY, 8

    def mask(self, batch: CandidateBatch, profile: HardwareProfile) -> BoolArray:  # noqa: ARG002
        """Keep what adds up in order; bool (n,)."""
        if batch.is_opaque:
            return np.zeros(len(batch), dtype=np.bool_)
        return np.asarray(nest_column(batch, self.name, is_reordered) == 0)

    def reason(self, symbols: Mapping[str, float], profile: HardwareProfile) -> str:  # noqa: ARG002
        """Say what is demanded."""
        return "adds up in another order than the untuned kernel, or in one that cannot be read (strict_fp)"


def is_reordered(nest: LoopNest) -> Expr:
    """1 where a floating-point sum of the nest is not in the order of its reduction axes."""
    result = ZERO
    for statement in nest.statements:
        if statement.role is not Role.UPDATE or not _is_float(nest, statement):
            continue
        result = either(result, _is_out_of_order(statement))
        if _FACTORED.search(statement.name):
            result = either(result, _is_divided(nest.statements, statement))
    return result


def _is_float(nest: LoopNest, statement: Statement) -> bool:
    written = (nest.buffers[access.buffer].dtype for access in statement.accesses if access.is_write)
    return any("float" in dtype for dtype in written)


def _is_out_of_order(statement: Statement) -> Expr:
    if statement.tile is not None:
        return as_expr(int(statement.tile[2] > 1))
    result = ZERO
    adding = _adding_loops(statement)
    parts: list[tuple[int, int, Expr]] = []
    for axis, iterator in enumerate(it for it in statement.iterators if it.is_reduction):
        for term in iterator.terms:
            mine = [pair for pair in term.over if pair[0] in adding]
            if mine and (len(term.over) != 1 or term.digits or term.divisor.constant != 1):
                # A fused loop, or one that carries a digit of another: in order only where it makes one turn.
                turns = product(statement.loops[number].extent for number, _ in mine)
                result = either(result, as_expr(1).lt(turns))
                continue
            parts += [(number, axis, term.stride * stride) for number, stride in mine]
    for number, _, _ in parts:
        result = either(result, both(_turns(statement, number), _is_not_in_turn(statement, number)))
    for (outer, outer_axis, outer_stride), (inner, inner_axis, inner_stride) in combinations(
        sorted(parts, key=_depth), 2
    ):
        if outer == inner:
            continue
        is_pair = both(_turns(statement, outer), _turns(statement, inner))
        if outer_axis > inner_axis:
            result = either(result, is_pair)
        elif outer_axis == inner_axis:
            result = either(result, both(is_pair, outer_stride.lt(inner_stride)))
    return result


def _depth(part: tuple[int, int, Expr]) -> int:
    return part[0]


def _turns(statement: Statement, number: int) -> Expr:
    """1 where a loop makes more than one turn."""
    return as_expr(1).lt(statement.loops[number].extent)


def _is_not_in_turn(statement: Statement, number: int) -> Expr:
    in_turn = ZERO
    for kind in _IN_TURN:
        in_turn = either(in_turn, statement.loops[number].kind.eq(int(kind)))
    return where(in_turn, 0, 1)


def _is_divided(statements: Sequence[Statement], factored: Statement) -> Expr:
    """1 where ``rfactor`` makes several partial sums of several terms each."""
    whole = _FACTORED.sub("", factored.name)
    rest = next((s for s in statements if s.name == whole and s.role is Role.UPDATE), None)
    if rest is None:
        return as_expr(1)
    return both(as_expr(1).lt(_n_terms(factored)), as_expr(1).lt(_n_terms(rest)))


def _n_terms(statement: Statement) -> Expr:
    """How many terms one result of the statement is the sum of."""
    return product(statement.loops[number].extent for number in sorted(_adding_loops(statement)))


def _adding_loops(statement: Statement) -> frozenset[int]:
    """Loops that add to one result: those of reduction axes that move no other one."""
    spatial = {
        loop for it in statement.iterators if not it.is_reduction for term in it.terms for loop, _ in term.over
    }
    return reduction_loops(statement) - spatial
