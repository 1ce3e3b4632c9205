"""Formulas over loop nests against the nests run step by step, for random candidates."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kits import nests
from kits.brute import Runner, box, longest_run

from prune_engine.space import Sketch
from prune_engine.symbols.bands import kernel_of, reduction_loops
from prune_engine.symbols.evaluate import Evaluator
from prune_engine.symbols.expr import Expr
from prune_engine.symbols.footprint import (
    contiguous_elements,
    distinct_elements,
    footprint_bytes,
    loops_from,
    regions,
)
from prune_engine.symbols.loop_nest import Access, LoopKind, LoopNest, Role, Statement
from prune_engine.symbols.statement import executed_instances, per_thread_tile_loops, tile
from prune_engine.symbols.traffic import reuse_distance_bytes, traffic_bytes, turns, working_set_bytes

EXAMPLES = settings(max_examples=12, deadline=None, derandomize=True)
#: Where a fused loop is cut into digits that do not come out even, formulas are upper bounds of what is touched.
UPPER_BOUND = {
    ("gemm-cuda", "A_shared"),
    ("gemm-cuda", "B_shared"),
    ("softmax-cuda", "norm"),
    ("scattered-cuda", "add"),
}
UPPER_BOUND |= {(name, copy) for name in ("conv-cuda", "conv-cuda-strided") for copy in ("X_shared", "W_shared")}

every_nest = pytest.mark.parametrize("name", nests.SMALL)
tiled_nests = pytest.mark.parametrize("name", [n for n in nests.SMALL if not n.startswith("conv-cuda")])


@lru_cache
def sketch_of(name: str) -> Sketch:
    return nests.SMALL[name]()


class Case:
    """One candidate: the values of formulas for it, and the same from running its loops."""

    def __init__(self, name: str, seed: int) -> None:
        self.name, self.sketch = name, sketch_of(name)
        source = self.sketch.nests
        assert source is not None
        self.nest: LoopNest = source.groups(np.empty((0, 0), dtype=np.int32))[0].nest
        self.rows = nests.random_rows(self.sketch, 1, seed)
        self.runner = Runner(self.sketch, self.nest, self.rows[0].tolist())
        self._evaluator = Evaluator(source.tables, self.rows)

    def value(self, expr: Expr) -> int:
        return int(np.broadcast_to(self._evaluator(expr), (1,))[0])

    def statement(self, data: st.DataObject) -> Statement:
        return data.draw(st.sampled_from(self.nest.statements), label="statement")

    def depth(self, data: st.DataObject, statement: Statement) -> int:
        return data.draw(st.integers(0, len(statement.loops)), label="depth")

    def is_exact(self, statement: Statement) -> bool:
        return (self.name, statement.name) not in UPPER_BOUND

    def agree(self, found: int, true: int, statement: Statement) -> None:
        assert found == true if self.is_exact(statement) else found >= true

    def largest(self, statement: Statement, accesses: Sequence[Access], runs: Sequence[Sequence[list[int]]]) -> int:
        """The largest box over all turns of the outer loops; elements where a box means nothing."""
        size = box if self.is_exact(statement) else len
        return max(size(self.runner.touched(accesses, inside)) for inside in runs)


def cases(name: str) -> st.SearchStrategy[Case]:
    return st.integers(0, 2**32 - 1).map(lambda seed: Case(name, seed))


@every_nest
@EXAMPLES
@given(data=st.data())
def test_boxes_at_every_depth(name: str, data: st.DataObject) -> None:
    case = data.draw(cases(name))
    statement = case.statement(data)
    depth = case.depth(data, statement)
    runs, total = case.runner.runs(statement, depth), 0
    for region in regions(case.nest, statement, loops_from(statement, depth)):
        accesses = [a for a in statement.accesses if a.buffer == region.buffer.name]
        total += region.buffer.item_bytes * case.largest(statement, accesses, runs)
        case.agree(case.value(region.elements), case.largest(statement, accesses, runs), statement)
    case.agree(case.value(footprint_bytes(case.nest, statement, depth)), total, statement)


@every_nest
@EXAMPLES
@given(data=st.data())
def test_instances_are_the_turns_of_the_loops(name: str, data: st.DataObject) -> None:
    case = data.draw(cases(name))
    statement = case.statement(data)
    extents = case.runner.extents(statement)
    kinds = [case.runner.value(loop.kind) for loop in statement.loops]
    moving = {loop for it in statement.iterators for t in it.terms for loop, _ in t.over}
    # Threads bound twice are the same threads; a virtual thread that moves nothing adds nothing.
    same = {n for n, kind in enumerate(kinds) if kind >= LoopKind.THREAD_X and kind in kinds[n + 1 :]}
    same |= {n for n, kind in enumerate(kinds) if kind == LoopKind.VTHREAD and n not in moving}
    true = int(np.prod([e for n, e in enumerate(extents) if n not in same]))
    assert case.value(executed_instances(statement)) == true
    if statement.role is Role.UPDATE:  # perfect tiles: each point of the domain once
        points = {tuple(its) for inside in case.runner.runs(statement, 0) for its in inside}
        assert len(points) == true or name == "softmax-cuda"


@every_nest
@EXAMPLES
@given(data=st.data())
def test_runs_of_consecutive_elements(name: str, data: st.DataObject) -> None:
    case = data.draw(cases(name))
    statement = case.statement(data)
    depth = case.depth(data, statement)
    runs = case.runner.runs(statement, depth)
    for access in statement.accesses:
        shape = case.nest.buffers[access.buffer].shape
        true = max(longest_run(case.runner.touched([access], i), shape) for i in runs if i)
        found = case.value(contiguous_elements(case.nest, statement, access, loops_from(statement, depth)))
        # Boxes may by chance lie end to end in memory (the last columns of one row, the first of the next):
        # a formula cannot know; it never says more than there is.
        assert found <= true or not case.is_exact(statement)
        if len(shape) == 1 and case.is_exact(statement):
            assert found == true


@every_nest
@EXAMPLES
@given(data=st.data())
def test_elements_of_a_thread(name: str, data: st.DataObject) -> None:
    case = data.draw(cases(name))
    statement = case.statement(data)
    loops = per_thread_tile_loops(statement)
    runs = case.runner.runs(statement, 0, loops)
    for access in statement.accesses:
        true = max(len(case.runner.touched([access], inside)) for inside in runs)
        found = case.value(distinct_elements(case.nest, statement, access, loops))
        case.agree(found, true, statement)


@tiled_nests
@EXAMPLES
@given(data=st.data())
def test_working_sets_and_reuse_distances(name: str, data: st.DataObject) -> None:
    case = data.draw(cases(name))
    number = data.draw(st.integers(0, len(case.nest.statements) - 1), label="statement")
    statement = case.nest.statements[number]
    exact = all(case.is_exact(case.nest.statements[n]) for n in kernel_of(case.nest, number))
    depth = case.depth(data, statement)
    found, true = case.value(working_set_bytes(case.nest, number, depth)), working_set(case, number, depth)
    assert found == true if exact else found >= true
    extents = case.runner.extents(statement)
    buffer = data.draw(st.sampled_from(sorted({a.buffer for a in statement.accesses})), label="buffer")
    accesses = [a for a in statement.accesses if a.buffer == buffer]
    used = {i for a in accesses for index in a.indices for i, _ in index.coefficients or ()}
    moving = {loop for i in used for t in statement.iterators[i].terms for loop, _ in t.over}
    resting = [n for n, extent in enumerate(extents) if extent > 1 and n not in moving]
    true = working_set(case, number, resting[-1] + 1 if resting else 0)
    found = case.value(reuse_distance_bytes(case.nest, number, buffer))
    assert found == true if exact else found >= true


def working_set(case: Case, number: int, depth: int) -> int:
    """The statements that share ``depth`` loops, in the order of the program; each buffer's largest box."""
    shared = [s.n_shared_with_previous for s in case.nest.statements]
    together = [
        other
        for other in kernel_of(case.nest, number)
        if min(shared[min(number, other) + 1 : max(number, other) + 1], default=99) >= max(depth, 1)
    ]
    boxes: dict[str, int] = {}
    for other in together:
        statement = case.nest.statements[other]
        for buffer in dict.fromkeys(a.buffer for a in statement.accesses):
            accesses = [a for a in statement.accesses if a.buffer == buffer]
            runs = case.runner.runs(statement, depth)
            size = case.largest(statement, accesses, runs)
            boxes[buffer] = max(boxes.get(buffer, 0), size * case.nest.buffers[buffer].item_bytes)
    return sum(boxes.values())


