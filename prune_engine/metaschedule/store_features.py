"""TVM's per-store features, by name and in their own units.

MetaSchedule's PerStoreFeature gives a matrix of 164 columns, one row per buffer that is written, scaled by
log2(x + 1). Here are the columns that mean a quantity, scaled back. The layout is that of
src/s_tir/meta_schedule/feature_extractor/per_store_feature.cc in TVM 0.27.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from prune_engine.errors import SpaceError
from prune_engine.metaschedule._compat import import_tvm, load_intrinsics
from prune_engine.metaschedule.targets import architecture_of, make_target
from prune_engine.metaschedule.tir_nest import kernel_of
from prune_engine.metaschedule.tir_walk import LOADS, children, walk

_OPERATIONS = (
    *("float_mad", "float_add_sub", "float_mul", "float_div_mod", "float_cmp", "float_math", "float_other"),
    *("int_mad", "int_add_sub", "int_mul", "int_div_mod", "int_cmp", "int_math", "int_other"),
    *("bool", "select"),
)
#: Each has (number of loops, product of their extents, innermost extent), then a position that TVM never fills.
_LOOP_KINDS, _LOOP_KIND_WIDTH = ("vectorized", "unrolled", "parallel"), 11
_AXES = (
    *("blockIdx.x", "blockIdx.y", "blockIdx.z"),
    *("threadIdx.x", "threadIdx.y", "threadIdx.z", "vthread"),
)
_N_ACCESSES, _ACCESS_WIDTH, _N_INTENSITIES = 5, 18, 10
_FIRST_ACCESS = len(_OPERATIONS) + _LOOP_KIND_WIDTH * len(_LOOP_KINDS) + 1 + len(_AXES)
_FIRST_ALLOCATION = _FIRST_ACCESS + _N_ACCESSES * _ACCESS_WIDTH + _N_INTENSITIES
_WIDTH = _FIRST_ALLOCATION + 4 + 3


@dataclass(frozen=True, slots=True)
class AccessFeatures:
    """One buffer that a statement touches; which one, TVM does not say: they come by decreasing ``lines``.

    ``n_bytes`` is the element's bytes times all iterations, ``unique_bytes`` those of the box around every
    element touched as TVM bounds it (too small where an index is a remainder of a loop: its analyser takes
    the remainder for constant), ``stride`` in elements that of the innermost loop, ``reuse_distance_*`` and
    ``reuse_count`` those of the innermost loop that does not move the access.
    """

    kind: str  #: read, write or read_write
    n_bytes: int
    unique_bytes: int
    lines: float
    unique_lines: float
    reuse_distance_iters: float
    reuse_distance_bytes: float
    reuse_count: int
    stride: int


@dataclass(frozen=True, slots=True)
class StoreFeatures:
    """The last statement that writes ``buffer``, a constant excepted, in block ``block``.

    ``operations`` counts executions of each class over all iterations; ``loop_counts`` and
    ``loop_products`` are of the vectorised, unrolled and parallel loops around it (0 where there are none);
    ``axes`` maps launch axes to their extent, empty off a GPU. ``allocated_bytes`` is the buffer's size
    after compaction, ``iterations`` the product of all loops (thread axes too), ``n_loops`` their number.
    TVM drops serial loops of extent 1 first. At most five accesses are listed.
    """

    buffer: str
    block: str
    operations: Mapping[str, int]
    loop_counts: Mapping[str, int]
    loop_products: Mapping[str, int]
    axes: Mapping[str, int]
    accesses: tuple[AccessFeatures, ...]
    allocated_bytes: int
    iterations: int
    n_loops: int
    unroll_max_step: int


def store_features(mod: Any, target: str) -> tuple[StoreFeatures, ...]:
    """Extract a post-processed module's features. Raises SpaceError if rows and stores do not match."""
    extractor, context = _extractor(target)
    tvm = import_tvm()
    from tvm.s_tir import meta_schedule as ms

    candidate = ms.MeasureCandidate(tvm.s_tir.Schedule(mod, debug_mask="none"), [])
    matrix = extractor.extract_from(context, [candidate])[0].numpy()
    stores = _last_stores(mod)
    if len(matrix) < len(stores):
        # TVM drops loops of extent 1 first; a reduction across threads then needs no sum within a thread.
        stores = {buffer: block for buffer, block in stores.items() if not buffer.startswith("in_thread_")}
    if matrix.shape != (len(stores), _WIDTH):
        raise SpaceError(
            "TVM's features cannot be told apart",
            got=f"a matrix {matrix.shape}",
            expected=f"one row of {_WIDTH} for each of {', '.join(stores)}",
        )
    return tuple(_read(row, buffer, block) for row, (buffer, block) in zip(matrix, stores.items(), strict=True))


