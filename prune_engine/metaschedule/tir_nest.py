"""Scheduled TIR read back: loop nests, blocks, accesses and buffers as plain values.

This reads a module after its schedule and post-processors and before lowering. It is what a prediction of
the same schedule is compared with, so it reports what stands there and derives nothing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any

from prune_engine.errors import SpaceError
from prune_engine.metaschedule.tir_affine import Affine, affine_of, integer_of
from prune_engine.metaschedule.traces import plain

_KIND_NAMES = ("serial", "parallel", "vectorized", "unrolled")
_ITER_KINDS = {0: "S", 2: "R"}  # tvm.tirx.IterVar.DataPar, CommReduce


@dataclass(frozen=True, slots=True)
class TirBuffer:
    """A buffer that a block allocates. ``shape`` is as declared: lowering compacts it later.

    ``strides`` are in elements, empty where rows follow one another without padding.
    """

    name: str
    scope: str
    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...] = ()

    @property
    def n_elements(self) -> int:
        """Elements it takes up, padding included."""
        return self.strides[0] * self.shape[0] if self.strides else math.prod(self.shape)


@dataclass(frozen=True, slots=True)
class TirLoop:
    """One loop. ``kind`` is serial, parallel, vectorized, unrolled or the thread axis it is bound to.

    Names are not unique; ``node`` is TVM's For, which takes no part in comparisons.
    """

    var: str
    extent: int
    kind: str
    annotations: dict[str, Any] = field(default_factory=dict)
    node: Any = field(default=None, repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class TirIter:
    """An axis of a block's domain: ``kind`` is "S" (spatial), "R" (reduction) or TVM's number of another."""

    name: str
    extent: int
    kind: str


@dataclass(frozen=True, slots=True)
class TirAccess:
    """A region that a block reads or writes, as its signature declares it.

    ``starts`` are the regions' first indices in the block's axes, outermost dimension first, None where
    not affine; ``extents`` their lengths, None where not constant.
    """

    buffer: str
    scope: str
    dtype: str
    extents: tuple[int | None, ...]
    starts: tuple[Affine | None, ...]


@dataclass(frozen=True, slots=True)
class TirBlock:
    """One block with all loops around it, outermost first, up to the root.

    ``parent`` is the position of the block it is nested in (a blockized one), None directly under the root.
    ``body_loops`` are the loops inside a block that holds no further block (hand-written intrinsics).
    ``node`` is TVM's SBlockRealize, for whoever needs the bindings; it takes no part in comparisons.
    """

    name: str
    loops: tuple[TirLoop, ...]
    iters: tuple[TirIter, ...]
    reads: tuple[TirAccess, ...]
    writes: tuple[TirAccess, ...]
    has_predicate: bool
    has_init: bool
    annotations: dict[str, Any]
    parent: int | None = None
    is_leaf: bool = True
    body_loops: tuple[TirLoop, ...] = ()
    node: Any = field(default=None, repr=False, compare=False)

    def significant(self) -> tuple[TirLoop, ...]:
        """The loops around it that do something: those of extent 1 left out."""
        return tuple(loop for loop in self.loops if loop.extent != 1)


@dataclass(frozen=True, slots=True)
class TirNest:
    """A kernel: its blocks in pre-order without the root, and every buffer allocated in it."""

    blocks: tuple[TirBlock, ...]
    buffers: tuple[TirBuffer, ...]
    root_annotations: dict[str, Any]

    def block(self, name: str) -> TirBlock:
        """The first block of that name. Raises KeyError."""
        for block in self.blocks:
            if block.name == name:
                return block
        raise KeyError(f"no block {name!r}; there are {', '.join(b.name for b in self.blocks)}")


def read_nest(mod: Any) -> TirNest:
    """Read a module with one kernel. Raises SpaceError if its loops are not of constant extent from 0."""
    reader = _Reader()
    reader.visit(kernel_of(mod).body)
    return TirNest(tuple(reader.blocks), tuple(reader.buffers), reader.root_annotations)


def kernel_of(mod: Any) -> Any:
    """The PrimFunc of a module: ``main``, or the only one. Raises SpaceError."""
    functions = {str(variable.name_hint): function for variable, function in mod.functions.items()}
    kernel = functions.get("main") or (next(iter(functions.values())) if len(functions) == 1 else None)
    if kernel is None or not hasattr(kernel, "body"):
        raise SpaceError(
            "a module is read kernel by kernel",
            got=f"functions {', '.join(functions) or '(none)'}",
            expected="one PrimFunc, or one called main",
        )
    return kernel


class _Reader:
    """A walk through the statements; node types are told by name, so that nothing is imported."""

    def __init__(self) -> None:
        self.blocks: list[TirBlock] = []
        self.buffers: list[TirBuffer] = []
        self.root_annotations: dict[str, Any] = {}
        self._loops: list[TirLoop] = []
        self._parent: int | None = None
        self._is_in_root = False
        # A buffer is met many times, its attributes cost microseconds.
        self._known: dict[int, TirBuffer] = {}

    def visit(self, statement: Any) -> None:
        kind = type(statement).__name__
        if kind == "For":
            self._loops.append(_loop(statement))
            self.visit(statement.body)
            self._loops.pop()
        elif kind == "SeqStmt":
            for part in statement.seq:
                self.visit(part)
        elif kind == "SBlockRealize":
            self._visit_block(statement)
        elif kind == "IfThenElse":
            self.visit(statement.then_case)
            if statement.else_case is not None:
                self.visit(statement.else_case)
        elif kind in ("AttrStmt", "While"):
            self.visit(statement.body)

    def _visit_block(self, realize: Any) -> None:
        block = realize.block
        self.buffers.extend(map(self._buffer, block.alloc_buffers))
        if not self._is_in_root:
            self._is_in_root = True
            self.root_annotations = _annotations(block)
            if not len(block.iter_vars):
                self.visit(block.body)
                return
        position, loops = len(self.blocks), tuple(self._loops)
        made = TirBlock(
            name=str(block.name_hint),
            loops=loops,
            iters=tuple(_iter(axis) for axis in block.iter_vars),
            reads=tuple(map(self._access, block.reads)),
            writes=tuple(map(self._access, block.writes)),
            has_predicate=integer_of(realize.predicate) != 1,
            has_init=block.init is not None,
            annotations=_annotations(block),
            parent=self._parent,
            node=realize,
        )
        self.blocks.append(made)
        body = block.body
        if type(body).__name__ == "BufferStore":  # nearly all
            return
        outer, self._parent = self._parent, position
        self.visit(body)
        self._parent = outer
        if len(self.blocks) > position + 1:
            self.blocks[position] = replace(made, is_leaf=False)
        elif inner := _loops_in(body):
            self.blocks[position] = replace(made, body_loops=inner)

    def _access(self, region: Any) -> TirAccess:
        buffer = self._buffer(region.source)
        ranges = list(region.region)
        return TirAccess(
            buffer.name,
            buffer.scope,
            buffer.dtype,
            tuple(integer_of(r.extent) for r in ranges),
            tuple(affine_of(r.min) for r in ranges),
        )

    def _buffer(self, variable: Any) -> TirBuffer:
        key = int(variable.__chandle__())
        if key not in self._known:
            self._known[key] = buffer_of(variable)
        return self._known[key]


def buffer_of(variable: Any) -> TirBuffer:
    """A buffer variable of TVM as values. Raises SpaceError for a shape that is not constant."""
    declared = variable.ty
    name = str(variable.name)
    return TirBuffer(
        name,
        str(declared.storage_scope) or "global",
        str(declared.dtype.dtype),
        _constants(declared.shape, name),
        _constants(declared.strides, name),
    )


def _constants(lengths: Any, buffer: str) -> tuple[int, ...]:
    values = tuple(number for number in map(integer_of, lengths) if number is not None)
    if len(values) != len(lengths):
        raise SpaceError("a buffer of unknown size", who=f"buffer {buffer}", got=list(lengths))
    return values


def _loop(loop: Any) -> TirLoop:
    name, extent = str(loop.loop_var.name), integer_of(loop.extent)
    if extent is None or integer_of(loop.min) != 0:
        raise SpaceError(
            "a loop cannot be read",
            who=f"loop {name}",
            got=f"from {loop.min}, extent {loop.extent}",
            expected="a constant extent, from 0",
        )
    number = int(loop.kind)
    kind = _KIND_NAMES[number] if number < len(_KIND_NAMES) else str(loop.thread_binding.thread_tag)
    return TirLoop(name, extent, kind, _annotations(loop), loop)


def _loops_in(statement: Any) -> tuple[TirLoop, ...]:
    """Loops of a block's body, in pre-order."""
    kind = type(statement).__name__
    if kind == "For":
        return (_loop(statement), *_loops_in(statement.body))
    if kind == "SeqStmt":
        return tuple(loop for part in statement.seq for loop in _loops_in(part))
    if kind == "IfThenElse":
        otherwise = statement.else_case
        return (*_loops_in(statement.then_case), *(_loops_in(otherwise) if otherwise is not None else ()))
    return _loops_in(statement.body) if kind in ("AttrStmt", "While") else ()


def _iter(axis: Any) -> TirIter:
    extent = integer_of(axis.dom.extent)
    name = str(axis.var.name)
    if extent is None:
        raise SpaceError("an axis of unknown extent", who=f"axis {name}", got=axis.dom.extent)
    number = int(axis.iter_type)
    return TirIter(name, extent, _ITER_KINDS.get(number, str(number)))


def _annotations(node: Any) -> dict[str, Any]:
    found = node.annotations
    return {str(key): _plain_or_text(value) for key, value in found.items()} if len(found) else {}


def _plain_or_text(value: Any) -> Any:
    try:
        return plain(value)
    except SpaceError:  # a buffer, an expression: nothing that a schedule decides
        return str(value)
