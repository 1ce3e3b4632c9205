"""Scheduled TIR read back, against schedules made by hand."""

from __future__ import annotations

from typing import Any

import pytest
from kits.schedules import on_gpu, on_processor, product_mod

from prune_engine.errors import SpaceError
from prune_engine.metaschedule.tir_affine import Affine, affine_of
from prune_engine.metaschedule.tir_nest import TirBlock, TirBuffer, read_nest

ROW, COLUMN, STEP = Affine((("v_i", 1),), 0), Affine((("v_j", 1),), 0), Affine((("v_k", 1),), 0)


def loops_of(block: TirBlock) -> list[tuple[int, str]]:
    return [(loop.extent, loop.kind) for loop in block.loops]


def test_loops_and_kinds_of_a_processor_schedule() -> None:
    nest = read_nest(on_processor().mod)
    assert [block.name for block in nest.blocks] == ["C", "D"]
    outer = [(4, "parallel"), (16, "serial"), (4, "serial")]
    assert loops_of(nest.block("C")) == [*outer, (8, "serial"), (4, "serial"), (4, "serial")]
    assert loops_of(nest.block("D")) == [*outer, (8, "vectorized")]
    assert nest.block("C").loops[0].annotations == {"pragma_auto_unroll_max_step": 64}


def test_axes_accesses_and_flags_of_a_block() -> None:
    product = read_nest(on_processor().mod).block("C")
    assert [(i.name, i.extent, i.kind) for i in product.iters] == [
        ("v_i", 64, "S"),
        ("v_j", 32, "S"),
        ("v_k", 16, "R"),
    ]
    read = {a.buffer: a.starts for a in product.reads}
    assert read == {"A": (ROW, STEP), "B": (STEP, COLUMN)}
    (write,) = product.writes
    assert (write.buffer, write.scope, write.dtype, write.extents, write.starts) == (
        *("C", "global", "float32", (1, 1)),
        (ROW, COLUMN),
    )
    assert product.has_init
    assert not product.has_predicate
    assert not read_nest(on_processor().mod).block("D").has_init


def test_thread_axes_scopes_and_annotations_of_a_gpu_schedule() -> None:
    nest = read_nest(on_gpu(lanes=4).mod)
    assert [block.name for block in nest.blocks] == ["A_shared", "C", "D"]
    outer = [(8, "blockIdx.x"), (2, "vthread.x"), (32, "threadIdx.x")]
    assert loops_of(nest.block("A_shared")) == [*outer, (4, "serial"), (32, "threadIdx.x"), (4, "vectorized")]
    assert nest.block("C").annotations == {
        "meta_schedule.thread_extent_low_inclusive": 32,
        "meta_schedule.thread_extent_high_inclusive": 1024,
    }
    assert set(nest.buffers) == {
        TirBuffer("C_local", "local", "float32", (64, 32)),
        TirBuffer("A_shared", "shared", "float32", (64, 16)),
    }


def test_loops_of_extent_one_are_read_but_not_significant() -> None:
    nest = read_nest(on_gpu(lanes=1).mod)
    staged = nest.block("A_shared")
    assert staged.loops[-1].extent == 1
    assert staged.loops[-1] not in staged.significant()
    assert len(staged.significant()) == len(staged.loops) - 1


def test_an_imperfect_split_leaves_a_predicate(tvm: Any) -> None:
    sch = tvm.s_tir.Schedule(product_mod(m=60), debug_mask="none")
    sch.split(sch.get_loops(sch.get_sblock("D"))[0], [None, 16])
    nest = read_nest(sch.mod)
    assert nest.block("D").has_predicate
    assert not nest.block("C").has_predicate


def test_a_blockized_block_comes_before_the_one_inside(tvm: Any) -> None:
    sch = tvm.s_tir.Schedule(product_mod(), debug_mask="none")
    d = sch.get_sblock("D")
    _, j = sch.get_loops(d)
    sch.blockize(sch.split(j, [None, 8])[1])
    blocks = read_nest(sch.mod).blocks
    assert [(b.name, b.parent, b.is_leaf) for b in blocks] == [
        ("C", None, True),
        ("D_o", None, False),
        ("D", 1, True),
    ]
    assert [loop.extent for loop in blocks[1].loops] == [64, 4]
    assert [loop.extent for loop in blocks[2].loops] == [64, 4, 8]
    assert [a.extents for a in blocks[1].writes] == [(1, 8)]


def test_strides_of_an_aligned_buffer_count_as_elements() -> None:
    assert TirBuffer("A", "shared", "float16", (4, 16)).n_elements == 64
    assert TirBuffer("A", "shared", "float16", (4, 16), (24, 1)).n_elements == 96


def test_loops_inside_a_block_without_further_blocks(tvm: Any) -> None:
    nest = read_nest(
        tvm.script.from_source(
            """
@I.ir_module
class Module:
    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((4, 8), "float32")):
        for i in range(4):
            with T.sblock("rows"):
                v = T.axis.spatial(4, i)
                for j in T.vectorized(8):
                    A[v, j] = T.float32(0)
"""
        )
    )
    (block,) = nest.blocks
    assert [loop.extent for loop in block.loops] == [4]
    assert [(loop.extent, loop.kind) for loop in block.body_loops] == [(8, "vectorized")]
    assert block.is_leaf


def test_affine_expressions(tvm: Any) -> None:
    x, y = tvm.tirx.Var("x", "int32"), tvm.tirx.Var("y", "int32")
    assert affine_of(x * 4 + y - 3) == Affine((("x", 4), ("y", 1)), -3)
    assert affine_of(2 * (x - y) - x * 2) == Affine((("y", -2),), 0)
    assert affine_of(x.astype("int64") * 3) == Affine((("x", 3),), 0)
    assert affine_of(x * y) is None
    assert affine_of(x // 2 + y) is None
    assert affine_of(tvm.tirx.const(5, "int64")) == Affine((), 5)


def test_affine_values_and_text() -> None:
    index = Affine((("x", 4), ("y", 1)), -3)
    assert index.value({"x": 2, "y": 7}) == 12
    assert str(index) == "4*x + y + -3"
    assert str(Affine((), 0)) == "0"


def test_a_module_without_a_single_kernel_is_refused(tvm: Any) -> None:
    kernel = product_mod()["main"]
    with pytest.raises(SpaceError, match="functions one, two"):
        read_nest(tvm.IRModule({"one": kernel, "two": kernel}))
    assert read_nest(tvm.IRModule({"only": kernel})).blocks


def test_a_loop_of_unknown_extent_is_refused(tvm: Any) -> None:
    from tvm import te

    n = te.var("n")
    a = te.placeholder((n,), name="A")
    mod = tvm.IRModule({"main": te.create_prim_func([a, te.compute((n,), lambda i: a[i] + 1.0, name="B")])})
    with pytest.raises(SpaceError, match="extent n"):
        read_nest(mod)
