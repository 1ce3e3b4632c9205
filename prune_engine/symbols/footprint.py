"""What a statement touches of a buffer while some of its loops run: boxes, elements, bytes, contiguous runs.

A *depth* d is a place in a statement's loop order: loops 0 .. d-1 stand still, loops d .. run. Depth 0 is the
whole statement, depth ``len(loops)`` one instance. Regions are boxes: the hull, per dimension, of what is
touched. A hull is exact for loops split into perfect tiles; where a fused loop is cut so that a digit of it does
not come out even, it is an upper bound.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from functools import partial

from prune_engine.symbols.expr import Expr, as_expr, ceildiv, either, factors, minimum, product, total, where
from prune_engine.symbols.loop_nest import Access, Buffer, Index, LoopNest, Statement, Term
from prune_engine.symbols.loop_nest import Iterator as NestIterator

#: Numbers of the loops that run.
Loops = Collection[int]


@dataclass(frozen=True, slots=True)
class Region:
    """The box of a buffer that one statement touches: ``elements`` of it, at most the whole buffer."""

    buffer: Buffer
    elements: Expr
    is_read: bool
    is_written: bool

    @property
    def bytes(self) -> Expr:
        """Its size."""
        return self.elements * self.buffer.item_bytes


def loops_from(statement: Statement, depth: int) -> Loops:
    """The loops that run at a depth."""
    return frozenset(range(depth, len(statement.loops)))


def regions(nest: LoopNest, statement: Statement, running: Loops) -> tuple[Region, ...]:
    """What is touched of each buffer while the loops ``running`` run: one region per buffer, in order of use.

    Accesses that differ only in their offsets (a stencil) count as one box; others of the same buffer are
    added up, to at most the whole buffer.
    """
    found, running = [], frozenset(running)
    for name, accesses in _by_buffer(statement.accesses):
        buffer = nest.buffers[name]
        elements = remembered_of(
            statement,
            ("box", name, buffer.shape, running),
            partial(_elements, statement, accesses, buffer, running),
        )
        found.append(
            Region(buffer, elements, any(not a.is_write for a in accesses), any(a.is_write for a in accesses))
        )
    return tuple(found)


def footprint_bytes(nest: LoopNest, statement: Statement, depth: int) -> Expr:
    """Bytes of all buffers that the statement touches while the loops from ``depth`` inwards run."""
    return total(region.bytes for region in regions(nest, statement, loops_from(statement, depth)))


def distinct_elements(nest: LoopNest, statement: Statement, access: Access, running: Loops) -> Expr:
    """How many different elements an access reaches: as its box, but without the gaps that strides leave."""
    return product(
        _whole(size) if index.coefficients is None else _within(_distinct(statement, index, running), size)
        for index, size in zip(access.indices, nest.buffers[access.buffer].shape, strict=True)
    )


def contiguous_elements(nest: LoopNest, statement: Statement, access: Access, running: Loops) -> Expr:
    """Length of a run of consecutive elements that an access touches while the loops ``running`` run.

    A run goes on into the next dimension where the inner one is touched as a whole.
    """
    shape = nest.buffers[access.buffer].shape
    run = as_expr(1)
    is_whole = as_expr(1)
    for index, size in zip(reversed(access.indices), reversed(shape), strict=True):
        length = _whole(size) if index.coefficients is None else _within(_unbroken(statement, index, running), size)
        run = run * where(is_whole, length, 1)
        is_whole = is_whole * length.eq(size)
        if is_whole.constant == 0:
            break
    return _limited_by_turns(statement, [access], run, running)


def span(statement: Statement, iterator: int, running: Loops) -> Expr:
    """How far an iterator goes while the loops ``running`` run: its last value less its first, plus 1."""
    it = statement.iterators[iterator]
    own = _own_loops(it, running)
    return remembered_of(
        statement,
        ("span", iterator, own),
        lambda: minimum(
            total(term.stride * (_digits(statement, term, own) - 1) for term in it.terms) + 1, it.extent
        ),
    )


def values(statement: Statement, iterator: int, running: Loops) -> Expr:
    """How many different values an iterator takes while the loops ``running`` run (at most)."""
    it = statement.iterators[iterator]
    own = _own_loops(it, running)
    return remembered_of(
        statement,
        ("values", iterator, own),
        lambda: minimum(product(_digit_values(statement, term, own) for term in it.terms), it.extent),
    )


def indexing_loops(statement: Statement, access: Access) -> frozenset[int]:
    """The loops that an access follows: with another value of such a loop it may touch something else."""
    used: set[int] = set()
    for index in access.indices:
        if index.coefficients is None:
            used.update(range(len(statement.iterators)))
        else:
            used.update(number for number, coefficient in index.coefficients if coefficient)
    return frozenset(
        loop
        for number in used
        for term in statement.iterators[number].terms
        for loop, _ in term.over
        if term.modulus.constant != 1
    )


def remembered(nest: LoopNest, key: str, make: Callable[[], Expr]) -> Expr:
    """An expression over a nest, made once. Formulas ask for the same regions again and again."""
    if key not in nest.formulas:
        nest.formulas[key] = make()
    return nest.formulas[key]


def remembered_of(statement: Statement, key: object, make: Callable[[], Expr]) -> Expr:
    """An expression over a statement's loops and accesses, made once for all that are like it."""
    found = statement.formulas.get(key)
    if found is None:
        found = statement.formulas[key] = make()
    return found


