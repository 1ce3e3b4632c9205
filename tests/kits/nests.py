"""Loop nests made by hand, as an adapter makes them from traces: small enough to run, real enough to time."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from kits.nest_parts import UNROLL as UNROLL
from kits.nest_parts import Builder as Builder
from kits.nest_parts import FixedNest as FixedNest
from kits.nest_parts import at as at
from kits.nest_parts import digits_of as digits_of
from kits.nest_parts import read as read
from kits.nest_parts import sized as sized
from kits.nest_parts import split_iterator as split_iterator
from kits.nest_parts import tiled as tiled
from kits.nest_parts import write as write
from kits.nests_cpu import conv_cpu as conv_cpu
from kits.nests_cpu import gemm_cpu as gemm_cpu
from kits.nests_cpu import stencil_cpu as stencil_cpu
from kits.nests_cuda import conv_cuda as conv_cuda
from kits.nests_cuda import gemm_cuda as gemm_cuda
from kits.nests_cuda import scattered_cuda as scattered_cuda
from kits.nests_cuda import softmax_cuda as softmax_cuda

from prune_engine.candidates import CandidateBatch
from prune_engine.space import DesignSpace, Int32Array, Sketch
from prune_engine.symbols.builtin import BUILTIN_SYMBOLS
from prune_engine.symbols.table import symbol_table
from prune_engine.testing import make_task


def batch_of(sketch: Sketch, indices: Int32Array) -> CandidateBatch:
    """Candidates of a hand-made sketch, with the built-in symbols."""
    return CandidateBatch(DesignSpace(make_task(), (sketch,), symbol_table(BUILTIN_SYMBOLS)), sketch, indices)


def gemm_batch(*rows: Sequence[Sequence[int]], size: int = 512, sketch: Sketch | None = None) -> CandidateBatch:
    """Candidates of a GEMM by their decisions: tiles of i, j and k, and the unroll limit."""
    sketch = sketch or gemm_cpu(size, size, size)
    indices = []
    for row in rows:
        found = [variable.index_of(decision) for variable, decision in zip(sketch.variables, row, strict=True)]
        assert None not in found, row
        indices.append(found)
    return batch_of(sketch, np.array(indices, dtype=np.int32))


def random_rows(sketch: Sketch, n: int, seed: int = 0) -> Int32Array:
    """Random candidates, int32 (n, v)."""
    rng = np.random.default_rng(seed)
    columns = [rng.integers(0, len(v.table), n, dtype=np.int32) for v in sketch.variables]
    return np.stack(columns, axis=1) if columns else np.empty((n, 0), dtype=np.int32)


#: Small enough to run element by element.
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