@pytest.mark.parametrize("name", ["gemm-cpu", "conv-cpu", "stencil-cpu"])
@EXAMPLES
@given(data=st.data())
def test_traffic_refills_when_the_region_moves(name: str, data: st.DataObject) -> None:
    """A memory that holds one region of each buffer: count how often another one is asked for."""
    case = data.draw(cases(name))
    statement = case.statement(data)
    depth = case.depth(data, statement)
    runs = case.runner.runs(statement, depth)
    extents = case.runner.extents(statement)
    moved = 0
    for region in regions(case.nest, statement, loops_from(statement, depth)):
        accesses = [a for a in statement.accesses if a.buffer == region.buffer.name]
        refills, held = 0, None
        for position, inside in enumerate(runs):
            # Which turn of the parallel loops it is: another one never finds what it needs.
            outside = np.unravel_index(position, extents[:depth]) if depth else ()
            chunk = tuple(int(outside[n]) for n in range(depth) if may_be_parallel(statement, n))
            wanted = (chunk, frozenset(case.runner.touched(accesses, inside)))
            refills += wanted != held
            held = wanted
        counted = case.value(turns(statement, region.buffer.name, depth))
        # In a convolution the step of an inner loop may by chance lead to where an outer one goes next.
        assert counted == refills or (name.startswith("conv") and counted >= refills)
        size = max(box(case.runner.touched(accesses, inside)) for inside in runs) * region.buffer.item_bytes
        moved += counted * size * (region.is_read + region.is_written)
    assert case.value(traffic_bytes(case.nest, statement, depth)) == moved


def may_be_parallel(statement: Statement, loop: int) -> bool:
    return statement.loops[loop].kind.constant != LoopKind.SERIAL and loop < 4


@pytest.mark.parametrize("name", ["gemm-cpu", "conv-cpu", "conv-cpu-strided"])
@EXAMPLES
@given(data=st.data())
def test_tile_in_terms_of_a_matrix_product(name: str, data: st.DataObject) -> None:
    case = data.draw(cases(name))
    statement = case.nest.statement("update")
    first = max(n for n in reduction_loops(statement))
    while first - 1 in reduction_loops(statement):
        first -= 1
    runs = case.runner.runs(statement, first)
    columns = 1 if name == "gemm-cpu" else 2
    rows = [n for n in range(3) if n != columns and not statement.iterators[n].is_reduction]
    steps = [n for n, it in enumerate(statement.iterators) if it.is_reduction]
    found = [case.value(e) for e in tile(case.nest, statement)]
    true = [len({tuple(its[n] for n in group) for its in runs[0]}) for group in (rows, [columns], steps)]
    assert found == true