def _own_loops(iterator: NestIterator, running: Loops) -> Loops:
    return frozenset(loop for term in iterator.terms for loop, _ in term.over if loop in running)


def _elements(statement: Statement, accesses: list[Access], buffer: Buffer, running: Loops) -> Expr:
    boxes = []
    for alike in _alike(accesses):
        box = product(_box(statement, alike, buffer, running))
        boxes.append(_limited_by_turns(statement, alike, box, running))
    return boxes[0] if len(boxes) == 1 else _within(total(boxes), math.prod(buffer.shape))


def _by_buffer(accesses: Iterable[Access]) -> Iterator[tuple[str, list[Access]]]:
    grouped: dict[str, list[Access]] = {}
    for access in accesses:
        grouped.setdefault(access.buffer, []).append(access)
    yield from grouped.items()


def _alike(accesses: Iterable[Access]) -> Iterable[list[Access]]:
    """Accesses of one buffer, those together that differ only in offsets and widths."""
    grouped: dict[object, list[Access]] = {}
    for access in accesses:
        grouped.setdefault(tuple(index.coefficients for index in access.indices), []).append(access)
    return grouped.values()


def _limited_by_turns(statement: Statement, accesses: list[Access], elements: Expr, running: Loops) -> Expr:
    """Elements in a hull, but no more than there are turns where only some of the loops of a fused index run.

    Their digits are not a box then: a thread's few elements may be spread over the whole buffer.
    """
    indexing = frozenset[int]().union(*(indexing_loops(statement, access) for access in accesses))
    terms = [term for it in statement.iterators for term in it.terms if any(n in indexing for n, _ in term.over)]
    if not any(0 < sum(n in running for n, _ in term.over) < len(term.over) for term in terms):
        return elements
    turns = product(statement.loops[n].extent for n in sorted(indexing) if n in running)
    widths = total(math.prod(index.width for index in access.indices) for access in accesses)
    return minimum(elements, turns * widths)


def _box(statement: Statement, alike: list[Access], buffer: Buffer, running: Loops) -> Iterator[Expr]:
    for dimension, size in enumerate(buffer.shape):
        indices = [access.indices[dimension] for access in alike]
        if indices[0].coefficients is None:
            yield _whole(size)
            continue
        first = min(index.offset for index in indices)
        width = max(index.offset + index.width for index in indices) - first
        yield _within(_hull(statement, Index(indices[0].coefficients, 0, width), running), size)


def _within(extent: Expr, size: int) -> Expr:
    """At most the size of a dimension; 0 stands for one that differs between candidates."""
    return minimum(extent, size) if size else extent


def _whole(size: int) -> Expr:
    return as_expr(max(size, 1))


def _hull(statement: Statement, index: Index, running: Loops) -> Expr:
    assert index.coefficients is not None
    return total(abs(c) * (span(statement, number, running) - 1) for number, c in index.coefficients) + index.width


def _distinct(statement: Statement, index: Index, running: Loops) -> Expr:
    assert index.coefficients is not None
    combinations = product(values(statement, number, running) for number, c in index.coefficients if c)
    return minimum(combinations * index.width, _hull(statement, index, running))


