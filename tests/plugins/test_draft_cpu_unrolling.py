"""What LLVM makes of unrolled bodies, as the CPU draft counts it: torn vectors, spills, memory out of sight."""

from __future__ import annotations

import pytest
from kits import nests
from prune_engine_draft.cpu import cpu_terms

from prune_engine.symbols.loop_nest import LoopKind, Role
from prune_engine.testing import make_profile

#: make_profile: 2 cores of 2 pipes with 16 lanes at 2 GHz, 32 registers.
CLOCK_HZ = 2e9


def test_wide_vectors_of_an_odd_length_are_taken_apart_where_they_are_kept_over_a_loop() -> None:
    sketch = nests.gemm_cpu(448, 448, 512)
    rows = [((28, 1, 4, 4), (4, 1, 4, 28), (8, 64), (16,)), ((28, 1, 4, 4), (7, 1, 4, 16), (8, 64), (16,))]
    wide, plain = cpu_terms(nests.gemm_batch(*rows, sketch=sketch), make_profile()).latency_secs
    assert wide > 6 * plain
    # Accumulators of two reduction steps that go back to memory: no loop keeps them.
    rows = [((28, 1, 4, 4), (4, 1, 4, 28), (256, 2), (16,)), ((28, 1, 4, 4), (7, 1, 4, 16), (256, 2), (16,))]
    wide, plain = cpu_terms(nests.gemm_batch(*rows, sketch=sketch), make_profile()).penalties["lanes"]
    assert wide == pytest.approx(28 / 64, rel=1e-2)
    assert plain == pytest.approx(1.0, rel=1e-2)


def test_vectors_of_three_registers_are_torn_too() -> None:
    sketch = nests.gemm_cpu(384, 384, 512)
    rows = [((48, 1, 2, 4), (1, 1, 8, 48), (8, 64), (16,)), ((48, 1, 2, 4), (1, 1, 6, 64), (8, 64), (16,))]
    three, four = cpu_terms(nests.gemm_batch(*rows, sketch=sketch), make_profile()).terms["results"]
    assert three > 20 * four


