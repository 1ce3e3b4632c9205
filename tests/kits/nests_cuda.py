"""Loop nests for GPUs, made by hand as an adapter makes them from traces."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from kits.nest_parts import UNROLL, Builder, at, digits_of, read, sized, split_iterator, tiled, write

from prune_engine.space import Sketch
from prune_engine.symbols.expr import ExprLike, as_expr, ceildiv, product
from prune_engine.symbols.loop_nest import Iterator, LoopKind, Role, Term


def gemm_cuda(m: int, n: int, k: int, *, limit: int = 64, threads: tuple[int, int] = (32, 1024)) -> Sketch:
    """SSSRRSRS: blocks, virtual threads, threads fused; all threads of a block fetch both operands."""
    b = Builder()
    i, j, kk = b.tile("i", m, 5, limit), b.tile("j", n, 5, limit), b.tile("k", k, 3, limit)
    fetch_a, fetch_b = b.choice("fetch A", (1, 2, 3, 4)), b.choice("fetch B", (1, 2, 3, 4))
    unroll = b.choice("unroll", UNROLL)
    step = kk[1] * kk[2]
    rows, columns = product(i[1:]), product(j[1:])
    b.buffer("A", (m, k))
    b.buffer("B", (k, n))
    b.buffer("C", (m, n))
    b.buffer("A_shared", (m, k), "shared", rows * step)
    b.buffer("B_shared", (k, n), "shared", step * columns)
    b.buffer("C_local", (m, n), "local", product([i[1], *i[3:], j[1], *j[3:]]))
    block, vthread, thread = i[0] * j[0], i[1] * j[1], i[2] * j[2]
    shared: list[tuple[str, ExprLike, ExprLike]] = [
        ("i0_j0", block, LoopKind.BLOCK_X),
        ("i1_j1", vthread, LoopKind.VTHREAD),
        ("i2_j2", thread, LoopKind.THREAD_X),
    ]
    serial = LoopKind.SERIAL

    def own(inner_i: Sequence[int], inner_j: Sequence[int]) -> list[Iterator]:
        fused = [digits_of(loop, (i[loop], j[loop])) for loop in range(3)]
        made = []
        for axis, (name, factors, inner, extent) in enumerate((("vi", i, inner_i, m), ("vj", j, inner_j, n))):
            outer = [replace(fused[level][axis], stride=product(factors[level + 1 :])) for level in range(3)]
            terms = tiled(name, factors[3:], inner).terms if len(inner) > 1 else ()
            made.append(Iterator(name, as_expr(extent), False, (*outer, *terms)))
        return made

    init_loops = [
        *shared,
        *((f"{n}_init", f, serial) for n, f in zip("abcd", (i[3], j[3], i[4], j[4]), strict=True)),
    ]
    b.statement("init", Role.INIT, init_loops, own((3, 5), (4, 6)), [write("C_local", 0, 1)], unroll=unroll)
    for name, is_a, fetch in (("A_shared", True, fetch_a), ("B_shared", False, fetch_b)):
        width = step if is_a else columns
        size = (rows if is_a else columns) * step
        turns = ceildiv(size, thread * fetch)
        over = ((4, thread * fetch), (5, fetch), (6, as_expr(1)))
        flat = [
            Term(as_expr(1), over, width, rows if is_a else step),
            Term(as_expr(1), over, as_expr(1), width),
        ]
        blocks = digits_of(0, (i[0], j[0]))
        spatial = (
            (replace(blocks[0], stride=rows), flat[0]) if is_a else (replace(blocks[1], stride=columns), flat[1])
        )
        outer_k = (Term(step, ((3, as_expr(1)),), as_expr(1), kk[0]), flat[1] if is_a else flat[0])
        along_k = Iterator("vk", as_expr(k), False, outer_k)
        along_s = Iterator("vs", as_expr(m if is_a else n), False, spatial)
        its = [along_s, along_k] if is_a else [along_k, along_s]
        b.statement(
            name,
            Role.COPY,
            [
                *shared,
                ("k0", kk[0], serial),
                ("ax_0", turns, serial),
                ("ax_1", thread, LoopKind.THREAD_X),
                ("ax_2", fetch, LoopKind.VECTORIZED),
            ],
            its,
            [read(name[0], 0, 1), write(name, 0, 1)],
            unroll=unroll,
            shared=3 if is_a else 4,
        )
    update_loops = [
        *shared,
        ("k0", kk[0], serial),
        ("k1", kk[1], serial),
        ("i3", i[3], serial),
        ("j3", j[3], serial),
        ("k2", kk[2], serial),
        ("i4", i[4], serial),
        ("j4", j[4], serial),
    ]
    b.statement(
        "update",
        Role.UPDATE,
        update_loops,
        [*own((5, 8), (6, 9)), sized(tiled("vk", kk, (3, 4, 7), True), k)],
        [read("C_local", 0, 1), read("A_shared", 0, 2), read("B_shared", 2, 1), write("C_local", 0, 1)],
        flop_count=2,
        unroll=unroll,
        shared=4,
    )
    # The local tile is written back element by element of the thread.
    back = own((), ())
    inner = [(3, i[3] * i[4]), (4, j[3] * j[4])]
    back = [
        replace(it, terms=(*it.terms, Term(as_expr(1), ((loop, as_expr(1)),), as_expr(1), extent)))
        for it, (loop, extent) in zip(back, inner, strict=True)
    ]
    b.statement(
        "write",
        Role.COPY,
        [*shared, ("ax0", inner[0][1], serial), ("ax1", inner[1][1], serial)],
        back,
        [read("C_local", 0, 1), write("C", 0, 1)],
        unroll=unroll,
        shared=3,
    )
    low, high = threads
    return b.sketch(b.nest(is_refused=as_expr(1) - as_expr(low).le(thread) * thread.le(high)))


def conv_cuda(
    size: int, channels: int, filters: int, kernel: int = 3, stride: int = 1, *, limit: int = 64
) -> Sketch:
    """A convolution in NHWC, SSSRRSRS: input and weights fetched by all threads into shared memory."""
    b = Builder()
    span = (size - 1) * stride + kernel
    spatial = [b.tile(name, extent, 5, limit) for name, extent in (("h", size), ("w", size), ("f", filters))]
    reduced = [b.tile(name, extent, 3, limit) for name, extent in (("r", kernel), ("s", kernel), ("c", channels))]
    fetches = [b.choice("fetch X", (1, 2, 3, 4)), b.choice("fetch W", (1, 2, 3, 4))]
    unroll = b.choice("unroll", UNROLL)
    steps = [p[1] * p[2] for p in reduced]
    inside = [product(p[1:]) for p in spatial]
    box_h = (inside[0] - 1) * stride + steps[0]
    box_w = (inside[1] - 1) * stride + steps[1]
    b.buffer("X", (1, span, span, channels))
    b.buffer("W", (kernel, kernel, channels, filters))
    b.buffer("Y", (1, size, size, filters))
    b.buffer("X_shared", (1, span, span, channels), "shared", product([box_h, box_w, steps[2]]))
    b.buffer("W_shared", (kernel, kernel, channels, filters), "shared", product([*steps, inside[2]]))
    b.buffer(
        "Y_local", (1, size, size, filters), "local", product([x for p in spatial for x in (p[1], p[3], p[4])])
    )
    level = [product(p[n] for p in spatial) for n in range(3)]
    shared: list[tuple[str, ExprLike, ExprLike]] = [
        ("block", level[0], LoopKind.BLOCK_X),
        ("vthread", level[1], LoopKind.VTHREAD),
        ("thread", level[2], LoopKind.THREAD_X),
    ]
    digits = [digits_of(n, [p[n] for p in spatial]) for n in range(3)]

    def own(inner: Sequence[Sequence[int]]) -> list[Iterator]:
        made = []
        for axis, (name, p, extent) in enumerate(
            zip(("vh", "vw", "vf"), spatial, (size, size, filters), strict=True)
        ):
            outer = [replace(digits[n][axis], stride=product(p[n + 1 :])) for n in range(3)]
            made.append(Iterator(name, as_expr(extent), False, (*outer, *tiled(name, p[3:], inner[axis]).terms)))
        return made

    outer_k: list[tuple[str, ExprLike, ExprLike]] = [
        (f"{n}0", p[0], LoopKind.SERIAL) for n, p in zip("rsc", reduced, strict=True)
    ]
    for name, fetch, box, starts in (
        ("X_shared", fetches[0], (box_h, box_w, steps[2]), ((0, 0), (0, 1), (5, None))),
        ("W_shared", fetches[1], (*steps, inside[2]), ((3, None), (4, None), (5, None), (0, 2))),
    ):
        size_of_box = product(box)
        over = ((6, level[2] * fetch), (7, fetch), (8, as_expr(1)))
        its = []
        for position, (extent, (loop, axis)) in enumerate(zip(box, starts, strict=True)):
            inner = Term(as_expr(1), over, product(box[position + 1 :]), extent)
            if axis is None:
                outer = Term(steps[loop - 3], ((loop, as_expr(1)),), as_expr(1), reduced[loop - 3][0])
            else:
                scale = stride if name == "X_shared" else 1
                outer = replace(digits[0][axis], stride=inside[axis] * scale)
            shape = b.buffers[name].shape
            its.append(
                Iterator(f"v{position}", as_expr(shape[len(shape) - len(box) + position]), False, (outer, inner))
            )
        indices = [at(), *(at(n) for n in range(3))] if len(box) == 3 else [at(n) for n in range(4)]
        b.statement(
            name,
            Role.COPY,
            [
                *shared,
                *outer_k,
                ("ax_0", ceildiv(size_of_box, level[2] * fetch), LoopKind.SERIAL),
                ("ax_1", level[2], LoopKind.THREAD_X),
                ("ax_2", fetch, LoopKind.VECTORIZED),
            ],
            its,
            [read(name[0], *indices), write(name, *indices)],
            unroll=unroll,
            shared=0 if name == "X_shared" else 6,
        )
    loops = [
        *shared,
        *outer_k,
        *((f"{n}1", p[1], LoopKind.SERIAL) for n, p in zip("rsc", reduced, strict=True)),
        *((f"{n}3", p[3], LoopKind.SERIAL) for n, p in zip("hwf", spatial, strict=True)),
        *((f"{n}2", p[2], LoopKind.SERIAL) for n, p in zip("rsc", reduced, strict=True)),
        *((f"{n}4", p[4], LoopKind.SERIAL) for n, p in zip("hwf", spatial, strict=True)),
    ]
    reduction = [
        sized(tiled(f"v{n}", p, (3 + x, 6 + x, 12 + x), True), extent)
        for x, (n, p, extent) in enumerate(zip("rsc", reduced, (kernel, kernel, channels), strict=True))
    ]
    output = [at(), at(0), at(1), at(2)]
    b.statement(
        "update",
        Role.UPDATE,
        loops,
        [*own([(9, 15), (10, 16), (11, 17)]), *reduction],
        [
            read("Y_local", *output),
            read("X_shared", at(), at((0, stride), (3, 1)), at((1, stride), (4, 1)), at(5)),
            read("W_shared", 3, 4, 5, 2),
            write("Y_local", *output),
        ],
        flop_count=2,
        unroll=unroll,
        shared=6,
    )
    inner = [p[3] * p[4] for p in spatial]
    back = [
        replace(it, terms=(*it.terms[:3], Term(as_expr(1), ((3 + n, as_expr(1)),), as_expr(1), inner[n])))
        for n, it in enumerate(own([(0, 0)] * 3))
    ]
    b.statement(
        "write",
        Role.COPY,
        [*shared, *((f"ax{n}", extent, LoopKind.SERIAL) for n, extent in enumerate(inner))],
        back,
        [read("Y_local", *output), write("Y", *output)],
        unroll=unroll,
        shared=3,
    )
    threads = level[2]
    return b.sketch(b.nest(is_refused=as_expr(1) - as_expr(32).le(threads) * threads.le(1024)))


def softmax_cuda(rows: int, columns: int, threads: Sequence[int] = (2, 4, 8)) -> Sketch:
    """Three launches, each with its own number of threads: maximum, sum, quotient."""
    b = Builder()
    b.buffer("X", (rows, columns))
    b.buffer("Y", (rows, columns))
    b.buffer("maximum", (rows,), stored=rows)
    b.buffer("sum", (rows,), stored=rows)
    for name, output, operands in (("max", "maximum", ()), ("expsum", "sum", ("maximum",))):
        width = b.choice(f"threads of {name}", threads)
        its = [
            split_iterator("vi", rows, 0, width),
            sized(tiled("vk", [as_expr(columns)], (2,), True), columns),
        ]
        b.statement(
            name,
            Role.UPDATE,
            [
                ("block", ceildiv(rows, width), LoopKind.BLOCK_X),
                ("thread", width, LoopKind.THREAD_X),
                ("k", columns, LoopKind.SERIAL),
            ],
            its,
            [read(output, 0), read("X", 0, 1), *(read(o, 0) for o in operands), write(output, 0)],
            flop_count=1 if name == "max" else 2,
        )
    width = b.choice("threads of norm", threads)
    size = rows * columns
    over = ((0, width), (1, as_expr(1)))
    b.statement(
        "norm",
        Role.COMPUTE,
        [("block", ceildiv(size, width), LoopKind.BLOCK_X), ("thread", width, LoopKind.THREAD_X)],
        [
            Iterator("vi", as_expr(rows), False, (Term(as_expr(1), over, as_expr(columns), as_expr(rows)),)),
            Iterator("vj", as_expr(columns), False, (Term(as_expr(1), over, as_expr(1), as_expr(columns)),)),
        ],
        [read("X", 0, 1), read("maximum", 0), read("sum", 0), write("Y", 0, 1)],
        flop_count=3,
    )
    return b.sketch(b.nest())


def scattered_cuda(rows: int, columns: int, blocks: int, threads: Sequence[int] = (2, 4)) -> Sketch:
    """Element-wise with a limited grid: a thread's few elements lie far apart, as TVM binds large domains."""
    b = Builder()
    width = b.choice("threads", threads)
    size = rows * columns
    b.buffer("X", (rows, columns))
    b.buffer("Y", (rows, columns))
    turns = ceildiv(size, width * blocks)
    over = ((2, width * blocks), (0, width), (1, as_expr(1)))
    b.statement(
        "add",
        Role.COMPUTE,
        [
            ("block", blocks, LoopKind.BLOCK_X),
            ("thread", width, LoopKind.THREAD_X),
            ("turn", turns, LoopKind.SERIAL),
        ],
        [
            Iterator("vi", as_expr(rows), False, (Term(as_expr(1), over, as_expr(columns), as_expr(rows)),)),
            Iterator("vj", as_expr(columns), False, (Term(as_expr(1), over, as_expr(1), as_expr(columns)),)),
        ],
        [read("X", 0, 1), write("Y", 0, 1)],
        flop_count=1,
    )
    return b.sketch(b.nest())
