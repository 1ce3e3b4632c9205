"""What is predicted of a kernel against TVM's per-store features, where the two define the same quantity.

They do for
- operations: all of floating point; of a statement that reads across a border TVM also counts the choice
  between an element and the padding, as a function call;
- iterations: TVM takes a virtual thread's loop around a fetch for a loop, which lowering does away with;
- bytes moved: element size times iterations, of every buffer;
- bytes touched: the box of an argument, the allocation of anything else, if all indices follow whole loops
  and stay inside. TVM's bounds take the remainder of a loop that is a fusion of several for constant, let an
  index run beyond its buffer, and know nothing of the versions that a software pipeline keeps;
- launch axes and the limit of unrolling.

Passed over are sums within and across threads, for which nothing is predicted, and matrix instructions, which
are calls to TVM.
"""

from __future__ import annotations

from collections.abc import Iterator

from kits.nest_comparison import KIND_NAMES, Difference, Prediction

from prune_engine.metaschedule.store_features import StoreFeatures
from prune_engine.symbols.footprint import loops_from, regions
from prune_engine.symbols.loop_nest import BLOCK_KINDS, THREAD_KINDS, LoopKind, Statement
from prune_engine.symbols.statement import axis_extent, executed_instances, flops

#: TVM lists the accesses of at most five buffers.
_MAX_ACCESSES = 5


def feature_differences(
    predicted: Prediction, features: StoreFeatures, seen: dict[str, int]
) -> Iterator[Difference]:
    """What differs for one store. ``seen`` counts how often each quantity was compared."""
    statement = next((s for s in predicted.nest.statements if s.name == features.block), None)
    if statement is None or statement.tile is not None:
        return
    compared = {
        "operations": _operations(predicted, statement, features),
        "iterations": (features.iterations, _iterations(predicted, statement)),
        "unroll": (features.unroll_max_step, *predicted(statement.unroll_steps)),
        **_axes(predicted, statement, features),
    }
    if len(features.accesses) < _MAX_ACCESSES:
        compared["bytes moved"] = _moved(predicted, statement, features)
        if _is_whole(predicted, statement) and not predicted.nest.pipelines:
            compared["bytes touched"] = _touched(predicted, statement, features)
    for quantity, (expected, got) in compared.items():
        seen[quantity] = seen.get(quantity, 0) + 1
        if expected != got:
            yield Difference(f"{quantity} of {features.block}", expected, got)


def _operations(predicted: Prediction, statement: Statement, features: StoreFeatures) -> tuple[int, int]:
    (own,) = predicted(flops(statement))
    classes = {name: n for name, n in features.operations.items() if name.startswith("float_")}
    if _is_padded(statement):
        classes.pop("float_math")
    return sum(classes.values()), own


def _iterations(predicted: Prediction, statement: Statement) -> int:
    moving = {loop for it in statement.iterators for term in it.terms for loop, _ in term.over}
    once, *still = predicted(
        executed_instances(statement),
        *(
            loop.extent
            for number, loop in enumerate(statement.loops)
            if loop.kind.constant == LoopKind.VTHREAD and number not in moving
        ),
    )
    for extent in still:
        once *= extent
    return once


def _axes(predicted: Prediction, statement: Statement, features: StoreFeatures) -> dict[str, tuple[int, int]]:
    if not features.axes:
        return {}
    kinds = (*BLOCK_KINDS, *THREAD_KINDS)
    extents = predicted(*(axis_extent(statement, kind) for kind in kinds))
    return {KIND_NAMES[k]: (features.axes[KIND_NAMES[k]], n) for k, n in zip(kinds, extents, strict=True)}


def _moved(predicted: Prediction, statement: Statement, features: StoreFeatures) -> tuple[object, object]:
    iterations = _iterations(predicted, statement)
    own = [(kind, item * iterations) for kind, item, _ in _regions(predicted, statement)]
    return sorted((a.kind, a.n_bytes) for a in features.accesses), sorted(own)


def _touched(predicted: Prediction, statement: Statement, features: StoreFeatures) -> tuple[object, object]:
    own = [(kind, item * n) for kind, item, n in _regions(predicted, statement)]
    return sorted((a.kind, a.unique_bytes) for a in features.accesses), sorted(own)


def _regions(predicted: Prediction, statement: Statement) -> Iterator[tuple[str, int, int]]:
    """Of each buffer: how it is touched, bytes of an element, elements touched by the whole statement."""
    for region in regions(predicted.nest, statement, loops_from(statement, 0)):
        kind = "read_write" if region.is_read and region.is_written else "read" if region.is_read else "write"
        buffer = region.buffer
        (n,) = predicted(region.elements if buffer.is_argument else buffer.stored_elements)
        yield kind, buffer.item_bytes, n


def _is_padded(statement: Statement) -> bool:
    """Whether it reads across a border: before the first element, or between those that are there."""
    indices = [index for access in statement.accesses for index in access.indices]
    return any(index.offset < 0 or index.coefficients is None for index in indices)


def _is_whole(predicted: Prediction, statement: Statement) -> bool:
    """Whether every index follows whole loops that stay inside, none of them a fusion by the time TVM looks."""
    if _is_padded(statement):
        return False
    extents = predicted(*(loop.extent for loop in statement.loops))
    kinds = predicted(*(loop.kind for loop in statement.loops))
    for kind in (LoopKind.PARALLEL, LoopKind.VECTORIZED):
        if sum(e > 1 and k == kind for e, k in zip(extents, kinds, strict=True)) > 1:
            return False
    for it in statement.iterators:
        last = predicted(it.start, *(x for term in it.terms for x in (term.stride, term.modulus)))
        if (
            last[0] + sum(s * (m - 1) for s, m in zip(last[1::2], last[2::2], strict=True))
            >= predicted(it.extent)[0]
        ):
            return False
    for term in (term for it in statement.iterators for term in it.terms):
        modulus, divisor = predicted(term.modulus, term.divisor)
        running = [(extents[number], flat) for number, flat in term.over if extents[number] > 1]
        if not running:
            continue
        if divisor != 1 or len(running) != 1 or term.digits:
            return False
        if (running[0][0], *predicted(running[0][1])) != (modulus, 1):
            return False
    return True
