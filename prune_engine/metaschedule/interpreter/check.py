"""A sketch's reading tried out: some candidates built by TVM, and their loops compared with what was read."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from prune_engine.metaschedule.tir_nest import read_nest
from prune_engine.space import Int32Array
from prune_engine.symbols.evaluate import numbers
from prune_engine.symbols.loop_nest import LoopKind
from prune_engine.symbols.structure import NestSource

#: Names of loop kinds as TVM has them.
KIND_NAMES: Final = {
    LoopKind.SERIAL: "serial",
    LoopKind.PARALLEL: "parallel",
    LoopKind.VECTORIZED: "vectorized",
    LoopKind.UNROLLED: "unrolled",
    LoopKind.BLOCK_X: "blockIdx.x",
    LoopKind.BLOCK_Y: "blockIdx.y",
    LoopKind.BLOCK_Z: "blockIdx.z",
    LoopKind.VTHREAD: "vthread.x",
    LoopKind.THREAD_X: "threadIdx.x",
    LoopKind.THREAD_Y: "threadIdx.y",
    LoopKind.THREAD_Z: "threadIdx.z",
}
#: Neighbours of these kinds are one loop in TVM.
MERGED: Final = ("parallel", "vectorized")

Shape = list[tuple[int, str]]


def merged(loops: Iterable[tuple[int, str]]) -> Shape:
    """Loops (extent, kind) without those of extent 1; neighbours that are parallel, or vectorised, as one."""
    found: Shape = []
    for extent, kind in loops:
        if extent == 1:
            continue
        if found and kind in MERGED and found[-1][1] == kind:
            found[-1] = (found[-1][0] * extent, kind)
        else:
            found.append((extent, kind))
    return found


def mismatch(nests: NestSource, indices: Int32Array, mod: Any) -> str | None:
    """What differs between one candidate, int32 (1, v), and the module TVM made of it (post-processed), or None."""
    nest = nests.groups(indices)[0].nest
    built = {
        b.name: merged((loop.extent, loop.kind) for loop in b.loops) for b in read_nest(mod).blocks if b.is_leaf
    }
    read: dict[str, Shape] = {}
    for statement in nest.statements:
        exprs = [e for loop in statement.loops for e in (loop.extent, loop.kind)]
        values = numbers(exprs, nests.tables, indices[0])
        pairs = zip(values[::2], values[1::2], strict=True)
        read[statement.name] = merged((extent, KIND_NAMES[LoopKind(kind)]) for extent, kind in pairs)
    if set(built) != set(read):
        return f"statements {', '.join(sorted(set(read)))} are {', '.join(sorted(set(built)))}"
    for name, shape in built.items():
        if read[name] != shape:
            return f"loops of {name} {read[name]} are {shape}"
    return None
