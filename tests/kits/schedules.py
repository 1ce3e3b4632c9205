"""A small kernel scheduled by hand: every number about it is known beforehand."""

from __future__ import annotations

from typing import Any

from prune_engine.metaschedule._compat import import_tvm


def product_mod(m: int = 64, n: int = 32, k: int = 16) -> Any:
    """C[i, j] = sum over k of A[i, k] * B[k, j], then D = max(C + 1, 0); an IRModule."""
    tvm = import_tvm()
    from tvm import te

    a, b = te.placeholder((m, k), name="A"), te.placeholder((k, n), name="B")
    r = te.reduce_axis((0, k), name="k")
    c = te.compute((m, n), lambda i, j: te.sum(a[i, r] * b[r, j], axis=r), name="C")
    d = te.compute((m, n), lambda i, j: te.max(c[i, j] + 1.0, 0.0), name="D")
    return tvm.IRModule({"main": te.create_prim_func([a, b, d])})


def on_processor() -> Any:
    """Four chunks of 16 rows in parallel, C beside its consumer, k by 4 x 4, 8 columns vectorised; a Schedule."""
    sch = import_tvm().s_tir.Schedule(product_mod(), debug_mask="none")
    c, d = sch.get_sblock("C"), sch.get_sblock("D")
    i, j = sch.get_loops(d)
    i0, _ = sch.split(i, [4, 16])
    sch.parallel(i0)
    sch.annotate(i0, "pragma_auto_unroll_max_step", 64)
    j0, j1 = sch.split(j, [None, 8])
    sch.compute_at(c, j0)
    sch.vectorize(j1)
    *_, k = sch.get_loops(c)
    sch.split(k, [4, 4])
    return sch


def on_gpu(threads: int = 32, lanes: int = 2, low: int = 32) -> Any:
    """Blocks of ``threads`` rows x 8 columns, two virtual threads on the columns, A staged; a Schedule.

    A's rows come into shared memory in vectors of ``lanes``; ``low`` is the least number of threads that
    the kernel says it wants.
    """
    sch = import_tvm().s_tir.Schedule(product_mod(), debug_mask="none")
    c, d = sch.get_sblock("C"), sch.get_sblock("D")
    i, j = sch.get_loops(d)
    i0, i1 = sch.split(i, [None, threads])
    j0, virtual, _ = sch.split(j, [None, 2, 4])
    sch.reorder(i0, j0, virtual, i1)
    sch.bind(sch.fuse(i0, j0), "blockIdx.x")
    sch.bind(virtual, "vthread.x")
    sch.bind(i1, "threadIdx.x")
    sch.set_scope(c, 0, "local")
    sch.compute_at(c, i1)
    staged = sch.cache_read(c, 0, "shared")
    sch.compute_at(staged, i1)
    _, thread, lane = sch.split(sch.fuse(*sch.get_loops(staged)[-2:]), [None, threads, lanes])
    sch.bind(thread, "threadIdx.x")
    sch.vectorize(lane)
    for name, value in (("low", low), ("high", 1024)):
        sch.annotate(c, f"meta_schedule.thread_extent_{name}_inclusive", value)
    return sch


def pipelined_on_gpu(stage: int) -> Any:
    """A row per thread, A fetched for 4 steps of k at a time; the product is ``stage`` stages behind the fetch."""
    sch = import_tvm().s_tir.Schedule(product_mod(), debug_mask="none")
    c, d = sch.get_sblock("C"), sch.get_sblock("D")
    rest, _ = sch.get_loops(d)
    i, j, k = sch.get_loops(c)
    i0, i1 = sch.split(i, [None, 32])
    k0, k1 = sch.split(k, [None, 4])
    sch.reorder(i0, i1, k0, j, k1)
    sch.bind(i0, "blockIdx.x")
    sch.bind(i1, "threadIdx.x")
    sch.bind(rest, "blockIdx.x")
    staged = sch.cache_read(c, 0, "shared")
    sch.compute_at(staged, k0)
    _, thread = sch.split(sch.fuse(*sch.get_loops(staged)[-2:]), [None, 32])
    sch.bind(thread, "threadIdx.x")
    sch.decompose_reduction(c, k0)
    sch.annotate(k0, "software_pipeline_stage", [0, stage])
    sch.annotate(k0, "software_pipeline_order", [0, 1])
    return sch