def _read(row: np.ndarray, buffer: str, block: str) -> StoreFeatures:
    value = np.exp2(row) - 1  # TVM's scaling; the flags among the columns are read from ``row``
    kinds = {
        kind: value[len(_OPERATIONS) + _LOOP_KIND_WIDTH * number :][:2] for number, kind in enumerate(_LOOP_KINDS)
    }
    first_axis = _FIRST_ACCESS - len(_AXES)
    is_gpu = bool(row[first_axis - 1])
    allocated, _, _, _, iterations, n_loops, unroll = value[_FIRST_ALLOCATION:]
    return StoreFeatures(
        buffer=buffer,
        block=block,
        operations=dict(zip(_OPERATIONS, _whole(value), strict=False)),
        loop_counts={kind: round(float(pair[0])) for kind, pair in kinds.items()},
        loop_products={kind: round(float(pair[1])) for kind, pair in kinds.items()},
        axes=dict(zip(_AXES, _whole(value[first_axis:]), strict=False)) if is_gpu else {},
        accesses=tuple(_accesses(row, value)),
        allocated_bytes=round(float(allocated)),
        iterations=round(float(iterations)),
        n_loops=round(float(n_loops)),
        unroll_max_step=round(float(unroll)),
    )


def _accesses(row: np.ndarray, value: np.ndarray) -> Iterator[AccessFeatures]:
    for number in range(_N_ACCESSES):
        first = _FIRST_ACCESS + number * _ACCESS_WIDTH
        flags = row[first : first + 3]
        if not flags.any():  # padding
            return
        v = [float(x) for x in value[first : first + _ACCESS_WIDTH]]
        yield AccessFeatures(
            kind=("read", "write", "read_write")[int(flags.argmax())],
            n_bytes=round(v[3]),
            unique_bytes=round(v[4]),
            lines=v[5],
            unique_lines=v[6],
            reuse_distance_iters=v[10],
            reuse_distance_bytes=v[11],
            reuse_count=round(v[12]),
            stride=round(v[17]),
        )


def _whole(values: Sequence[float] | np.ndarray) -> list[int]:
    return [round(float(v)) for v in values]


def _last_stores(mod: Any) -> dict[str, str]:
    """Buffer -> block of its last store, in the order of first stores, stores of constants left out."""
    s_tir = import_tvm().s_tir.transform
    lowered = import_tvm().transform.Sequential(
        [
            s_tir.LowerCrossThreadReduction(),
            s_tir.LowerInitBlock(),
            s_tir.PlanAndUpdateBufferAllocationLocation(),
        ]
    )(import_tvm().IRModule({"main": kernel_of(mod)}))
    names: dict[int, str] = {}
    found: dict[int, str] = {}
    for block, store in _stores(kernel_of(lowered).body, ""):
        if not _is_constant(store.value):
            key = int(store.buffer.__chandle__())
            names.setdefault(key, str(store.buffer.name))
            found[key] = block
    return {names[key]: block for key, block in found.items()}


def _stores(statement: Any, block: str) -> Iterator[tuple[str, Any]]:
    kind = type(statement).__name__
    if kind == "BufferStore":
        yield block, statement
    inside = str(statement.block.name_hint) if kind == "SBlockRealize" else block
    for part in children(statement, kind):
        yield from _stores(part, inside)


def _is_constant(value: Any) -> bool:
    """Whether TVM passes over a store of this: a number, or a choice between values that reads nothing."""
    if type(value).__name__ == "Select":
        return not any(type(e).__name__ in LOADS for e in walk(value))
    return type(value).__name__ in ("IntImm", "FloatImm")


@lru_cache(maxsize=16)
def _extractor(target: str) -> tuple[Any, Any]:
    load_intrinsics(architecture_of(target))
    from tvm.s_tir import meta_schedule as ms

    return ms.feature_extractor.PerStoreFeature(), ms.TuneContext(target=make_target(target), num_threads=1)
