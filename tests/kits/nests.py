"""Loop nests made by hand, as an adapter makes them from traces: small enough to run, real enough to time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from prune_engine.candidates import CandidateBatch
from prune_engine.space import DesignSpace, Int32Array, Sketch, Variable, VariableKind, perfect_tile_table
from prune_engine.symbols.builtin import BUILTIN_SYMBOLS
from prune_engine.symbols.evaluate import TableValues
from prune_engine.symbols.expr import Expr, ExprLike, as_expr, ceildiv, part, product, where
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
    Term,
)
from prune_engine.symbols.structure import NestGroup, canonical_by_nests
from prune_engine.symbols.table import symbol_table
from prune_engine.testing import make_task

UNROLL = (0, 16, 64, 512)


@dataclass(frozen=True)
class FixedNest:
    """A NestSource of one structure."""

    nest: LoopNest
    tables: TableValues

    def canonical(self, indices: Int32Array) -> NDArray[np.bool_]:
        return canonical_by_nests(self, indices)

    def groups(self, indices: Int32Array) -> Sequence[NestGroup]:
        return [NestGroup(self.nest, None)]


@dataclass
class Builder:
    """Variables of a sketch, the buffers and statements of its nest."""

    variables: list[Variable] = field(default_factory=list)
    buffers: dict[str, Buffer] = field(default_factory=dict)
    statements: list[Statement] = field(default_factory=list)

    def tile(self, name: str, extent: int, parts: int, limit: int = 64) -> list[Expr]:
        """A perfect tile; its factors, outermost first."""
        self.variables.append(Variable.of(name, VariableKind.TILE, perfect_tile_table(extent, parts, limit)))
        return [part(len(self.variables) - 1, n) for n in range(parts)]

    def choice(self, name: str, values: Sequence[int]) -> Expr:
        """One of some values."""
        table = np.array([[v] for v in values], dtype=np.int32)
        self.variables.append(Variable.of(name, VariableKind.CATEGORICAL, table))
        return part(len(self.variables) - 1, 0)

    def buffer(
        self,
        name: str,
        shape: Sequence[int],
        scope: str = "global",
        stored: ExprLike | None = None,
        dtype: str = "f4",
    ) -> None:
        size = int(np.prod(shape))
        item = int(dtype[1:])
        is_argument = scope == "global" and stored is None
        self.buffers[name] = Buffer(
            name, scope, dtype, item, tuple(shape), is_argument, as_expr(size if stored is None else stored)
        )

    def statement(
        self,
        name: str,
        role: Role,
        loops: Sequence[tuple[str, ExprLike, ExprLike]],
        iterators: Sequence[Iterator],
        accesses: Sequence[Access],
        *,
        flop_count: int = 0,
        unroll: ExprLike = 0,
        shared: int = 0,
    ) -> None:
        made = tuple(Loop(n, as_expr(extent), as_expr(kind)) for n, extent, kind in loops)
        self.statements.append(
            Statement(
                name,
                role,
                made,
                tuple(iterators),
                tuple(accesses),
                flop_count,
                as_expr(unroll),
                n_shared_with_previous=shared,
            )
        )

    def nest(self, *, is_refused: ExprLike = 0) -> LoopNest:
        return LoopNest(tuple(self.statements), self.buffers, as_expr(is_refused), as_expr(1))

    def sketch(self, nest: LoopNest) -> Sketch:
        sketch = Sketch(0, "hand-made", tuple(self.variables))
        return replace(sketch, nests=FixedNest(nest, TableValues(sketch)))


def batch_of(sketch: Sketch, indices: Int32Array) -> CandidateBatch:
    """Candidates of a hand-made sketch, with the built-in symbols."""
    return CandidateBatch(DesignSpace(make_task(), (sketch,), symbol_table(BUILTIN_SYMBOLS)), sketch, indices)


def random_rows(sketch: Sketch, n: int, seed: int = 0) -> Int32Array:
    """Random candidates, int32 (n, v)."""
    rng = np.random.default_rng(seed)
    columns = [rng.integers(0, len(v.table), n, dtype=np.int32) for v in sketch.variables]
    return np.stack(columns, axis=1) if columns else np.empty((n, 0), dtype=np.int32)


def tiled(name: str, factors: Sequence[Expr], loops: Sequence[int], is_reduction: bool = False) -> Iterator:
    """An iterator split into plain loops: ``loops[n]`` runs over ``factors[n]``, outermost first."""
    terms = [
        Term(product(factors[n + 1 :]), ((loop, as_expr(1)),), as_expr(1), factors[n])
        for n, loop in enumerate(loops)
    ]
    return Iterator(name, product(factors), is_reduction, tuple(terms))


def sized(iterator: Iterator, extent: int) -> Iterator:
    """The iterator with its extent as a number."""
    return replace(iterator, extent=as_expr(extent))


def digits_of(loop: int, extents: Sequence[Expr]) -> list[Term]:
    """The digits of a fused loop over loops of these extents, outermost first, each a term of stride 1."""
    return [
        Term(as_expr(1), ((loop, as_expr(1)),), product(extents[n + 1 :]), extent)
        for n, extent in enumerate(extents)
    ]


def at(*iterators: int | tuple[int, int] | tuple[tuple[int, int], ...], offset: int = 0) -> Index:
    """An index: iterators by number, or pairs of number and coefficient, added up."""
    pairs: list[tuple[int, int]] = []
    for it in iterators:
        if isinstance(it, int):
            pairs.append((it, 1))
        else:
            pairs.append(it)  # type: ignore[arg-type]
    return Index(tuple(pairs), offset)


def read(buffer: str, *indices: Index | int) -> Access:
    return Access(buffer, tuple(at(i) if isinstance(i, int) else i for i in indices), False)


def write(buffer: str, *indices: Index | int) -> Access:
    return Access(buffer, tuple(at(i) if isinstance(i, int) else i for i in indices), True)


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


def split_iterator(name: str, extent: int, first_loop: int, width: Expr) -> Iterator:
    """An iterator over a loop split in two, the outer one rounded up: loops ``first_loop`` and the next."""
    over = ((first_loop, width), (first_loop + 1, as_expr(1)))
    return Iterator(name, as_expr(extent), False, (Term(as_expr(1), over, as_expr(1), as_expr(extent)),))


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


SMALL: dict[str, Callable[[], Sketch]] = {
    "gemm-cpu": lambda: gemm_cpu(6, 8, 4, jobs=4),
    "gemm-cuda": lambda: gemm_cuda(4, 6, 4, threads=(1, 8)),
    "conv-cpu": lambda: conv_cpu(4, 2, 2),
    "conv-cpu-strided": lambda: conv_cpu(2, 2, 4, stride=2),
    "conv-cuda": lambda: conv_cuda(4, 2, 2),
    "conv-cuda-strided": lambda: conv_cuda(2, 2, 4, stride=2),
    "softmax-cuda": lambda: softmax_cuda(3, 8),
    "scattered-cuda": lambda: scattered_cuda(6, 8, 3),
    "stencil-cpu": lambda: stencil_cpu(6),
}
