"""What a kernel allocates and launches once it is lowered, read from TVM's own passes.

The passes are those of MetaSchedule's VerifyGPUCode, in its order, so that the bytes are the ones that
decide whether a GPU kernel is accepted. They cost 5-100 ms a kernel.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from prune_engine.errors import SpaceError
from prune_engine.metaschedule._compat import import_tvm
from prune_engine.metaschedule.materialise import SCHEDULE_ERRORS, last_line
from prune_engine.metaschedule.targets import make_target
from prune_engine.metaschedule.tir_nest import TirBuffer, buffer_of, kernel_of
from prune_engine.metaschedule.tir_walk import LOADS, children, expressions_of, statements, walk

_LAUNCH_ATTRIBUTES = ("thread_extent", "virtual_thread")


@dataclass(frozen=True, slots=True)
class LoweredKernel:
    """One launch of a device, or the whole function on a processor.

    ``buffers`` are those allocated in it after storage was shared. ``shared_bytes`` and ``local_bytes`` are
    their sums per block and per thread, as VerifyGPUCode adds them up: scopes shared and shared.dyn are
    shared, scope local is local; wmma fragments count as neither. ``threads`` and ``grid`` map axes such as
    "threadIdx.x" to the extent met first; ``mismatches`` are axes that also appear with another extent.
    ``virtual_threads`` maps "vthread.x" to its extent. ``max_vector_bytes`` is the widest vector that is
    loaded, stored, cast or allocated, 0 if everything is scalar.
    """

    buffers: tuple[TirBuffer, ...]
    shared_bytes: int
    local_bytes: int
    threads: Mapping[str, int]
    grid: Mapping[str, int]
    virtual_threads: Mapping[str, int]
    mismatches: tuple[str, ...]
    max_vector_bytes: int

    @property
    def n_threads(self) -> int:
        """Threads per block."""
        return math.prod(self.threads.values())


@dataclass(frozen=True, slots=True)
class LoweredModules:
    """A kernel before its virtual threads are resolved, and as VerifyGPUCode sees it."""

    early: Any
    late: Any


def lowered_memory(mod: Any, target: str) -> list[LoweredKernel]:
    """Lower a post-processed GPU module as VerifyGPUCode does; one entry per kernel it launches.

    Raises SpaceError where lowering fails, which VerifyGPUCode counts as a refusal.
    """
    lowered = lower_for_gpu(mod, target)
    kernels: list[_Found] = []
    for launch in _launches(kernel_of(lowered.early).body):
        kernels.append(_Found())
        kernels[-1].read_virtual_threads(launch)
    launches = list(_launches(kernel_of(lowered.late).body))
    if len(launches) != len(kernels):
        raise SpaceError("lowering changed the number of kernels", got=len(launches), expected=str(len(kernels)))
    for found, launch in zip(kernels, launches, strict=True):
        found.read(launch)
    return [found.kernel() for found in kernels]


def compacted_buffers(mod: Any, *, is_gpu: bool) -> tuple[TirBuffer, ...]:
    """The buffers a kernel allocates, with the shapes that are left of them after compaction.

    One entry per intermediate buffer, in pre-order, before storage is shared between them and before software
    pipelines multiply them. Both compilation paths compact in the same way; ``is_gpu`` leaves the loops as
    VerifyGPUCode does. Raises SpaceError where a pass fails.
    """
    return _buffers_after(mod, _compaction_passes() if is_gpu else _cpu_compaction_passes())


def pipelined_buffers(mod: Any) -> tuple[TirBuffer, ...]:
    """The same for a GPU once software pipelines keep several versions of what they fetch.

    Before virtual threads multiply what each thread owns. Raises SpaceError where a pass fails.
    """
    return _buffers_after(mod, [*_compaction_passes(), *_pipelining_passes()])


def buffer_bytes(buffer: TirBuffer) -> int:
    """Bytes of a buffer, padding included."""
    return buffer.n_elements * _dtype_bytes(buffer.dtype)


def lower_for_gpu(mod: Any, target: str) -> LoweredModules:
    """Run VerifyGPUCode's passes. Raises SpaceError where one fails."""
    kernel = kernel_of(mod).with_attr("target", make_target(target))
    early = _run([*_compaction_passes(), *_pipelining_passes(), *_flattening_passes()], _as_module(kernel))
    return LoweredModules(early, _run(_final_passes(), early))


