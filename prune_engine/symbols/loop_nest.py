"""The loop nest that runs, for n candidates at once: extents and kinds of loops are expressions of the decisions.

A nest is what an adapter made of one sketch (under one set of compute locations): all statements in program
order, each with its loops, how its iterators follow from them, and what it reads and writes.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from enum import IntEnum

from prune_engine.symbols.expr import ZERO, Expr, as_expr, either, product, where


class LoopKind(IntEnum):
    """How a loop runs. ``Loop.kind`` is an expression of these numbers."""

    SERIAL = 0
    PARALLEL = 1
    VECTORIZED = 2
    UNROLLED = 3
    BLOCK_X = 4
    BLOCK_Y = 5
    BLOCK_Z = 6
    VTHREAD = 7
    THREAD_X = 8
    THREAD_Y = 9
    THREAD_Z = 10


#: Kinds by role on a GPU.
BLOCK_KINDS = (LoopKind.BLOCK_X, LoopKind.BLOCK_Y, LoopKind.BLOCK_Z)
THREAD_KINDS = (LoopKind.THREAD_X, LoopKind.THREAD_Y, LoopKind.THREAD_Z)


@dataclass(frozen=True, slots=True)
class Loop:
    """One loop around a statement. ``extent`` >= 1; adjacent parallel (or vectorised) loops run as one.

    A loop that only some candidates have has extent 1 in the others.
    """

    name: str
    extent: Expr
    kind: Expr


@dataclass(frozen=True, slots=True)
class Term:
    """One summand of an iterator: ``stride * ((start + sum of loop * flat_stride) // divisor % modulus)``.

    ``over`` holds pairs of a loop's number in the statement and its flat stride. A plain loop is
    ``over=((number, 1),)``, divisor 1, modulus its extent; an iterator that a fused loop carries is one digit
    of it.
    """

    stride: Expr
    over: tuple[tuple[int, Expr], ...]
    divisor: Expr
    modulus: Expr
    #: (divisor, modulus) of each loop in ``over`` that stands for one digit of itself; empty: whole loops.
    digits: tuple[tuple[Expr, Expr], ...] = ()
    #: Constant inside the sum.
    start: Expr = ZERO


@dataclass(frozen=True, slots=True)
class Iterator:
    """A statement's iterator (block variable): domain [0, extent), reduction or spatial, start + sum of terms."""

    name: str
    extent: Expr
    is_reduction: bool
    terms: tuple[Term, ...]
    start: Expr = ZERO


@dataclass(frozen=True, slots=True)
class Index:
    """One dimension of an access: ``sum of coefficient * iterator + offset``, ``width`` elements from there.

    ``coefficients`` pairs the iterator's number with an integer. ``coefficients`` is None when the index is
    not affine: anything in the dimension may be touched.
    """

    coefficients: tuple[tuple[int, int], ...] | None
    offset: int = 0
    width: int = 1


@dataclass(frozen=True, slots=True)
class Buffer:
    """A tensor in memory. ``scope`` as TVM names it: global, shared, shared.dyn, local, wmma.matrix_a, ...

    ``is_argument`` tells the kernel's inputs and outputs from what it allocates. ``stored_elements`` is how
    many elements are allocated for one instance (after compaction to what is live); for an argument the
    whole tensor.
    """

    name: str
    scope: str
    dtype: str
    item_bytes: int
    shape: tuple[int, ...]
    is_argument: bool
    stored_elements: Expr


@dataclass(frozen=True, slots=True)
class Access:
    """A read or a write of a buffer by one instance of a statement: one Index per dimension."""

    buffer: str
    indices: tuple[Index, ...]
    is_write: bool


class Role(IntEnum):
    """What a statement does."""

    COMPUTE = 0  #: its own value once per instance (element-wise, padding, a copy with arithmetic)
    INIT = 1  #: sets a reduction's start value
    UPDATE = 2  #: one step of a reduction
    COPY = 3  #: moves data between buffers, nothing else


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement with all loops around it, outermost first.

    ``flop_count`` is the floating-point (or integer multiply/add) operations of one instance. ``unroll_steps``
    is the limit of the unroll pragma over it (0: none). ``vector_bytes`` of a cooperative fetch follow
    from its vectorised loop. ``instances`` is the product of the extents, padding of imperfect splits included.
    ``is_tensorized`` says that one instance is a whole matrix instruction: ``tile`` is then its m, n, k.
    """

    name: str
    role: Role
    loops: tuple[Loop, ...]
    iterators: tuple[Iterator, ...]
    accesses: tuple[Access, ...]
    flop_count: int
    unroll_steps: Expr
    tile: tuple[int, int, int] | None = None
    #: How many of the loops, from outside, are shared with the statement before it in the program.
    n_shared_with_previous: int = 0
    annotations: dict[str, object] = field(default_factory=dict)
    #: How many of its operations call a library's function (an exponential), which takes as long as tens of others.
    call_count: int = 0
    #: What symbols made of it alone. Statements of other structures share it that differ in kinds of loops at most:
    #: what depends on kinds says so in its key.
    formulas: dict[object, Expr] = field(default_factory=dict, init=False, repr=False, compare=False)

    def share_formulas(self, known: dict[object, dict[object, Expr]]) -> None:
        """Have one ``formulas`` with all statements of the same extents, iterators and accesses in ``known``."""
        key = tuple(loop.extent for loop in self.loops), self.iterators, self.accesses
        object.__setattr__(self, "formulas", known.setdefault(key, self.formulas))

    @property
    def kinds(self) -> tuple[Expr, ...]:
        """Of its loops."""
        return tuple(loop.kind for loop in self.loops)

    @property
    def instances(self) -> Expr:
        """How often it runs, all threads and blocks together."""
        return product(loop.extent for loop in self.loops)

    def extent_of(self, kinds: Collection[LoopKind]) -> Expr:
        """Product of the extents of loops of these kinds (1 if there are none)."""
        return product(extent_if(loop, kinds) for loop in self.loops)


@dataclass(frozen=True, slots=True)
class Pipeline:
    """A software-pipelined loop: the stage of each child statement, in order (TVM's annotation)."""

    loop: str
    stages: tuple[int, ...]
    order: tuple[int, ...]
    async_stages: tuple[int, ...]


@dataclass(frozen=True, slots=True, eq=False)
class LoopNest:
    """All statements of a kernel in program order, its buffers by name, and what TVM will refuse.

    ``is_refused`` is 1 where a post-processor rejects the candidate before any code is generated (thread
    extents out of their range, a schedule that cannot be parallelised). ``is_canonical`` is 1 where the
    decisions are those that run: a compute location that does not exist under the tiles is repaired to
    another one, which is a candidate of its own.
    """

    statements: tuple[Statement, ...]
    buffers: dict[str, Buffer]
    is_refused: Expr
    is_canonical: Expr
    pipelines: tuple[Pipeline, ...] = ()
    #: 1 where TVM may refuse the candidate although ``is_refused`` is 0: it has to be asked.
    is_unsure: Expr = ZERO
    #: Why a candidate is refused -> 1 where it is for that reason.
    refusals: dict[str, Expr] = field(default_factory=dict)
    #: Shared memory of a block, in the kernel with most, where buffers lie over each other; None: side by side.
    laid_out_shared_bytes: Expr | None = None
    #: What symbols made of this nest, by symbol name.
    formulas: dict[str, Expr] = field(default_factory=dict, repr=False)

    def statement(self, name: str) -> Statement:
        """The statement of that name. Raises KeyError."""
        found = next((s for s in self.statements if s.name == name), None)
        if found is None:
            raise KeyError(f"no statement {name!r}; there are {', '.join(s.name for s in self.statements)}")
        return found


def extent_if(loop: Loop, kinds: Collection[LoopKind]) -> Expr:
    """The loop's extent where it is of one of these kinds, else 1."""
    known = loop.kind.constant
    if known is not None:
        return loop.extent if known in kinds else as_expr(1)
    condition = as_expr(0)
    for kind in kinds:
        condition = either(condition, loop.kind.eq(int(kind)))
    return where(condition, loop.extent, 1)


def plain_term(number: int, loop: Loop, stride: Expr) -> Term:
    """The term of an iterator that follows one loop directly."""
    return Term(stride, ((number, as_expr(1)),), as_expr(1), loop.extent)
