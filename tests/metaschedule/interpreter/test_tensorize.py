"""Sketches whose innermost tile is one instruction: VNNI on processors, tensor cores on GPUs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from kits import nest_comparison
from kits.oracle import case, random_batch
from kits.tiled import untiled
from kits.touches import Touch, label, touched_by_block

from prune_engine.metaschedule.interpreter.gpu_limits import _dynamic_bytes, _lanes_apart
from prune_engine.metaschedule.interpreter.layouts import (
    physical,
    physical_shape,
    reindex,
    transform_block_layout,
    transform_layout,
)
from prune_engine.metaschedule.interpreter.loops import reorder_loops, split_loop
from prune_engine.metaschedule.interpreter.tensorize import blockize, init_tile, tile_of
from prune_engine.metaschedule.interpreter.tree import (
    AccessNode,
    BlockNode,
    BufferNode,
    IndexNode,
    IterNode,
    LoopNode,
    NotInterpretedError,
    Tree,
    loops_of,
    plain,
)
from prune_engine.metaschedule.tir_nest import TirBlock, TirNest
from prune_engine.symbols.evaluate import evaluate
from prune_engine.symbols.expr import as_expr, part
from prune_engine.symbols.gpu_legality import SharedBuffer
from prune_engine.symbols.loop_nest import LoopKind

_N_CANDIDATES = 12


def _touched(nest: TirNest, block: TirBlock, loops: Sequence[int]) -> Iterator[Touch] | None:
    touches = touched_by_block(nest, block, loops)
    shapes = {label(buffer.name): buffer.shape for buffer in nest.buffers}
    return None if touches is None else untiled(touches, shapes)


@pytest.mark.parametrize(("workload", "target"), [("gemm_int8", "vnni"), ("gemm_fp16", "a100")])
def test_nests_are_those_that_tvm_builds(workload: str, target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nest_comparison, "touched_by_block", _touched)
    space, oracle = case(workload, target)
    for sketch in space.sketches:
        assert sketch.nests is not None
        batch = random_batch(space, sketch, _N_CANDIDATES, seed=3)
        for row in range(_N_CANDIDATES):
            decisions = batch.candidate(row).decisions
            built = oracle.realise(sketch, decisions)
            found = nest_comparison.differences(batch, row, built, is_gpu=target == "a100")
            assert not (first := next(found, None)), f"{decisions}: {first}"


@pytest.mark.parametrize(
    ("workload", "target", "tile", "volume", "whole"),
    [
        ("gemm_int8", "vnni", (1, 16, 4), 64, 128 * 768 * 768),
        ("gemm_fp16", "a100", (16, 16, 16), 4096, 512**3),
    ],
)
def test_one_instance_is_a_whole_instruction(
    workload: str, target: str, tile: tuple[int, int, int], volume: int, whole: int
) -> None:
    space, _ = case(workload, target)
    sketch = space.sketches[0]
    assert sketch.nests is not None
    batch = random_batch(space, sketch, 8)
    statement = sketch.nests.groups(batch.indices)[0].nest.statement("matmul_o_update")
    (instances,) = evaluate([statement.instances], sketch.nests.tables, batch.indices)
    assert statement.tile == tile
    assert statement.flop_count == 2 * volume
    assert set((instances * volume).tolist()) == {whole}


class _Matmul:
    """C[i, j] += A[i, k] * B[j // 4, k, j % 4]."""

    def __init__(self, m: int = 32, n: int = 32, k: int = 64) -> None:
        self.loops = i, j, r = [LoopNode(name, as_expr(size)) for name, size in (("i", m), ("j", n), ("k", k))]
        self.i, self.j, self.k = (
            IterNode(f"v{loop.name}", loop.extent, loop is r, [plain(loop)]) for loop in (i, j, r)
        )
        self.a, self.b, self.c = (
            BufferNode(name, "global", "float16", 2, shape, is_argument=True)
            for name, shape in (("A", (m, k)), ("B", (n, k)), ("C", (m, n)))
        )
        self.block = BlockNode(
            "C",
            [self.i, self.j, self.k],
            [self.access(self.a, self.i, self.k), self.access(self.b, self.j, self.k)],
            [self.access(self.c, self.i, self.j)],
            has_init=True,
            flop_count=2,
        )
        i.children, j.children, r.children = [j], [r], [self.block]
        j.parent, r.parent, self.block.parent = i, j, r
        self.tree = Tree([i], [self.a, self.b, self.c])

    @staticmethod
    def access(buffer: BufferNode, *iters: IterNode) -> AccessNode:
        return AccessNode(buffer, tuple(IndexNode(((it, 1),)) for it in iters))

    def tiled(self, *sizes: int) -> BlockNode:
        """The block with a tile of these sizes cut out."""
        inner = []
        for loop, size in zip(self.loops, sizes, strict=True):
            extent = loop.extent.constant or 0
            outer = [as_expr(-(-extent // size)), as_expr(size)]
            inner.append(split_loop(self.tree, loop, outer, is_perfect=extent % size == 0)[1])
        reorder_loops(self.tree, [lo for lo in loops_of(self.block) if lo not in inner] + inner)
        return blockize(self.tree, inner[0])


def test_a_tile_is_one_block_that_touches_regions() -> None:
    made = _Matmul()
    outer = made.tiled(16, 16, 8)
    assert [(it.name, it.extent.constant) for it in outer.iters] == [("vi_o", 2), ("vj_o", 2), ("vk_o", 8)]
    (rows, columns) = outer.writes[0].indices
    assert (rows.coefficients, rows.width) == (((outer.iters[0], 16),), 16)
    assert (columns.coefficients, columns.width) == (((outer.iters[1], 16),), 16)
    assert outer.flop_count == 2 * 16 * 16 * 8
    assert made.tree.blocks() == [outer]
    assert [loop.extent.constant for loop in loops_of(outer)] == [2, 2, 8]


def test_a_quotient_along_a_tile_is_the_variable_outside() -> None:
    made = _Matmul()
    i, j, k = made.i, made.j, made.k
    quotient, remainder = (
        IterNode(f"vj {op}", as_expr(size), False, is_virtual=True) for op, size in (("//", 8), ("%", 4))
    )
    source = j.terms[0].over
    for it, divisor, modulus in ((quotient, 4, 8), (remainder, 1, 4)):
        it.terms = [type(j.terms[0])(as_expr(1), source, as_expr(divisor), as_expr(modulus))]
    made.block.iters += [quotient, remainder]
    made.block.reads[1] = made.access(made.b, quotient, k, remainder)
    outer = made.tiled(1, 4, 8)
    packed = outer.reads[1].indices
    assert [index.coefficients for index in packed] == [((outer.iters[1], 1),), ((outer.iters[2], 8),), ()]
    assert [index.width for index in packed] == [1, 8, 4]
    assert i not in outer.iters


def test_a_tile_across_a_quotient_is_not_interpreted() -> None:
    made = _Matmul()
    quotient = IterNode("vj // 4", as_expr(8), False, is_virtual=True)
    quotient.terms = [type(made.j.terms[0])(as_expr(1), made.j.terms[0].over, as_expr(4), as_expr(8))]
    made.block.iters.append(quotient)
    made.block.reads[1] = made.access(made.b, quotient, made.k)
    with pytest.raises(NotInterpretedError, match="across vj // 4"):
        made.tiled(1, 2, 8)


def test_a_tile_that_does_not_fit_is_not_interpreted() -> None:
    with pytest.raises(NotInterpretedError, match="a size that is not fixed"):
        _Matmul(m=20).tiled(16, 16, 8)


def test_tiles_that_interleave_are_not_interpreted() -> None:
    made = _Matmul()
    outer, inner = split_loop(made.tree, made.loops[0], [as_expr(2), as_expr(16)], is_perfect=True)
    reorder_loops(made.tree, [inner, *made.loops[1:], outer])
    with pytest.raises(NotInterpretedError, match="that overlap"):
        blockize(made.tree, outer)


def test_a_tile_walked_backwards_is_not_interpreted() -> None:
    made = _Matmul()
    made.block.reads[0] = AccessNode(made.a, (IndexNode(((made.i, -1),), 31), IndexNode(((made.k, 1),))))
    with pytest.raises(NotInterpretedError, match="walked backwards"):
        made.tiled(16, 16, 8)


def test_loops_of_several_blocks_are_not_a_tile() -> None:
    made = _Matmul()
    made.tree.insert(BlockNode("D", [], [], [], has_init=False, flop_count=0), made.loops[1], 0)
    with pytest.raises(NotInterpretedError, match="holds 2 blocks"):
        blockize(made.tree, made.loops[1])


def test_a_tile_in_a_tile_is_not_interpreted() -> None:
    made = _Matmul()
    outer = made.tiled(16, 16, 8)
    with pytest.raises(NotInterpretedError, match="is a tile already"):
        blockize(made.tree, loops_of(outer)[-1])


def test_the_tile_of_an_intrinsic_is_in_its_name_or_in_its_loops() -> None:
    outer = _Matmul().tiled(1, 16, 4)
    assert tile_of(outer, is_init=False) is None
    outer.annotations["meta_schedule.auto_tensorize"] = "dot_16x4_vnni"
    assert tile_of(outer, is_init=False) == (1, 16, 4)
    assert tile_of(outer, is_init=True) is None
    outer.annotations["meta_schedule.auto_tensorize"] = "wmma_load_16x8x32_s8_a_shared"
    assert tile_of(outer, is_init=False) == (16, 8, 32)


def test_start_values_of_a_tile_are_set_in_a_row_or_by_an_intrinsic() -> None:
    row, square = _Matmul().tiled(1, 16, 4), _Matmul().tiled(16, 16, 8)
    found = init_tile(row)
    assert found is not None
    assert (found[0].extent.constant, found[1].name) == (16, "vj_i_init")
    with pytest.raises(NotInterpretedError, match="without an init intrinsic"):
        init_tile(square)
    square.annotations["meta_schedule.auto_tensorize_init"] = "wmma_fill_16x16x8_f32"
    assert init_tile(square) is None


def test_reindexing_orders_a_buffer_by_the_variables_of_its_block() -> None:
    made = _Matmul(m=8, n=16, k=32)
    made.block.reads[1] = AccessNode(made.b, tuple(IndexNode(((it, 1),)) for it in (made.k, made.j)))
    made.b.shape = (32, 16)
    copy = reindex(made.tree, made.block, 1, is_write=False)
    assert made.block.reads[1].buffer.shape == (16, 32)
    assert [index.coefficients for index in copy.reads[0].indices] == [((copy.iters[1], 1),), ((copy.iters[0], 1),)]
    assert made.tree.blocks() == [copy, made.block]
    made.block.reads[0] = AccessNode(made.a, (IndexNode(None), IndexNode(((made.k, 1),))))
    with pytest.raises(NotInterpretedError, match="not indexed affinely"):
        reindex(made.tree, made.block, 0, is_write=False)
    after = reindex(made.tree, made.block, 0, is_write=True)
    assert made.tree.blocks() == [copy, made.block, after]


def _tiles(rows: Any, columns: Any) -> list[Any]:
    def at(dimension: int, group: Any) -> tuple[Any, Any, Any]:
        tile = ["//", ["index", dimension], 16]
        return ["//", tile, group], ["%", tile, group], ["%", ["index", dimension], 16]

    return [x for pair in zip(at(0, rows), at(1, columns), strict=True) for x in pair]


def test_tiles_of_a_buffer_follow_the_loops_that_were_split_for_them() -> None:
    made = _Matmul(m=512, n=512, k=512)
    outer = made.tiled(16, 16, 16)
    i, j = loops_of(outer)[:2]
    for loop, variable in ((i, 0), (j, 1)):
        split_loop(made.tree, loop, [part(variable, 0), part(variable, 1)], is_perfect=True)
    transform_layout(made.tree, made.c, _tiles(part(0, 1), part(1, 1)))
    indices = physical(outer.writes[0])
    over = [[t.over[0].loop.extent for it, _ in index.coefficients or () for t in it.terms] for index in indices]
    assert over == [[part(0, 0)], [part(1, 0)], [part(0, 1)], [part(1, 1)], [], []]
    assert [index.width for index in indices] == [1, 1, 1, 1, 16, 16]
    assert physical_shape(made.c)[2:] == (part(0, 1), part(1, 1), as_expr(16), as_expr(16))


def test_tiles_that_do_not_follow_the_loops_are_not_interpreted() -> None:
    made = _Matmul(m=512, n=512, k=512)
    outer = made.tiled(16, 16, 16)
    split_loop(made.tree, loops_of(outer)[0], [part(0, 0), part(0, 1)], is_perfect=True)
    transform_layout(made.tree, made.c, _tiles(part(1, 1), 4))
    with pytest.raises(NotInterpretedError, match="do not fit its loops"):
        physical(outer.writes[0])


def test_tiles_of_a_buffer_touched_in_part_are_not_interpreted() -> None:
    made = _Matmul()
    transform_layout(made.tree, made.c, _tiles(2, 2))
    with pytest.raises(NotInterpretedError, match="laid out twice"):
        transform_layout(made.tree, made.c, _tiles(2, 2))
    shifted = AccessNode(made.c, (IndexNode(((made.i, 1),), 1), IndexNode(((made.j, 1),))))
    with pytest.raises(NotInterpretedError, match="at an offset"):
        physical(shifted)
    split_loop(made.tree, made.loops[0], [as_expr(3), as_expr(16)], is_perfect=False)
    with pytest.raises(NotInterpretedError, match="beyond its end"):
        physical(made.block.writes[0])


@pytest.mark.parametrize(
    ("index_map", "message"),
    [
        ([["//", ["index", 0], 16], ["%", ["index", 0], 8], ["index", 1]], "gaps"),
        ([["*", ["index", 0], 2], ["index", 1]], "sum or product"),
        ([["index", 0], ["index", 0]], "other dimensions"),
        ([["//", ["index", 0], ["index", 1]], ["index", 1]], "no known size"),
        ([0, ["//", ["index", 0], 2]], "dimension of its own"),
    ],
)
def test_other_layouts_are_not_interpreted(index_map: list[Any], message: str) -> None:
    made = _Matmul()
    with pytest.raises(NotInterpretedError, match=message):
        transform_layout(made.tree, made.c, index_map)


def test_a_permuted_buffer_is_accessed_in_its_new_order() -> None:
    made = _Matmul(m=8, n=16, k=32)
    transform_layout(made.tree, made.a, [["index", 1], ["index", 0]])
    assert made.a.shape == (32, 8)
    assert [index.coefficients for index in made.block.reads[0].indices] == [((made.k, 1),), ((made.i, 1),)]


def test_a_permuted_block_has_its_loops_in_the_new_order() -> None:
    made = _Matmul(m=8, n=16, k=32)
    transform_block_layout(made.tree, made.block, [["index", 2], ["index", 0], ["index", 1]])
    assert [loop.name for loop in loops_of(made.block)] == ["k", "i", "j"]
    assert [it.name for it in made.block.iters] == ["v0", "v1", "v2"]
    with pytest.raises(NotInterpretedError, match="another order"):
        transform_block_layout(made.tree, made.block, [["index", 0], ["index", 0], ["index", 1]])


@pytest.mark.parametrize(("row", "is_counted"), [(16, 1), (64, 1), (256, 1), (48, 0), (80, 0), (512, 0)])
def test_a_strided_vector_counts_where_the_warp_ends_with_a_row(row: int, is_counted: int) -> None:
    """Observed of VerifyGPUCode: 32 threads of 8 lanes, matrices 768 wide, tiles ``row`` long."""
    loop = LoopNode("fused", as_expr(4096 * row))
    column, line = IterNode("column", as_expr(row), False), IterNode("line", as_expr(4096), False)
    whole = plain(loop).over
    for it, divisor, modulus in ((column, 1, row), (line, row, 4096)):
        it.terms = [type(plain(loop))(as_expr(1), whole, as_expr(divisor), as_expr(modulus))]
    source = BufferNode("B", "global", "float16", 2, (4096, 4096), is_argument=True)
    target = BufferNode("S", "shared.dyn", "float16", 2, (4096, 4096), is_argument=False)
    read, write = _Matmul.access(source, column, line), _Matmul.access(target, line, column)
    block = BlockNode("fetch", [column, line], [read], [write], False, 0, parent=loop)
    loop.children = [block]
    tree = Tree([loop], [source, target])
    lanes = split_loop(tree, loop, [as_expr(n) for n in (2 * row, 8, 32, 8)], is_perfect=False)[-1]
    lanes.kind = LoopKind.VECTORIZED
    assert _lanes_apart(block.reads[0], lanes).constant == is_counted
    assert _lanes_apart(block.writes[0], lanes).constant == 0


def test_dynamic_buffers_of_several_ages_are_not_interpreted() -> None:
    buffer = SharedBuffer("float16", 2, 1024)
    assert _dynamic_bytes([(0, 3, buffer), (1, 3, buffer)]).constant == 4096
    assert _dynamic_bytes([(0, 3, buffer), (1, 3, buffer), (4, 5, buffer)]).constant == 4096
    with pytest.raises(NotInterpretedError, match="ages"):
        _dynamic_bytes([(0, 1, buffer), (2, 3, buffer), (4, 5, buffer)])
