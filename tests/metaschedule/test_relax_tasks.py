import pytest

from prune_engine.metaschedule._compat import import_tvm
from prune_engine.metaschedule.relax_tasks import block_names, task_id_of


@pytest.fixture
def product():
    """Makes a 16x16 product whose block has a given name."""
    tvm = import_tvm()
    from tvm import te

    def make(block_name, n=16):
        a, b = te.placeholder((n, n), name="a"), te.placeholder((n, n), name="b")
        k = te.reduce_axis((0, n), "k")
        c = te.compute((n, n), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name=block_name)
        return tvm.IRModule({"main": te.create_prim_func([a, b, c])})

    return make


def test_block_names_are_read_in_order(product):
    assert block_names(product("product"))[-1] == "product"


def test_equal_kernels_have_one_id_and_others_another(product, target):
    assert task_id_of(product("c"), target) == task_id_of(product("c"), target)
    assert task_id_of(product("c"), target) != task_id_of(product("c", n=32), target)
    assert task_id_of(product("c"), target) != task_id_of(product("c"), target + " ")
    assert len(task_id_of(product("c"), target)) == 24


def test_kernels_whose_blocks_have_other_names_cannot_share_schedules(product, target):
    import tvm_ffi

    assert tvm_ffi.structural_hash(product("c")) == tvm_ffi.structural_hash(product("d"))
    assert task_id_of(product("c"), target) != task_id_of(product("d"), target)