@pytest.mark.parametrize(
    ("rows", "vectors", "read_by", "is_torn"),
    [
        (1, 7, 56, True),
        (1, 7, 8, False),
        (1, 8, 64, False),  # of a power of two: whole registers
        (8, 7, 56, False),  # 448 results: too many for the stack, so each is by itself
    ],
)
def test_results_are_torn_by_who_reads_them(rows: int, vectors: int, read_by: int, *, is_torn: bool) -> None:
    """Rows of a 1x1 convolution in vectors of 8, which are read in wider ones."""
    width = 8 * vectors
    b = nests.Builder()
    y, k = b.tile("y", 8, 1, 0), b.tile("k", 60, 1, 0)
    r, x, v = b.tile("r", rows, 1), b.tile("x", vectors, 1), b.tile("v", 8, 1)
    outer, wide = b.tile("xo", width // read_by, 1), b.tile("xi", read_by, 1)
    b.buffer("X", (60, width))
    b.buffer("W", (8 * rows, 60))
    b.buffer("P", (8 * rows, width), stored=rows * width)
    b.buffer("Y", (8 * rows, width))
    shared = ("y", y[0], LoopKind.SERIAL)
    loops = [
        *(shared, ("k", k[0], LoopKind.SERIAL), ("r", r[0], LoopKind.SERIAL)),
        *(("x", x[0], LoopKind.SERIAL), ("v", v[0], LoopKind.VECTORIZED)),
    ]
    row = nests.sized(nests.tiled("vy", [y[0], r[0]], (0, 2)), 8 * rows)
    its = [
        row,
        nests.sized(nests.tiled("vx", [x[0], v[0]], (3, 4)), width),
        nests.sized(nests.tiled("vk", k, (1,), True), 60),
    ]
    accesses = [nests.read("P", 0, 1), nests.read("X", 2, 1), nests.read("W", 0, 2), nests.write("P", 0, 1)]
    b.statement("P", Role.UPDATE, loops, its, accesses, flop_count=2, unroll=64)
    copies = [
        *(shared, ("r", r[0], LoopKind.SERIAL)),
        *(("xo", outer[0], LoopKind.SERIAL), ("xi", wide[0], LoopKind.VECTORIZED)),
    ]
    copied = [
        nests.sized(nests.tiled("vy", [y[0], r[0]], (0, 1)), 8 * rows),
        nests.sized(nests.tiled("vx", [outer[0], wide[0]], (2, 3)), width),
    ]
    b.statement("Y", Role.COPY, copies, copied, [nests.read("P", 0, 1), nests.write("Y", 0, 1)], shared=1)
    batch = nests.batch_of(sketch := b.sketch(b.nest()), nests.random_rows(sketch, 1))
    (results,) = cpu_terms(batch, make_profile(cores=1)).terms["results"]
    lanes = 8 * 60 * rows * width  # of all turns of the reduction: one more instruction each
    assert (results > lanes / 2 / CLOCK_HZ) == is_torn


def reduction(
    *, filters: int, steps: int, depth: int, again: bool = True, own: bool = False, stride: int = 1, width: int = 16
) -> nests.Builder:
    """8 blocks of ``filters`` x ``width`` results, whose ``steps`` are unrolled ``depth`` at a time.

    If ``again``, all blocks do so many steps before the next: right around the body is then a loop that does not
    move what is multiplied, a buffer that is an argument or the kernel's ``own``.
    """
    b = nests.Builder()
    k, block = b.tile("k", steps // depth, 1, 0), b.tile("block", 8, 1)
    f, kk, x = b.tile("f", filters, 1, 0), b.tile("kk", depth, 1, 0), b.tile("x", width, 1)
    b.buffer("X", (steps, width * stride), stored=steps * width * stride if own else None)
    b.buffer("W", (8 * filters, steps))
    b.buffer("Y", (8 * filters, width))
    outside = [("k", k[0], LoopKind.SERIAL), ("block", block[0], LoopKind.SERIAL)]
    loops = [
        *(outside if again else outside[::-1]),
        *(("f", f[0], LoopKind.SERIAL), ("kk", kk[0], LoopKind.SERIAL), ("x", x[0], LoopKind.VECTORIZED)),
    ]
    its = [
        nests.sized(nests.tiled("vf", [block[0], f[0]], (1 if again else 0, 2)), 8 * filters),
        nests.sized(nests.tiled("vx", x, (4,)), width),
        nests.sized(nests.tiled("vk", [k[0], kk[0]], (0 if again else 1, 3), True), steps),
    ]
    accesses = [
        *(nests.read("Y", 0, 1), nests.read("X", 2, nests.at((1, stride)))),
        *(nests.read("W", 0, 2), nests.write("Y", 0, 1)),
    ]
    b.statement("Y", Role.UPDATE, loops, its, accesses, flop_count=2, unroll=max(48, filters * depth))
    return b


def core_cycles(b: nests.Builder) -> float:
    batch = nests.batch_of(sketch := b.sketch(b.nest()), nests.random_rows(sketch, 1))
    return float(cpu_terms(batch, make_profile(cores=1)).terms["core"][0] * CLOCK_HZ)


def test_what_is_loaded_before_a_loop_is_loaded_again_where_it_finds_no_register(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Both do the same arithmetic; of 8 vectors per step all stay in registers, of 64 most do not.

    A single accumulator would hide the loads.
    """
    monkeypatch.setattr("prune_engine_draft.cpu._LATENCY_CYCLES", 0.0)
    few, many = (core_cycles(reduction(filters=1, steps=64, depth=depth)) for depth in (8, 64))
    copies = 8 * 64
    assert few <= 0.6 * copies  # the weights alone are loaded, two a cycle
    assert many > 0.8 * copies  # most vectors are, too


def test_of_what_the_kernel_wrote_llvm_takes_only_so_much_out_of_a_loop() -> None:
    """Vectors that are put together lane by lane are so before the loop, or each time."""
    for depth, is_worse in ((2, False), (16, True)):
        argument, own = (
            core_cycles(reduction(filters=1, steps=64, depth=depth, own=own, stride=2)) for own in (False, True)
        )
        assert (own > 3 * argument) == is_worse


def test_a_vector_of_three_instructions_is_one_load_to_take_out_of_a_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """40 vectors of 14: 120 instructions."""
    monkeypatch.setattr("prune_engine_draft.cpu._LATENCY_CYCLES", 0.0)
    argument, own = (
        core_cycles(reduction(filters=1, steps=80, depth=40, own=own, width=14)) for own in (False, True)
    )
    assert own == argument


def test_llvm_loses_sight_of_what_it_loaded_in_long_bodies() -> None:
    """8 filters over 4 steps load a vector once, over 32 steps once for each filter: stores lie between."""
    short, long = (core_cycles(reduction(filters=8, steps=128, depth=n, again=False)) for n in (4, 32))
    copies = 8 * 8 * 128
    assert short < 0.6 * copies
    assert long == pytest.approx(copies, rel=0.05)


def test_packed_scalars_take_vectors_of_powers_of_two() -> None:
    """LLVM packs 14 unrolled scalars as 8, 4 and 2; TVM's vector of 14 is one instruction."""
    cycles = []
    for kind in (LoopKind.VECTORIZED, LoopKind.SERIAL):
        b = nests.Builder()
        y, k, f, x = b.tile("y", 64, 1, 0), b.tile("k", 512, 1, 0), b.tile("f", 8, 1), b.tile("x", 14, 1)
        b.buffer("X", (512, 64, 14))
        b.buffer("W", (8, 512))
        b.buffer("Y", (8, 64, 14))
        loops = [
            *(("y", y[0], LoopKind.SERIAL), ("k", k[0], LoopKind.SERIAL)),
            *(("f", f[0], LoopKind.SERIAL), ("x", x[0], kind)),
        ]
        its = [
            nests.sized(nests.tiled("vf", f, (2,)), 8),
            nests.sized(nests.tiled("vy", y, (0,)), 64),
            nests.sized(nests.tiled("vx", x, (3,)), 14),
            nests.sized(nests.tiled("vk", k, (1,), True), 512),
        ]
        accesses = [
            *(nests.read("Y", 0, 1, 2), nests.read("X", 3, 1, 2)),
            *(nests.read("W", 0, 3), nests.write("Y", 0, 1, 2)),
        ]
        b.statement("Y", Role.UPDATE, loops, its, accesses, flop_count=2, unroll=512)
        cycles.append(core_cycles(b))
    assert cycles[1] == pytest.approx(3 * 64 * 512 * 8 / 2, rel=0.01)
    assert cycles[0] < 0.5 * cycles[1]
