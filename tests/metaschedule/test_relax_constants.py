import numpy as np
import pytest

from prune_engine.metaschedule._compat import import_tvm
from prune_engine.metaschedule.relax_constants import fold_trivial


@pytest.fixture
def relax():
    import_tvm()
    from tvm import relax

    return relax


def _function(relax, build):
    """A module whose main returns ``build(x)`` for a float32 input x of (2, 3)."""
    x = relax.Var("x", relax.TensorType((2, 3), "float32"))
    builder = relax.BlockBuilder()
    with builder.function("main", [x]):
        with builder.dataflow():
            out = builder.emit_output(build(builder, x))
        builder.emit_func_output(out)
    return builder.get()


def _operators(relax, mod):
    names = []

    def visit(expr):
        if isinstance(expr, relax.Call):
            names.append(expr.op.name)

    relax.analysis.post_order_visit(mod["main"], visit)
    return names


def test_reshapes_and_predicates_of_constants_are_evaluated(relax):
    bound = relax.const(np.array([np.nan, 1, 2], np.float32))

    def build(builder, x):
        missing = builder.emit(relax.op.isnan(bound))
        clean = builder.emit(relax.op.where(missing, relax.const(np.zeros(3, np.float32)), bound))
        return builder.emit(relax.op.add(x, builder.emit(relax.op.reshape(clean, (1, 3)))))

    mod = fold_trivial(_function(relax, build))
    assert _operators(relax, mod) == ["relax.add"]
    from tvm import compile as compile_module
    from tvm import cpu, runtime

    main = relax.VirtualMachine(compile_module(mod, target="llvm"), cpu())["main"]
    x = np.ones((2, 3), np.float32)
    assert np.array_equal(main(runtime.tensor(x)).numpy(), x + np.array([[0, 1, 2]]))


def test_what_is_not_constant_stays(relax):
    mod = fold_trivial(
        _function(relax, lambda builder, x: builder.emit(relax.op.isnan(builder.emit(relax.op.reshape(x, (6,))))))
    )
    assert _operators(relax, mod) == ["relax.reshape", "relax.isnan"]
