"""Where TVM finds no constant extent for a loop it refuses a candidate: each of these is foretold, and no other."""

from __future__ import annotations

from functools import reduce

import numpy as np
import pytest
from kits.oracle import Oracle, case, random_batch

from prune_engine.candidates import CandidateBatch, rows_of
from prune_engine.metaschedule.interpreter.dynamic import dynamic_extent
from prune_engine.metaschedule.interpreter.finish import DYNAMIC
from prune_engine.metaschedule.interpreter.tree import IndexNode, IterNode, LoopNode, TermNode, plain, whole
from prune_engine.metaschedule.materialise import Materialiser
from prune_engine.metaschedule.targets import resolve_target
from prune_engine.metaschedule.workloads.loading import load_tasks
from prune_engine.space import Sketch, Variable, VariableKind
from prune_engine.symbols.evaluate import TableValues
from prune_engine.symbols.expr import Expr, as_expr, either, part
from prune_engine.symbols.loop_nest import LoopNest
from prune_engine.symbols.structure import nest_column


def refused(batch: CandidateBatch, *, is_unsure: bool = False) -> list[bool]:
    """What is foretold; nothing may be left open, or everything."""
    assert (nest_column(batch, "test.is_unsure", lambda nest: nest.is_unsure) == is_unsure).all()
    column = nest_column(batch, "test.is_refused", lambda nest: nest.is_refused)
    return [bool(x) for x in column]


@pytest.mark.parametrize(
    ("workload", "sketches"),
    [
        pytest.param("avg_pool2d:1x8x14x14,3x3,s2,p1", (1, 2), id="windows-split-across-their-rows"),
        pytest.param("conv2d:1x60x10x10,90x3x3,p1,s2,g5", (0,), id="groups-of-18-channels"),
    ],
)
def test_random_candidates(workload: str, sketches: tuple[int, ...]) -> None:
    (task,) = load_tasks(workload, resolve_target("llvm", 4))
    space, oracle = Materialiser(task, seed=0).design_space(), Oracle(task)
    n_refused = n_seen = 0
    for number in sketches:
        sketch = space.sketches[number]
        assert sketch.nests is not None
        batch = random_batch(space, sketch, 2000)
        batch = batch.take(sketch.nests.canonical(batch.indices))
        batch = batch.take(np.arange(min(len(batch), 60)))
        for row, is_refused in enumerate(refused(batch)):
            decisions = batch.candidate(row).decisions
            assert oracle.realise(sketch, decisions).is_legal is not is_refused, decisions
            n_refused += is_refused
            n_seen += 1
    assert 4 < n_refused < n_seen - 4


@pytest.mark.parametrize(
    ("channels", "location", "is_refused"),
    [
        pytest.param((8, 2, 2, 4), 16, True, id="two-loops-outside"),
        pytest.param((8, 2, 2, 4), 6, False, id="at-a-loop-above"),
        pytest.param((16, 1, 2, 4), 16, False, id="one-loop-outside"),
        pytest.param((2, 2, 2, 16), 16, False, id="within-a-group"),
        pytest.param((1, 2, 4, 16), 16, False, id="one-loop-of-groups"),
    ],
)
def test_groups_of_channels(channels: tuple[int, ...], location: int, is_refused: bool) -> None:
    space, oracle = case("conv_grouped", "llvm")
    sketch = space.sketches[2]
    decisions = (
        *((1, 1, 1, 1), channels, (2, 7, 2, 1), (1, 1, 14, 2)),
        *((1, 32), (1, 3), (1, 3), (512,), (location,)),
    )
    built = oracle.realise(sketch, decisions)
    assert not built.is_repaired
    assert built.is_legal is not is_refused
    rows = rows_of(sketch, decisions)
    assert rows is not None
    assert refused(CandidateBatch(space, sketch, rows[None])) == [is_refused]


def test_an_extent_that_is_constant_only_after_it_was_simplified_twice() -> None:
    (task,) = load_tasks("conv2d:1x96x14x14,192x3x3,p1,g6", resolve_target("llvm", 4))
    space, oracle = Materialiser(task, seed=0).design_space(), Oracle(task)
    decisions = (
        *((1, 1, 1, 1), (1, 4, 3, 16), (2, 1, 7, 1), (2, 1, 1, 7)),
        *((16, 1), (3, 1), (1, 3), (64,), (8,)),
    )
    sketch = space.sketches[1]
    built = oracle.realise(sketch, decisions)
    assert not built.is_repaired
    assert built.is_legal
    rows = rows_of(sketch, decisions)
    assert rows is not None
    assert refused(CandidateBatch(space, sketch, rows[None])) == [False]


def by_the_verifier(nest: LoopNest) -> Expr:
    assert DYNAMIC in nest.refusals
    return reduce(either, (refused for why, refused in nest.refusals.items() if why != DYNAMIC), as_expr(0))


def test_groups_across_blocks_of_threads() -> None:
    (task,) = load_tasks("conv2d:1x96x14x14,192x3x3,p1,g6", resolve_target("nvidia/nvidia-a100", 4))
    space, oracle = Materialiser(task, seed=0).design_space(), Oracle(task)
    sketch = space.sketches[0]
    batch = random_batch(space, sketch, 2000)
    # Of six groups it is not known for certain what shared memory TVM takes.
    is_refused = np.array(refused(batch, is_unsure=True))
    others = nest_column(batch, "test.others", by_the_verifier)
    rows = [*np.flatnonzero(~is_refused)[:10], *np.flatnonzero(is_refused & (others == 0))[:10]]
    assert len(rows) == 20
    for row in rows:
        decisions = batch.candidate(int(row)).decisions
        assert oracle.realise(sketch, decisions).is_legal is not bool(is_refused[row]), decisions


def test_powers_of_two_leave_nothing_open_on_a_gpu() -> None:
    space, _ = case("conv_grouped", "cuda")
    for sketch in space.sketches:
        assert any(refused(random_batch(space, sketch, 20)))


def quotient(outer: LoopNode, inner: LoopNode) -> IndexNode:
    over = (whole(outer, inner.extent), whole(inner))
    term = TermNode(as_expr(1), over, as_expr(1), as_expr(3))
    return IndexNode(((IterNode("x % 3", as_expr(3), False, [term], is_virtual=True), 1),))


def test_a_remainder_of_loops_of_two_tiles_is_left_open() -> None:
    tables = [np.array(t, dtype=np.int32) for t in ([[1, 9], [3, 3], [9, 1]], [[1], [3]])]
    variables = [Variable.of(f"v{n}", VariableKind.TILE, t) for n, t in enumerate(tables)]
    values = TableValues(Sketch(0, "two", tuple(variables)))
    outer, inner, other = (LoopNode("a", part(0, 0)), LoopNode("b", part(0, 1)), LoopNode("c", part(1, 0)))
    # The loop that moves outside is the innermost: TVM takes the remainder's last value for that of this loop.
    one_tile = dynamic_extent(quotient(outer, inner), {outer}, values)
    assert values.of(one_tile.is_certain).tolist() == [0, 1, 0]
    assert one_tile.is_unsure.constant == 0
    two_tiles = dynamic_extent(quotient(outer, other), {outer}, values)
    assert two_tiles.is_certain.constant == 0
    assert two_tiles.is_unsure.variables == (0, 1)


def test_a_loop_is_no_remainder() -> None:
    values = TableValues(Sketch(0, "none", ()))
    loop = LoopNode("a", as_expr(3))
    index = IndexNode(((IterNode("x", as_expr(3), False, [plain(loop)], is_virtual=True), 1),))
    assert dynamic_extent(index, {loop}, values).is_certain.constant == 0