def _unbroken(statement: Statement, index: Index, running: Loops) -> Expr:
    """Length of the runs in one dimension: the hull if there are values enough to fill it, else one run of it."""
    assert index.coefficients is not None
    hull = _hull(statement, index, running)
    if all(abs(c) <= index.width and _is_dense(statement, number, running) for number, c in index.coefficients):
        return hull
    filled = [number for number, c in index.coefficients if abs(c) == 1 and _is_dense(statement, number, running)]
    run = total(span(statement, number, running) - 1 for number in filled) + index.width
    # A stride of c is bridged by runs of at least c.
    reach, fits = run, as_expr(1)
    for number, c in index.coefficients:
        if number not in filled:
            steps = span(statement, number, running)
            gapless = abs(c) if _is_dense(statement, number, running) else hull
            fits = fits * either(steps.eq(1), as_expr(gapless).le(reach))
            reach = reach + abs(c) * (steps - 1)
    return where(fits, reach, run)


def _is_dense(statement: Statement, iterator: int, running: Loops) -> bool:
    """Whether an iterator takes consecutive values: its running terms are the innermost ones."""
    stopped = False
    for term in reversed(statement.iterators[iterator].terms):
        runs = any(loop in running for loop, _ in term.over)
        if runs and (stopped or term.over[-1][0] not in running):
            return False
        stopped = stopped or (not runs and term.modulus.constant != 1)
    return True


def _digit_values(statement: Statement, term: Term, running: Loops) -> Expr:
    over = _summands(statement, term)
    inside = [extent for number, _, extent in over if number in running]
    if not inside:
        return as_expr(1)
    if len(inside) == len(over) == 1:
        return _digits(statement, term, running)
    return minimum(_digits(statement, term, running), product(inside))


def _digits(statement: Statement, term: Term, running: Loops) -> Expr:
    """Hull of the values of ``flat // divisor % modulus`` while some of the loops in ``flat`` run."""
    over = _summands(statement, term)
    inside = [summand for summand in over if summand[0] in running]
    if not inside:
        return as_expr(1)
    window = _flat(inside)
    if len(inside) == len(over):  # it starts at 0
        return _capped(term.modulus, ceildiv(window, term.divisor))
    # The window starts at a multiple of its length if the loops that stand still are the outer digits.
    period = term.modulus * term.divisor
    upper = where(window.eq(1), 1, (window - 2) // term.divisor + 2)
    aligned = where((window % term.divisor).eq(0), window // term.divisor, upper)
    aligned = where((term.divisor % window).eq(0), 1, aligned)
    # What is beyond the domain is left out by a predicate, so the outermost digit does not begin again.
    never_wraps = as_expr(1) if _is_outermost_digit(statement, term) else _flat(over).le(period)
    if _is_mixed_radix(inside):
        return where(either(never_wraps, (period % window).eq(0)), _capped(term.modulus, aligned), term.modulus)
    return where(never_wraps, _capped(term.modulus, upper), term.modulus)


#: A loop's number, its stride in the sum, and how many values it (or its digit) takes.
_Summand = tuple[int, Expr, Expr]


def _summands(statement: Statement, term: Term) -> list[_Summand]:
    extents = [statement.loops[number].extent for number, _ in term.over]
    for position, (divisor, modulus) in enumerate(term.digits):
        extents[position] = _capped(modulus, ceildiv(extents[position], divisor))
    return [(number, stride, extent) for (number, stride), extent in zip(term.over, extents, strict=True)]


def _is_outermost_digit(statement: Statement, term: Term) -> bool:
    """Whether no other term counts a higher digit of the same loops, as far as numbers tell."""
    own = term.divisor.constant
    others = [t.divisor.constant for it in statement.iterators for t in it.terms if t.over == term.over]
    return own is not None and all(other is not None and other <= own for other in others)


def _flat(summands: list[_Summand]) -> Expr:
    if len(summands) == 1 and summands[0][1].constant == 1:
        return summands[0][2]
    if _is_mixed_radix(summands):
        return product(extent for _, _, extent in summands)
    return total(stride * (extent - 1) for _, stride, extent in summands) + 1


def _capped(modulus: Expr, count: Expr) -> Expr:
    """The smaller of the two; the modulus itself where the count is a multiple of it by its form."""
    if modulus is count or (count.op == "mul" and modulus in factors(count)):
        return modulus
    return minimum(modulus, count)


def _is_mixed_radix(summands: list[_Summand]) -> bool:
    """Whether the loops count through consecutive numbers: each stride is what lies further in."""
    below = as_expr(1)
    for _, stride, extent in reversed(summands):
        if stride is not below:
            return False
        below = product([below, extent])
    return True