@dataclass(slots=True)
class _Found:
    """What has been met of one kernel so far."""

    buffers: list[TirBuffer] = field(default_factory=list)
    threads: dict[str, int] = field(default_factory=dict)
    grid: dict[str, int] = field(default_factory=dict)
    virtual_threads: dict[str, int] = field(default_factory=dict)
    mismatches: set[str] = field(default_factory=set)
    max_vector_bytes: int = 0

    def read_virtual_threads(self, launch: Any) -> None:
        for statement in statements(launch):
            if type(statement).__name__ == "AttrStmt" and str(statement.attr_key) == "virtual_thread":
                self.virtual_threads[str(statement.node.thread_tag)] = int(statement.value.value)

    def read(self, launch: Any) -> None:
        for statement in statements(launch):
            kind = type(statement).__name__
            if kind == "AttrStmt" and str(statement.attr_key) in _LAUNCH_ATTRIBUTES:
                self._launch_axis(str(statement.node.var.name), int(statement.value.value))
            elif kind == "AllocBuffer":
                buffer = buffer_of(statement.buffer)
                self.buffers.append(buffer)
                self._vector(buffer.dtype)
            else:
                self._read_expressions(statement, kind)

    def kernel(self) -> LoweredKernel:
        def total(is_counted: Callable[[str], bool]) -> int:
            return sum(buffer_bytes(buffer) for buffer in self.buffers if is_counted(buffer.scope))

        return LoweredKernel(
            buffers=tuple(self.buffers),
            shared_bytes=total(lambda scope: scope in ("shared", "shared.dyn")),
            local_bytes=total(lambda scope: scope == "local"),
            threads=self.threads,
            grid=self.grid,
            virtual_threads=self.virtual_threads,
            mismatches=tuple(sorted(self.mismatches)),
            max_vector_bytes=self.max_vector_bytes,
        )

    def _launch_axis(self, name: str, extent: int) -> None:
        axes = self.grid if name.startswith("blockIdx") else self.threads
        if axes.setdefault(name, extent) != extent:
            self.mismatches.add(name)

    def _read_expressions(self, statement: Any, kind: str) -> None:
        if kind == "BufferStore":  # as wide as what it stores
            self._vector(_dtype_of(statement.value))
        for root in expressions_of(statement, kind):
            for expression in walk(root):
                if type(expression).__name__ in (*LOADS, "Cast"):
                    self._vector(_dtype_of(expression))

    def _vector(self, dtype: str | None) -> None:
        if dtype is not None and "x" in dtype:
            self.max_vector_bytes = max(self.max_vector_bytes, _dtype_bytes(dtype))


def _as_module(kernel: Any) -> Any:
    tvm = import_tvm()
    kernel = kernel.with_attr("global_symbol", "main").with_attr("tirx.noalias", True)
    return tvm.IRModule({"main": kernel})


def _run(passes: list[Any], mod: Any) -> Any:
    try:
        return import_tvm().transform.Sequential(passes)(mod)
    except SCHEDULE_ERRORS as error:
        raise SpaceError(f"a kernel cannot be lowered: {last_line(str(error))}") from error


def _compaction_passes() -> list[Any]:
    t = _transforms().s_tir
    return [
        t.LowerCrossThreadReduction(),
        t.LowerInitBlock(),
        t.PlanAndUpdateBufferAllocationLocation(),
        t.ConvertBlocksToOpaque(),
        t.LiftThreadBinding(),
        t.ManifestSharedMemoryLocalStage(),
        t.CompactBufferAllocation(),
    ]


def _cpu_compaction_passes() -> list[Any]:
    return [_transforms().s_tir.CanonicalizeLoop(), *_compaction_passes()]


def _pipelining_passes() -> list[Any]:
    s, t = _transforms().s_tir, _transforms().tirx
    return [
        t.StmtSimplify(),
        s.LowerAutoCopy(),
        s.UnifyThreadBinding(),
        s.LowerMatchBuffer(),
        s.InjectSoftwarePipeline(),
    ]


def _flattening_passes() -> list[Any]:
    s, t = _transforms().s_tir, _transforms().tirx
    return [
        s.LowerOpaqueBlock(),
        t.FlattenBuffer(),
        t.BF16ComputeLegalize(),
        t.NarrowDataType(32),
        t.StmtSimplify(),
        t.VectorizeLoop(True),
    ]


def _final_passes() -> list[Any]:
    s, t = _transforms().s_tir, _transforms().tirx
    return [
        s.InjectVirtualThread(),
        s.InjectDoubleBuffer(),
        t.StorageRewrite(),
        s.MergeSharedMemoryAllocations(),
        t.LowerIntrin(),
    ]


@dataclass(frozen=True, slots=True)
class _Transforms:
    s_tir: Any
    tirx: Any


@lru_cache(maxsize=1)
def _transforms() -> _Transforms:
    tvm = import_tvm()
    return _Transforms(tvm.s_tir.transform, tvm.tirx.transform)


def _launches(body: Any) -> Iterator[Any]:
    """The outermost launch attributes of a function: each begins a kernel."""
    kind = type(body).__name__
    if kind == "AttrStmt" and str(body.attr_key) in _LAUNCH_ATTRIBUTES:
        yield body
        return
    for part in children(body, kind):
        yield from _launches(part)


def _buffers_after(mod: Any, passes: list[Any]) -> tuple[TirBuffer, ...]:
    return tuple(_block_buffers(kernel_of(_run(passes, _as_module(kernel_of(mod)))).body))


def _block_buffers(statement: Any) -> Iterator[TirBuffer]:
    for found in statements(statement):
        if type(found).__name__ == "SBlockRealize":
            yield from map(buffer_of, found.block.alloc_buffers)


def _dtype_of(expression: Any) -> str | None:
    declared = getattr(expression.ty, "dtype", None)
    return None if declared is None else str(declared)


@lru_cache(maxsize=256)
def _dtype_bytes(dtype: str) -> int:
    made = import_tvm().DataType(dtype)
    return (int(made.bits) * int(made.lanes) + 7) // 8
