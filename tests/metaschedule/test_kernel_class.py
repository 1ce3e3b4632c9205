import pytest

from prune_engine.metaschedule._compat import import_tvm
from prune_engine.metaschedule.kernel_class import kernel_class_of
from prune_engine.metaschedule.materialise import Materialiser
from prune_engine.metaschedule.targets import resolve_target
from prune_engine.metaschedule.workloads.loading import load_tasks
from prune_engine.space import VariableKind


@pytest.fixture(scope="module")
def class_of(target):
    known = {}

    def find(name):
        if name not in known:
            (task,) = load_tasks(name, target)
            known[name] = task.kernel_class
        return known[name]

    return find


def product(block="c", dtype="float32", *, body=None, m=16, n=24, k=32):
    """A product as a module; ``body`` makes the summand of two operands."""
    tvm = import_tvm()
    from tvm import te

    a, b = te.placeholder((m, k), dtype, name="a"), te.placeholder((k, n), dtype, name="b")
    r = te.reduce_axis((0, k), "r")
    summand = body or (lambda x, y: x * y)
    c = te.compute((m, n), lambda i, j: te.sum(summand(a[i, r], b[r, j]), axis=r), name=block)
    return tvm.IRModule({"main": te.create_prim_func([a, b, c])})


@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param("gemm:64x64x64+bias+relu", "gemm:127x16x1000+bias+relu", id="prime and odd extents"),
        pytest.param("conv2d:1x64x56x56,64x1x1", "conv2d:1x32x28x28,16x3x3", id="1x1 and 3x3"),
        pytest.param("conv2d:1x32x28x28,16x3x3,p1", "conv2d:1x32x28x28,16x3x3,s2,p1", id="strided"),
        pytest.param("conv2d:1x32x28x28,16x3x3,p1", "conv2d:1x32x28x28,16x3x3,p2,d2", id="dilated"),
        pytest.param("conv2d:1x32x28x28,16x3x3,p1", "conv2d:1x32x28x28,16x5x5,p2", id="wider padding"),
        pytest.param("softmax:4x32x32", "softmax:8x17x5", id="softmax"),
    ],
)
def test_kernels_that_differ_in_extents_alone_are_of_one_class(one, other, class_of):
    assert class_of(one).strict == class_of(other).strict
    assert class_of(one).anchor == class_of(other).anchor
    assert class_of(one).axes != class_of(other).axes


@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param("gemm:64x64x64", "gemm:64x64x64+bias", id="bias"),
        pytest.param("gemm:64x64x64+bias+relu", "gemm:64x64x64+bias+gelu", id="another function"),
        # A padding that tests where it is cannot be inlined, a mere copy is.
        pytest.param("conv2d:1x32x28x28,16x3x3", "conv2d:1x32x28x28,16x3x3,p1", id="padding"),
    ],
)
def test_what_is_fused_is_in_the_class_but_not_in_its_anchor(one, other, class_of):
    assert class_of(one).strict != class_of(other).strict
    assert class_of(one).anchor == class_of(other).anchor


@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param("gemm:64x64x64", "bmm:4x64x64x64", id="one more iterator"),
        pytest.param("gemm:64x64x64", "gemm:64x64x64:nt", id="transposed operand"),
        pytest.param("gemm:64x64x64", "gemm:64x64x64:f16", id="data type"),
        pytest.param("conv2d:1x32x28x28,32x3x3,p1", "conv2d:1x32x28x28,32x3x3,p1,g32", id="depthwise"),
    ],
)
def test_another_anchor_is_another_class(one, other, class_of):
    assert class_of(one).strict != class_of(other).strict
    assert class_of(one).anchor != class_of(other).anchor


def test_names_of_blocks_do_not_matter():
    one, other = kernel_class_of(product("c"), "llvm"), kernel_class_of(product("matrix"), "llvm")
    assert (one.strict, one.anchor) == (other.strict, other.anchor)
    assert [extent for _, extent in one.axes] == [extent for _, extent in other.axes]
    assert other.axes[0][0].startswith("matrix.")


def test_the_operation_matters_and_its_numbers_do_not():
    plain = kernel_class_of(product(), "llvm")
    difference = kernel_class_of(product(body=lambda x, y: x - y), "llvm")
    twice, thrice = (kernel_class_of(product(body=lambda x, y, f=f: x * y * f), "llvm") for f in (2.0, 3.0))
    assert len({plain.strict, difference.strict, twice.strict}) == 3
    assert twice.strict == thrice.strict


def test_the_kind_of_target_is_part_of_the_class():
    one, other = kernel_class_of(product(), "llvm"), kernel_class_of(product(), "cuda")
    assert one.strict != other.strict
    assert one.anchor != other.anchor


def test_which_operand_is_read_matters():
    """x - relu(x) and relu(x) - x do the same to the same buffers, the other way round."""
    tvm = import_tvm()
    from tvm import te

    def kernel(is_swapped):
        x = te.placeholder((16,), name="x")
        y = te.compute((16,), lambda i: te.max(x[i], 0.0), name="y")
        z = te.compute((16,), lambda i: y[i] - x[i] if is_swapped else x[i] - y[i], name="z")
        return kernel_class_of(tvm.IRModule({"main": te.create_prim_func([x, z])}), "llvm")

    assert kernel(False).strict != kernel(True).strict


