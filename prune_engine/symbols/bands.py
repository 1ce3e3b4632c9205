"""Places in a loop nest that symbols speak of: the main statement, launched kernels, and the bands of a tiling.

A *band* is a depth at which data can live in some memory. On CPUs: the chunk that one turn of the parallel
loops works on (last-level cache), the outermost reduction tile in it (second level) and the innermost tile
with its reduction (first level). On GPUs the chunk is a block.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from functools import lru_cache

from prune_engine.symbols.expr import Expr, as_expr, either, where
from prune_engine.symbols.loop_nest import (
    BLOCK_KINDS,
    THREAD_KINDS,
    Loop,
    LoopKind,
    LoopNest,
    Role,
    Statement,
)

#: Kinds whose turns run side by side on different cores (SMs), sharing nothing but the last cache.
OUTER_KINDS = (LoopKind.PARALLEL, *BLOCK_KINDS)


def domain_flops(statement: Statement) -> int:
    """Operations of the statement without padding or repetition: a number, the same for all candidates.

    An axis whose extent is a decision (a reduction split in two) counts as 1, and so does a step without
    arithmetic (a maximum).
    """
    return max(statement.flop_count, 1) * _domain(statement)


def main_statement(nest: LoopNest) -> int:
    """The number of the statement that a tiling is about.

    It is the reduction step with most operations, or else the statement with most instances; of equals the
    first. Raises ValueError for a nest without statements.
    """
    updates = [n for n, s in enumerate(nest.statements) if s.role is Role.UPDATE]
    if updates:
        return max(updates, key=lambda n: domain_flops(nest.statements[n]))
    return max(range(len(nest.statements)), key=lambda n: _domain(nest.statements[n]))


def kernels(nest: LoopNest) -> tuple[range, ...]:
    """The statements of each loop tree at the root: what is launched (or forked) as one, in order."""
    starts = [n for n, s in enumerate(nest.statements) if n == 0 or s.n_shared_with_previous == 0]
    return tuple(map(range, starts, [*starts[1:], len(nest.statements)]))


def kernel_of(nest: LoopNest, number: int) -> range:
    """The statements of the loop tree that statement ``number`` is in."""
    return next(kernel for kernel in kernels(nest) if number in kernel)


def together_at(nest: LoopNest, number: int, depth: int) -> range:
    """The statements that run in one turn of the ``depth`` outermost loops of statement ``number``, with it."""
    first, last = number, number
    while first > 0 and depth and nest.statements[first].n_shared_with_previous >= depth:
        first -= 1
    while last + 1 < len(nest.statements) and depth and nest.statements[last + 1].n_shared_with_previous >= depth:
        last += 1
    return range(first, last + 1) if depth else kernel_of(nest, number)


def reduction_loops(statement: Statement) -> frozenset[int]:
    """Numbers of the loops that carry a reduction iterator."""
    return frozenset(
        loop for it in statement.iterators if it.is_reduction for term in it.terms for loop, _ in term.over
    )


def inner_tile_depth(statement: Statement) -> int:
    """The depth of the innermost tile with its reduction: from the last run of reduction loops inwards.

    Without a reduction it is the innermost loop.
    """
    runs = _reduction_runs(statement)
    return runs[-1] if runs else max(len(statement.loops) - 1, 0)


def reduction_depth(statement: Statement) -> int:
    """The depth of the whole reduction: from the first reduction loop inwards.

    Without a reduction it is what lies inside the loops that may run in parallel.
    """
    runs = _reduction_runs(statement)
    if runs:
        return runs[0]
    outer = [n for n, loop in enumerate(statement.loops) if possible_kinds(loop.kind) & set(OUTER_KINDS)]
    return min(outer[-1] + 1 if outer else 0, inner_tile_depth(statement))


def in_chunk(statement: Statement, value: Callable[[int], Expr]) -> Expr:
    """``value(depth)`` at the depth right inside the last loop that runs in parallel or over blocks (0: none).

    That depth differs between candidates where a loop's kind does.
    """
    result = value(0)
    for number, loop in enumerate(statement.loops):
        kinds = possible_kinds(loop.kind)
        if not kinds & set(OUTER_KINDS):
            continue
        inside = value(number + 1)
        result = inside if kinds <= set(OUTER_KINDS) else where(is_kind(loop, OUTER_KINDS), inside, result)
    return result


def repeated_axes(statement: Statement) -> frozenset[int]:
    """Loops over a thread axis that a loop further in is bound to as well: both are the same threads."""
    seen: set[int] = set()
    repeated = []
    for number in reversed(range(len(statement.loops))):
        kind = statement.loops[number].kind.constant
        if kind in THREAD_KINDS or kind in BLOCK_KINDS:
            if kind in seen:
                repeated.append(number)
            seen.add(int(kind))
    return frozenset(repeated)


def possible_kinds(kind: Expr) -> frozenset[LoopKind]:
    """The kinds that a loop may be of, as far as the expression's form tells."""
    known = kind.constant
    return _ONE_KIND[known] if known is not None else _kinds_of(kind)


_ONE_KIND = {int(kind): frozenset({kind}) for kind in LoopKind}


@lru_cache(maxsize=1 << 12)
def _kinds_of(kind: Expr) -> frozenset[LoopKind]:
    found: set[LoopKind] = set()
    seen: set[Expr] = set()
    waiting = [kind]
    while waiting:
        one = waiting.pop()
        if one in seen:
            continue
        seen.add(one)
        if one.constant is not None:
            found.add(LoopKind(one.constant))
        elif one.op == "where":
            waiting.extend(one.args[1:])
        else:
            return frozenset(LoopKind)
    return frozenset(found)


def is_kind(loop: Loop, kinds: Collection[LoopKind]) -> Expr:
    """1 where the loop is of one of these kinds."""
    possible = possible_kinds(loop.kind)
    if possible <= set(kinds):
        return as_expr(1)
    condition = as_expr(0)
    for kind in sorted(possible & set(kinds)):
        condition = either(condition, loop.kind.eq(int(kind)))
    return condition


def _domain(statement: Statement) -> int:
    return math.prod(it.extent.constant or 1 for it in statement.iterators)


def _reduction_runs(statement: Statement) -> list[int]:
    """Where each run of reduction loops begins; loops of extent 1 and such that carry nothing do not end one."""
    reducing = reduction_loops(statement)
    spatial = {
        loop for it in statement.iterators if not it.is_reduction for term in it.terms for loop, _ in term.over
    }
    starts: list[int] = []
    is_open = False
    for number, loop in enumerate(statement.loops):
        if loop.extent.constant == 1:
            continue
        if number in reducing:
            if not is_open:
                starts.append(number)
            is_open = True
        elif number in spatial:
            is_open = False
    return starts
