"""Loop nests for processors, made by hand as an adapter makes them from traces."""

from __future__ import annotations

from kits.nest_parts import UNROLL, Builder, at, read, sized, tiled, write

from prune_engine.space import Sketch
from prune_engine.symbols.expr import ExprLike, product, where
from prune_engine.symbols.loop_nest import LoopKind, Role


def gemm_cpu(m: int, n: int, k: int, *, limit: int = 64, jobs: int = 32) -> Sketch:
    """SSRSRS with a write cache: parallel outer loops, a vectorised innermost one, a copy of each tile."""
    b = Builder()
    i, j, kk = b.tile("i", m, 4, limit), b.tile("j", n, 4, limit), b.tile("k", k, 2, limit)
    unroll = b.choice("unroll", UNROLL)
    b.buffer("A", (m, k))
    b.buffer("B", (k, n))
    b.buffer("C", (m, n))
    b.buffer("C_cache", (m, n), stored=product(i[2:] + j[2:]))
    outer = i[0] * j[0]
    # All four outer loops in parallel where that gives no more jobs than the limit, else the first two.
    inner_kind = where((outer * i[1] * j[1]).le(jobs), int(LoopKind.PARALLEL), int(LoopKind.SERIAL))
    shared: list[tuple[str, ExprLike, ExprLike]] = [
        ("i0", i[0], LoopKind.PARALLEL),
        ("j0", j[0], LoopKind.PARALLEL),
        ("i1", i[1], inner_kind),
        ("j1", j[1], inner_kind),
    ]
    serial, vector = LoopKind.SERIAL, LoopKind.VECTORIZED
    init_loops = [*shared, ("i2", i[2], serial), ("j2", j[2], serial), ("i3", i[3], serial), ("j3", j[3], vector)]
    spatial = [sized(tiled("vi", i, (0, 2, 4, 6)), m), sized(tiled("vj", j, (1, 3, 5, 7)), n)]
    b.statement("init", Role.INIT, init_loops, spatial, [write("C_cache", 0, 1)], unroll=unroll)
    update_loops = [
        *shared,
        ("k0", kk[0], serial),
        ("i2", i[2], serial),
        ("j2", j[2], serial),
        ("k1", kk[1], serial),
        ("i3", i[3], serial),
        ("j3", j[3], vector),
    ]
    update = [
        sized(tiled("vi", i, (0, 2, 5, 8)), m),
        sized(tiled("vj", j, (1, 3, 6, 9)), n),
        sized(tiled("vk", kk, (4, 7), True), k),
    ]
    b.statement(
        "update",
        Role.UPDATE,
        update_loops,
        update,
        [read("C_cache", 0, 1), read("A", 0, 2), read("B", 2, 1), write("C_cache", 0, 1)],
        flop_count=2,
        unroll=unroll,
        shared=4,
    )
    copied = [(*i[:2], i[2] * i[3]), (*j[:2], j[2] * j[3])]
    b.statement(
        "write",
        Role.COPY,
        [*shared, ("ax0", copied[0][2], serial), ("ax1", copied[1][2], vector)],
        [sized(tiled("v0", copied[0], (0, 2, 4)), m), sized(tiled("v1", copied[1], (1, 3, 5)), n)],
        [read("C_cache", 0, 1), write("C", 0, 1)],
        unroll=unroll,
        shared=4,
    )
    return b.sketch(b.nest())


def conv_cpu(
    size: int, channels: int, filters: int, kernel: int = 3, stride: int = 1, *, limit: int = 64
) -> Sketch:
    """A convolution in NHWC without padding, SSRSRS: ``size`` is the output's height and width."""
    b = Builder()
    span = (size - 1) * stride + kernel
    h, w, f = b.tile("h", size, 4, limit), b.tile("w", size, 4, limit), b.tile("f", filters, 4, limit)
    r, s, c = b.tile("r", kernel, 2, limit), b.tile("s", kernel, 2, limit), b.tile("c", channels, 2, limit)
    b.buffer("X", (1, span, span, channels))
    b.buffer("W", (kernel, kernel, channels, filters))
    b.buffer("Y", (1, size, size, filters))
    kinds = [LoopKind.PARALLEL, LoopKind.SERIAL, LoopKind.SERIAL, LoopKind.SERIAL]
    loops: list[tuple[str, ExprLike, ExprLike]] = []
    numbers: dict[str, list[int]] = {name: [] for name in "hwfrsc"}
    for letters, level, kind in (
        ("hwf", 0, kinds[0]),
        ("hwf", 1, kinds[1]),
        ("rsc", 0, LoopKind.SERIAL),
        ("hwf", 2, kinds[2]),
        ("rsc", 1, LoopKind.SERIAL),
        ("hwf", 3, kinds[3]),
    ):
        for letter in letters:
            factors = {"h": h, "w": w, "f": f, "r": r, "s": s, "c": c}[letter]
            is_vector = letter == "f" and level == 3
            numbers[letter].append(len(loops))
            loops.append((f"{letter}{level}", factors[level], LoopKind.VECTORIZED if is_vector else kind))
    its = [
        sized(tiled("vh", h, numbers["h"]), size),
        sized(tiled("vw", w, numbers["w"]), size),
        sized(tiled("vf", f, numbers["f"]), filters),
        sized(tiled("vr", r, numbers["r"], True), kernel),
        sized(tiled("vs", s, numbers["s"], True), kernel),
        sized(tiled("vc", c, numbers["c"], True), channels),
    ]
    output = [at(), at(0), at(1), at(2)]
    b.statement(
        "update",
        Role.UPDATE,
        loops,
        its,
        [
            read("Y", *output),
            read("X", at(), at((0, stride), (3, 1)), at((1, stride), (4, 1)), at(5)),
            read("W", 3, 4, 5, 2),
            write("Y", *output),
        ],
        flop_count=2,
        unroll=b.choice("unroll", UNROLL),
    )
    return b.sketch(b.nest())


def stencil_cpu(size: int, *, limit: int = 64) -> Sketch:
    """Y[i, j] = X[i, j] + X[i + 1, j + 2] + Z[j], both loops split in two, fused with nothing."""
    b = Builder()
    i, j = b.tile("i", size, 2, limit), b.tile("j", size, 2, limit)
    b.buffer("X", (size + 1, size + 2))
    b.buffer("Y", (size, size))
    b.buffer("Z", (size,))
    b.statement(
        "stencil",
        Role.COMPUTE,
        [
            ("i0", i[0], LoopKind.PARALLEL),
            ("j0", j[0], LoopKind.SERIAL),
            ("i1", i[1], LoopKind.SERIAL),
            ("j1", j[1], LoopKind.VECTORIZED),
        ],
        [sized(tiled("vi", i, (0, 2)), size), sized(tiled("vj", j, (1, 3)), size)],
        [read("X", 0, 1), read("X", at(0, offset=1), at(1, offset=2)), read("Z", 1), write("Y", 0, 1)],
        flop_count=2,
    )
    return b.sketch(b.nest())