def test_conditions_on_where_we_are_do_not_matter_and_those_on_data_do():
    """A padding of one side asks for less than one of four: the loops are the same."""
    tvm = import_tvm()
    from tvm import te, tirx

    x = te.placeholder((16, 16), name="x")

    def kernel(condition):
        y = te.compute((16, 16), lambda i, j: tirx.if_then_else(condition(i, j), x[i, j], 0.0), name="y")
        return kernel_class_of(tvm.IRModule({"main": te.create_prim_func([x, y])}), "llvm").strict

    one_side = kernel(lambda i, j: i < 8)
    assert one_side == kernel(lambda i, j: tirx.all(i < 8, j > 4, j < 12))
    assert one_side != kernel(lambda i, j: x[i, j] < 8.0)
    assert kernel(lambda i, j: x[i, j] < 8.0) != kernel(lambda i, j: x[i, j] > 8.0)


def test_an_intermediate_that_is_returned_too_makes_another_class():
    tvm = import_tvm()
    from tvm import te

    def kernel(is_returned):
        x = te.placeholder((16,), name="x")
        y = te.compute((16,), lambda i: x[i] + 1.0, name="y")
        z = te.compute((16,), lambda i: y[i] * 2.0, name="z")
        return kernel_class_of(tvm.IRModule({"main": te.create_prim_func([x, *[y] * is_returned, z])}), "llvm")

    assert kernel(False).strict != kernel(True).strict


def test_the_anchor_is_the_reduction_that_does_most(class_of):
    """A product after a mean is still a product, where it does more."""
    tvm = import_tvm()
    from tvm import te

    def kernel(n):
        x, w = te.placeholder((16, 64), name="x"), te.placeholder((64, n), name="w")
        r, k = te.reduce_axis((0, 64), "r"), te.reduce_axis((0, 64), "k")
        total = te.compute((16,), lambda i: te.sum(x[i, r], axis=r), name="total")
        out = te.compute((16, n), lambda i, j: te.sum(x[i, k] / total[i] * w[k, j], axis=k), name="out")
        return kernel_class_of(tvm.IRModule({"main": te.create_prim_func([x, w, out])}), "llvm")

    only_sum = te.placeholder((16, 64), name="x")
    r = te.reduce_axis((0, 64), "r")
    total = te.compute((16,), lambda i: te.sum(only_sum[i, r], axis=r), name="total")
    sums = kernel_class_of(tvm.IRModule({"main": te.create_prim_func([only_sum, total])}), "llvm")
    assert kernel(32).anchor not in (sums.anchor, class_of("gemm:64x64x64").anchor)
    assert kernel(32).anchor == kernel(128).anchor


def test_a_kernel_without_a_reduction_has_a_class(class_of):
    found = class_of("elementwise:4x1000+relu")
    assert found.label == "relu"
    assert found.strict == class_of("elementwise:7x33+relu").strict


def test_labels_name_what_is_done(class_of):
    assert class_of("conv2d:1x32x28x28,16x3x3,p1+bias+relu").label == "conv2d_nchw + add + relu"
    assert class_of("gemm:64x64x64").label == "matmul"
    assert class_of("reduce_mean:8x16").label == "sum + divide"
    assert class_of("argmax:8x16").label == "X_red_temp + X_red"


def test_axes_are_named_as_the_tiles_of_the_space_name_them(target):
    (task,) = load_tasks("conv2d:1x8x14x14,16x3x3,p1+bias+relu", target)
    extents = task.kernel_class.extents()
    tiles = [
        variable
        for sketch in Materialiser(task, 0).design_space().sketches
        for variable in sketch.variables
        if variable.kind is VariableKind.TILE
    ]
    assert tiles
    for tile in tiles:
        assert tile.subject is not None
        assert extents[f"{tile.subject.statement}.{tile.subject.iterator}"] == tile.table[0].prod()


def test_the_same_in_every_process_and_for_threads(class_of):
    """Hashes are stored, so these may never change without a new version of what a class is."""
    (task,) = load_tasks("gemm:64x64x64", resolve_target("native", 1))
    assert task.kernel_class.strict == class_of("gemm:64x64x64").strict
    assert class_of("gemm:64x64x64").strict == "e6fa6844d6c2b4fd"


def test_what_cannot_be_read_has_no_class():
    tvm = import_tvm()
    from tvm import te, tirx

    n = tirx.Var("n", "int32")
    x = te.placeholder((n,), name="x")
    y = te.compute((n,), lambda i: x[i] + 1.0, name="y")
    assert kernel_class_of(tvm.IRModule({"main": te.create_prim_func([x, y])}), "llvm") is None
    assert kernel_class_of(tvm.IRModule({}), "llvm") is None


def test_what_has_no_iterators_has_no_class():
    """Its loops are hand-written: extents that are not known cannot be told apart."""
    tvm = import_tvm()
    from tvm import te, topi

    x = te.placeholder((16, 8), name="x")
    mod = tvm.IRModule({"main": te.create_prim_func([x, topi.cumsum(x, axis=1)])})
    assert kernel_class_of(mod, "llvm") is None
