"""Rules that read the loop nest itself: reductions shared by threads, producers inside reduction loops."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from kits.rules import with_nests
from prune_engine_rules.stages import ReductionLocation
from prune_engine_rules.threads import ThreadReduction

from prune_engine.candidates import CandidateBatch
from prune_engine.hardware.levels import DeviceKind
from prune_engine.space import DesignSpace, Sketch, Variable, VariableKind, perfect_tile_table
from prune_engine.symbols.expr import Expr, as_expr, ceildiv, part
from prune_engine.symbols.loop_nest import (
    Access,
    Buffer,
    Index,
    Iterator,
    Loop,
    LoopKind,
    LoopNest,
    Role,
    Statement,
    plain_term,
)
from prune_engine.testing import make_profile, make_task

CPU, GPU = make_profile(DeviceKind.CPU), make_profile(DeviceKind.GPU)
THREADS = [1, 4, 32, 64]


def statement(
    role: Role, loops: dict[str, tuple[object, LoopKind]], reductions: str = "", shared: int = 0
) -> Statement:
    """A statement whose iterators follow one loop each."""
    made = tuple(Loop(name, as_expr(e), as_expr(int(k))) for name, (e, k) in loops.items())  # type: ignore[arg-type]
    iterators = tuple(
        Iterator(loop.name, loop.extent, loop.name in reductions.split(), (plain_term(n, loop, as_expr(1)),))
        for n, loop in enumerate(made)
    )
    return Statement(role.name, role, made, iterators, (), 1, as_expr(0), n_shared_with_previous=shared)


def nest_of(*statements: Statement, buffers: dict[str, Buffer] | None = None) -> LoopNest:
    return LoopNest(statements, buffers or {}, as_expr(0), as_expr(1))


def batch(sketch: Sketch) -> CandidateBatch:
    n = [len(v.table) for v in sketch.variables]
    rows = np.stack(np.unravel_index(np.arange(np.prod(n)), n), axis=1).astype(np.int32)
    return CandidateBatch(DesignSpace(make_task(), (sketch,)), sketch, rows)


def row_sum(length: int, *others: Variable) -> Sketch:
    """A reduction divided among as many threads as the first variable says."""
    threads = Variable.of("threads", VariableKind.CATEGORICAL, np.array([[n] for n in THREADS], dtype=np.int32))
    sketch = Sketch(0, "row-sum", (threads, *others))
    n: Expr = part(0, 0)
    loops = {
        "row": (128, LoopKind.BLOCK_X),
        "outer": (ceildiv(length, n), LoopKind.SERIAL),
        "inner": (n, LoopKind.THREAD_X),
    }
    made = statement(Role.UPDATE, loops)
    outer, inner = made.loops[1:]
    k = Iterator("k", as_expr(length), True, (plain_term(1, outer, n), plain_term(2, inner, as_expr(1))))
    made = replace(made, iterators=(made.iterators[0], k))
    return with_nests(sketch, nest_of(made))


class TestThreadReduction:
    @pytest.mark.parametrize(("length", "kept"), [(32, [True, False, False, False]), (33, [True] * 4)])
    def test_short_reductions_stay_on_one_thread(self, length: int, kept: list[bool]) -> None:
        assert ThreadReduction().mask(batch(row_sum(length)), GPU).tolist() == kept

    def test_what_is_short_is_the_profiles(self) -> None:
        wave = make_profile(DeviceKind.GPU, threads_per_warp=64)
        candidates = batch(row_sum(48))
        assert ThreadReduction().mask(candidates, GPU).all()
        assert ThreadReduction().mask(candidates, wave).tolist() == [True, False, False, False]
        assert "64 steps" in ThreadReduction().reason({}, wave)

    def test_the_variable_that_decides_is_cut(self) -> None:
        space = batch(row_sum(16)).space
        restriction = ThreadReduction().restrict(space, GPU)
        assert restriction is not None
        assert {k: v.tolist() for k, v in restriction.keep.items()} == {(0, 0): [True, False, False, False]}
        assert ThreadReduction().restrict(batch(row_sum(64)).space, GPU) is None

    def test_where_locations_change_the_nest_no_table_is_cut(self) -> None:
        location = Variable.of("at", VariableKind.LOCATION, np.array([[-1], [0]], dtype=np.int32))
        sketch = row_sum(16, location)
        assert ThreadReduction().restrict(DesignSpace(make_task(), (sketch,)), GPU) is None
        assert not ThreadReduction().mask(batch(sketch), GPU).all()

    @pytest.mark.parametrize("profile", [CPU, make_profile(DeviceKind.GPU, threads_per_warp=None)])
    def test_unknown_or_another_device(self, profile) -> None:
        candidates = batch(row_sum(16))
        assert ThreadReduction().mask(candidates, profile).all()
        assert ThreadReduction().restrict(candidates.space, profile) is None

    def test_opaque(self) -> None:
        sketch = replace(row_sum(16), nests=None)
        assert ThreadReduction().mask(batch(sketch), GPU).all()
        assert ThreadReduction().restrict(batch(sketch).space, GPU) is None

    def test_threads_along_results_do_not_count(self) -> None:
        loops = {"row": (128, LoopKind.THREAD_X), "k": (16, LoopKind.SERIAL)}
        sketch = row_sum(16)
        sketch = with_nests(sketch, nest_of(statement(Role.UPDATE, loops, "k")))
        assert ThreadReduction().mask(batch(sketch), GPU).all()


def padded(shared: int, repeats: int, *, role: Role = Role.COMPUTE, follows: str = "i") -> LoopNest:
    """A producer of 8 results inside the outermost ``shared`` of the consumer's loops i, k (``repeats``), j.

    Which results also depends on the loops it ``follows``, so that the others repeat it.
    """
    around = {"i": (4, LoopKind.SERIAL), "k": (repeats, LoopKind.SERIAL)}
    own = {**dict(list(around.items())[:shared]), "p": (8, LoopKind.SERIAL)}
    producer = statement(role, own)
    moving = [n for n, loop in enumerate(producer.loops) if loop.name in (*follows, "p")]
    terms = tuple(plain_term(n, producer.loops[n], as_expr(1 if n == len(own) - 1 else 8)) for n in moving)
    write = Access("padded", (Index(((0, 1),)),), True)
    producer = replace(producer, iterators=(Iterator("x", as_expr(64), False, terms),), accesses=(write,))
    consumer = statement(Role.UPDATE, {**around, "j": (16, LoopKind.SERIAL)}, "k", shared)
    buffer = Buffer("padded", "global", "float32", 4, (64,), False, as_expr(64))
    return nest_of(producer, consumer, buffers={"padded": buffer})


def located(*nests: LoopNest) -> CandidateBatch:
    table = np.arange(len(nests), dtype=np.int32)[:, None]
    tile = Variable.of("i", VariableKind.TILE, perfect_tile_table(4, 2, 4))
    sketch = Sketch(0, "located", (Variable.of("at", VariableKind.LOCATION, table), tile))
    return batch(with_nests(sketch, *nests, by_variable=0))


def kept(*nests: LoopNest) -> list[bool]:
    candidates = located(*nests)
    mask = ReductionLocation().mask(candidates, CPU)
    return [bool(mask[candidates.indices[:, 0] == n].all()) for n in range(len(nests))]


class TestReductionLocation:
    def test_repeated_for_the_reduction_goes(self) -> None:
        assert kept(padded(2, 3), padded(2, 2), padded(2, 1)) == [False, True, True]

    def test_outside_of_the_reduction_stays(self) -> None:
        assert kept(padded(1, 3), padded(0, 3)) == [True, True]

    def test_walking_over_its_results_is_no_repetition(self) -> None:
        assert kept(padded(2, 8, follows="ik"), padded(2, 8, follows="k"), padded(2, 8, follows="")) == [
            True,
            True,
            False,
        ]

    def test_what_spatial_loops_repeat_is_no_reductions_fault(self) -> None:
        assert kept(padded(2, 2, follows=""), padded(1, 8, follows="")) == [True, True]

    def test_what_writes_nothing_repeats_nothing(self) -> None:
        nest = padded(2, 3)
        producer, consumer = nest.statements
        assert kept(nest_of(replace(producer, accesses=()), consumer, buffers=nest.buffers)) == [True]

    def test_copies_are_no_producers(self) -> None:
        assert kept(padded(2, 3, role=Role.COPY)) == [True]

    def test_the_consumer_may_come_later(self) -> None:
        nest = padded(2, 3)
        between = replace(statement(Role.COMPUTE, {"i": (4, LoopKind.SERIAL)}), n_shared_with_previous=2)
        producer, consumer = nest.statements
        assert kept(nest_of(producer, between, consumer, buffers=nest.buffers)) == [False]
        further_out = replace(between, n_shared_with_previous=1)
        assert kept(nest_of(producer, further_out, consumer, buffers=nest.buffers)) == [True]
        apart = replace(between, n_shared_with_previous=0)
        assert kept(nest_of(producer, apart, consumer, buffers=nest.buffers)) == [True]

    def test_another_device_or_an_opaque_sketch(self) -> None:
        candidates = located(padded(2, 3))
        assert ReductionLocation().mask(candidates, GPU).all()
        sketch = replace(candidates.sketch, nests=None)
        assert ReductionLocation().mask(batch(sketch), CPU).all()

    def test_without_a_location_nothing_was_chosen(self) -> None:
        sketch = Sketch(0, "fixed", (Variable.of("i", VariableKind.TILE, perfect_tile_table(4, 2, 4)),))
        assert ReductionLocation().mask(batch(with_nests(sketch, padded(2, 3))), CPU).all()
