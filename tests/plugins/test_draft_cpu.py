"""The draft for CPUs, on loop nests made by hand: each cause on its own, and the scorer's contract."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from kits import nests
from kits.nests import gemm_batch
from prune_engine_draft.cpu import TERMS, cpu_terms
from prune_engine_draft.cpu_machine import machine_of
from prune_engine_draft.scorer import SymbolDraft
from prune_engine_draft.terms import DraftTerms

from prune_engine.hardware.schema import HardwareProfile
from prune_engine.space import DesignSpace, Sketch
from prune_engine.symbols.expr import part
from prune_engine.symbols.loop_nest import LoopKind, Role
from prune_engine.symbols.structure import group_columns
from prune_engine.testing import DraftScorerContract, make_batch, make_profile, make_space, make_task

#: make_profile: 2 cores of 2 pipes with 16 lanes at 2 GHz, 32 registers, 48 KiB and 2 MiB of cache.
CLOCK_HZ = 2e9


def drafted(*rows: Sequence[Sequence[int]], size: int = 512, cores: int = 2) -> DraftTerms:
    return cpu_terms(gemm_batch(*rows, size=size), make_profile(cores=cores))


GOOD = ((32, 1, 2, 8), (2, 1, 16, 16), (8, 64), (16,))


class TestContract(DraftScorerContract):
    @pytest.fixture
    def draft_scorer(self) -> SymbolDraft:
        return SymbolDraft()

    @pytest.fixture(params=["opaque", "gemm", "conv"])
    def space(self, request: pytest.FixtureRequest) -> DesignSpace:
        if request.param == "opaque":
            return make_space()
        sketch = nests.gemm_cpu(64, 48, 32) if request.param == "gemm" else nests.conv_cpu(14, 16, 32)
        return nests.batch_of(sketch, nests.random_rows(sketch, 1)).space


def test_what_is_remembered_is_what_is_worked_out() -> None:
    """In whatever batches candidates come, and whatever profile was asked about between."""
    sketch, profile, other = nests.conv_cpu(14, 16, 32), make_profile(), make_profile(cores=1)
    rows = nests.random_rows(sketch, 500)
    scorer = SymbolDraft()
    for some in (rows[:200], rows[100:], rows):
        for asked in (profile, other, profile):
            batch = nests.batch_of(sketch, some)
            found, fresh = scorer.score(batch, asked), SymbolDraft().score(batch, asked)
            assert np.array_equal(found.scores, fresh.scores)
            for name in ("symbols", "penalties"):
                mine, theirs = getattr(found, name), getattr(fresh, name)
                assert list(mine) == list(theirs)
                assert all(np.array_equal(mine[key], theirs[key]) for key in mine)


def test_a_good_tile_takes_what_its_multiplications_take() -> None:
    terms = drafted(GOOD)
    # 512^3 multiply-adds, 16 lanes, two pipes, two cores; for 8 of them 9 loads: elements of A, a vector of B.
    update = 512**3 / 16 / 2 / CLOCK_HZ / 2 * 9 / 8
    others = 2 * 512 * 512 / 16 / CLOCK_HZ / 2  # start values stored, results copied: one store each
    assert terms.terms["core"][0] == pytest.approx(update + others, rel=1e-6)
    assert terms.terms["spills"][0] == 0
    assert terms.penalties["lanes"][0] == pytest.approx(1.0, abs=1e-6)
    assert terms.latency_secs[0] == pytest.approx(sum(t[0] for t in terms.terms.values()))


@pytest.mark.parametrize(
    ("worse", "cause"),
    [
        pytest.param(((32, 1, 16, 1), (2, 1, 16, 16), (16, 32), (0,)), "core", id="one chain of additions"),
        pytest.param(
            ((4, 1, 2, 64), (2, 1, 16, 16), (8, 64), (64,)), "spills", id="more accumulators than registers"
        ),
        pytest.param(((32, 1, 2, 8), (32, 1, 4, 4), (8, 64), (16,)), "core", id="a quarter of the lanes"),
        pytest.param(
            ((32, 1, 2, 8), (2, 1, 16, 16), (512, 1), (16,)), "results", id="accumulators stored each step"
        ),
        pytest.param(((1, 1, 64, 8), (1, 1, 32, 16), (8, 64), (16,)), "core", id="one core"),
        pytest.param(((64, 1, 1, 8), (32, 1, 1, 16), (8, 64), (16,)), "tasks", id="many tasks"),
        pytest.param(((128, 1, 2, 2), (2, 1, 16, 16), (8, 64), (16,)), "loops", id="short bodies"),
        pytest.param(
            ((2, 1, 32, 8), (1, 1, 32, 16), (256, 2), (16,)), "l1d", id="tile of results beyond the cache"
        ),
    ],
)
def test_each_cause_costs_where_it_should(worse: Sequence[Sequence[int]], cause: str) -> None:
    terms = drafted(GOOD, worse)
    good, bad = terms.terms[cause]
    assert bad > 1.5 * good
    assert terms.latency_secs[1] > terms.latency_secs[0]


def test_a_few_registers_too_few_are_felt_at_every_step() -> None:
    """8 x 64 accumulators fill all 32 registers: LLVM then uses the stack, at a third of the steps."""
    fits = ((4, 1, 32, 4), (8, 1, 1, 64), (16, 32), (512,))
    full = ((4, 1, 16, 8), (8, 1, 1, 64), (16, 32), (512,))
    terms = drafted(fits, full)
    assert terms.terms["spills"][0] == 0
    steps_secs = 512**3 / 16 / 2 / CLOCK_HZ / 2
    assert 0.2 * steps_secs < terms.terms["spills"][1] < steps_secs


def test_rows_a_power_of_two_apart_do_not_stay_in_a_cache() -> None:
    tile = ((8, 1, 1, 64), (2, 1, 16, 16), (128, 4), (0,))
    crowded = with_ways(make_profile())
    apart = cpu_terms(gemm_batch(tile, size=512), crowded).terms["l1d"][0] / 512**3
    odd = nests.gemm_cpu(520, 512, 513, limit=65)
    fits = cpu_terms(gemm_batch(((8, 1, 1, 65), tile[1], (171, 3), (0,)), sketch=odd), crowded).terms["l1d"][0]
    assert apart > 1.8 * fits / (520 * 512 * 513)


def with_ways(profile: HardwareProfile) -> HardwareProfile:
    """The profile with caches of 8 ways (12 for 48 KiB, so that there are 64 sets)."""
    count = profile.limits.vector_bytes
    assert count is not None
    ways = {"l1": 12, "l1d": 12, "l2": 16}
    memory = tuple(
        level.model_copy(update={"ways": count.model_copy(update={"value": ways[level.name]})})
        if level.name in ways
        else level
        for level in profile.memory
    )
    return profile.model_copy(update={"memory": memory})


def padded(offset: int, role: Role = Role.COPY) -> Sketch:
    """A copy of a matrix (or its sum to another), vectorised, that starts ``offset`` elements into each row."""
    b = nests.Builder()
    i, j = b.tile("i", 64, 2), b.tile("j", 64, 2)
    b.buffer("X", (64, 64))
    b.buffer("Y", (64, 64))
    loops = [
        ("i0", i[0], LoopKind.PARALLEL),
        ("i1", i[1], LoopKind.SERIAL),
        ("j0", j[0], LoopKind.SERIAL),
        ("j1", j[1], LoopKind.VECTORIZED),
    ]
    its = [nests.sized(nests.tiled("vi", i, (0, 1)), 64), nests.sized(nests.tiled("vj", j, (2, 3)), 64)]
    accesses = [nests.read("X", nests.at(0), nests.at(1, offset=offset)), nests.write("Y", 0, 1)]
    if role is Role.UPDATE:
        accesses.insert(0, nests.read("Y", 0, 1))
    b.statement("copy", role, loops, its, accesses)
    return b.sketch(b.nest())


def core_secs_of_padded(role: Role) -> dict[int, float]:
    secs = {}
    for offset in (0, -1, 1):
        sketch = padded(offset, role)
        row = [sketch.variables[0].index_of((8, 8)), sketch.variables[1].index_of((4, 16))]
        terms = cpu_terms(nests.batch_of(sketch, np.array([row], dtype=np.int32)), make_profile())
        secs[offset] = terms.terms["core"][0]
    return secs


def test_reductions_that_read_past_an_edge_are_not_vectorised() -> None:
    secs = core_secs_of_padded(Role.UPDATE)
    assert secs[-1] == secs[1] > 8 * secs[0]


def test_padding_by_itself_costs_what_a_copy_costs() -> None:
    secs = core_secs_of_padded(Role.COPY)
    assert secs[-1] == secs[1] == secs[0] > 0


def test_the_compiler_vectorises_a_loop_by_the_width_that_suits_it() -> None:
    # The loop outside the body: 64 are 4 vectors of 16; 56 are 7 of 8, rather than 3 of 16 and 8 by themselves.
    rows = [((56, 1, 1, 8), (7, 1, 64, 1), (512, 1), (16,)), ((56, 1, 1, 8), (8, 1, 56, 1), (512, 1), (16,))]
    sketch = without_vectors(nests.gemm_cpu(448, 448, 512))
    lanes = cpu_terms(gemm_batch(*rows, sketch=sketch), make_profile()).penalties["lanes"]
    assert lanes[0] / lanes[1] == pytest.approx((7 / 56) / (4 / 64), rel=1e-2)


def test_the_compiler_unrolls_less_where_vectors_are_put_together_lane_by_lane() -> None:
    """16 filters of 14 outputs: a straight body for a stride of 1, a loop for a stride of 2."""
    turns = {}
    for stride in (1, 2):
        b = nests.Builder()
        f, x, k = b.tile("f", 16, 1, 0), b.tile("x", 14, 1), b.tile("k", 60, 1, 0)
        b.buffer("X", (60, 14 * stride))
        b.buffer("W", (16, 60))
        b.buffer("Y", (16, 14))
        loops = [("k", k[0], LoopKind.SERIAL), ("f", f[0], LoopKind.SERIAL), ("x", x[0], LoopKind.VECTORIZED)]
        its = [
            nests.sized(nests.tiled("vf", f, (1,)), 16),
            nests.sized(nests.tiled("vx", x, (2,)), 14),
            nests.sized(nests.tiled("vk", k, (0,), True), 60),
        ]
        accesses = [
            nests.read("Y", 0, 1),
            nests.read("X", 2, nests.at((1, stride))),
            nests.read("W", 0, 2),
            nests.write("Y", 0, 1),
        ]
        b.statement("Y", Role.UPDATE, loops, its, accesses, flop_count=2, unroll=0)
        sketch = b.sketch(b.nest())
        batch = nests.batch_of(sketch, nests.random_rows(sketch, 1))
        turns[stride] = cpu_terms(batch, make_profile()).terms["loops"][0]
    assert turns[2] == pytest.approx(16 * turns[1])


def test_copies_along_the_last_dimension_are_packed_where_nothing_is_vectorised() -> None:
    # j3 = 1: no vector loop. 16 unrolled copies along j are one instruction, along i they are 16.
    rows = [((32, 1, 16, 1), (2, 1, 16, 16), (128, 4), (64,)), ((2, 1, 16, 16), (512, 1, 1, 1), (128, 4), (64,))]
    sketch = without_vectors(nests.gemm_cpu(512, 512, 512))
    along, across = cpu_terms(gemm_batch(*rows, sketch=sketch), make_profile()).terms["core"]
    assert across > 8 * along


@pytest.mark.parametrize(
    ("width", "kind", "shared", "is_scalar"),
    [
        (55, LoopKind.SERIAL, 1, True),
        (56, LoopKind.SERIAL, 1, False),
        (55, LoopKind.SERIAL, 0, False),
        (55, LoopKind.PARALLEL, 1, True),
        (55, LoopKind.PARALLEL, 0, False),
    ],
)
def test_scalars_that_a_loop_carries_are_packed_in_even_numbers_only(
    width: int, kind: LoopKind, shared: int, is_scalar: bool
) -> None:
    """Rows of a 1x1 convolution, unrolled: read within the loop over rows, the results are scalars, else stored."""
    b = nests.Builder()
    y, x, k = b.tile("y", 8, 1, 0), b.tile("x", width, 1), b.tile("k", 60, 1, 0)
    b.buffer("X", (60, width))
    b.buffer("W", (8, 60))
    b.buffer("P", (8, width), stored=8 * width)
    b.buffer("Y", (8, width))
    rows = ("y", y[0], kind)
    loops = [rows, ("k", k[0], LoopKind.SERIAL), ("x", x[0], LoopKind.SERIAL)]
    its = [nests.sized(nests.tiled("vy", y, (0,)), 8), nests.sized(nests.tiled("vx", x, (2,)), width)]
    sums = [*its, nests.sized(nests.tiled("vk", k, (1,), True), 60)]
    accesses = [nests.read("P", 0, 1), nests.read("X", 2, 1), nests.read("W", 0, 2), nests.write("P", 0, 1)]
    b.statement("P", Role.UPDATE, loops, sums, accesses, flop_count=2, unroll=64)
    copied = [nests.sized(nests.tiled("vy", y, (0,)), 8), nests.sized(nests.tiled("vx", x, (1,)), width)]
    copies = [rows, ("x", x[0], LoopKind.SERIAL)]
    accesses = [nests.read("P", 0, 1), nests.write("Y", 0, 1)]
    b.statement("Y", Role.COPY, copies, copied, accesses, shared=shared)
    batch = nests.batch_of(sketch := b.sketch(b.nest()), nests.random_rows(sketch, 1))
    (chained,) = cpu_terms(batch, make_profile(cores=1)).terms["core"]
    packed = 8 * 60 * np.ceil(width / 16) / CLOCK_HZ
    assert (chained > 5 * packed) == is_scalar


def without_vectors(sketch: Sketch) -> Sketch:
    """The same loops, none of them vectorised."""
    assert isinstance(sketch.nests, nests.FixedNest)
    nest = sketch.nests.nest
    serial = part(0, 0) * 0
    statements = tuple(
        replace(
            statement,
            loops=tuple(
                replace(loop, kind=serial) if loop.kind.constant == LoopKind.VECTORIZED else loop
                for loop in statement.loops
            ),
        )
        for statement in nest.statements
    )
    return replace(sketch, nests=replace(sketch.nests, nest=replace(nest, statements=statements)))


def test_what_is_done_again_and_again_is_done_once_where_llvm_sees_that_it_is_the_same() -> None:
    core = {}
    for unroll in (0, 64):
        b = nests.Builder()
        row, k = b.tile("row", 64, 1), b.tile("k", 60, 1, 0)
        again = b.tile("again", 64, 1)
        b.buffer("X", (64, 60))
        b.buffer("sum", (64,), stored=1)
        loops = [
            ("row", row[0], LoopKind.SERIAL),
            ("again", again[0], LoopKind.SERIAL),
            ("k", k[0], LoopKind.SERIAL),
        ]
        its = [nests.sized(nests.tiled("vr", row, (0,)), 64), nests.sized(nests.tiled("vk", k, (2,), True), 60)]
        accesses = [nests.read("X", 0, 1), nests.read("sum", 0), nests.write("sum", 0)]
        b.statement("sum", Role.UPDATE, loops, its, accesses, flop_count=1, unroll=unroll)
        sketch = b.sketch(b.nest())
        batch = nests.batch_of(sketch, nests.random_rows(sketch, 1))
        core[unroll] = cpu_terms(batch, make_profile()).terms["core"][0]
    assert core[0] > 30 * core[64]  # 60 copies are more than LLVM unrolls by itself


def test_calls_of_functions_cost() -> None:
    sketch = padded(0)
    assert isinstance(sketch.nests, nests.FixedNest)
    nest = sketch.nests.nest
    calling = replace(
        sketch,
        nests=replace(sketch.nests, nest=replace(nest, statements=(replace(nest.statements[0], call_count=1),))),
    )
    rows = nests.random_rows(sketch, 4)
    plain, called = (cpu_terms(nests.batch_of(s, rows), make_profile()) for s in (sketch, calling))
    assert (plain.terms["calls"] == 0).all()
    assert (called.terms["calls"] >= 64 * 64 / CLOCK_HZ / 2).all()


def test_all_terms_and_penalties_of_random_candidates_are_in_range() -> None:
    for sketch in (nests.gemm_cpu(96, 80, 60), nests.conv_cpu(14, 16, 32), nests.stencil_cpu(32)):
        batch = nests.batch_of(sketch, nests.random_rows(sketch, 500))
        terms = cpu_terms(batch, make_profile())
        assert set(terms.terms) == set(TERMS)
        assert all((t >= 0).all() and np.isfinite(t).all() for t in terms.terms.values())
        assert all(((p > 0) & (p <= 1)).all() for p in terms.penalties.values())
        assert (terms.latency_secs > 0).all()


def test_chunks_and_whole_batches_agree() -> None:
    sketch = nests.gemm_cpu(512, 512, 512)
    rows = nests.random_rows(sketch, 5000)
    whole = cpu_terms(nests.batch_of(sketch, rows), make_profile()).latency_secs
    parts = [
        cpu_terms(nests.batch_of(sketch, rows[a : a + 700]), make_profile()).latency_secs
        for a in range(0, 5000, 700)
    ]
    np.testing.assert_array_equal(whole, np.concatenate(parts))


def test_the_target_says_how_many_of_the_cores_run() -> None:
    profile = make_profile(cores=8)
    assert machine_of(profile, make_task(target="llvm")).cores == 8
    assert machine_of(profile, make_task(target='{"kind": "llvm", "num-cores": 2}')).cores == 2
    assert machine_of(profile, make_task(target='{"kind": "llvm", "num-cores": 64}')).cores == 8
    assert machine_of(profile, make_task(target="[1, 2]")).cores == 8


def test_a_silent_profile_is_drafted_with_common_numbers() -> None:
    known = make_profile()
    silent = known.model_copy(
        update={
            "clock_hz": None,
            "core_count": None,
            "launch_secs": None,
            "compute": (),
            "memory": (),
            "limits": known.limits.model_copy(update={"vector_bytes": None, "vector_registers": None}),
        }
    )
    terms = cpu_terms(gemm_batch(GOOD, ((1, 512, 1, 1), (512, 1, 1, 1), (512, 1), (0,))), silent)
    assert np.isfinite(terms.latency_secs).all()
    assert terms.latency_secs[1] > 3 * terms.latency_secs[0]


def test_a_sum_of_causes_where_the_profile_says_that_nothing_overlaps() -> None:
    profile = make_profile()
    summed = cpu_terms(gemm_batch(GOOD), profile.model_copy(update={"combine": "sum"})).terms["core"][0]
    assert summed > 1.3 * cpu_terms(gemm_batch(GOOD), profile).terms["core"][0]


def test_opaque_candidates_are_all_equal_and_without_a_latency() -> None:
    batch = make_batch(20)
    found = SymbolDraft().score(batch, make_profile())
    assert found.latency_secs is None
    assert len(set(found.scores.tolist())) == 1


def test_columns_come_statement_by_statement() -> None:
    sketch = nests.gemm_cpu(64, 48, 32)
    batch = nests.batch_of(sketch, nests.random_rows(sketch, 50))
    found = list(group_columns(batch, lambda nest: [s.instances for s in nest.statements], 20))
    assert [len(g.columns[0]) for g in found] == [20, 20, 10]
    assert np.concatenate([g.rows for g in found if g.rows is not None]).tolist() == list(range(50))
    assert set(np.concatenate([g.columns[1] for g in found]).tolist()) == {64 * 48 * 32}
    (whole,) = group_columns(batch, lambda nest: [s.instances for s in nest.statements])
    assert whole.rows is None
    assert len(whole.columns) == 3
