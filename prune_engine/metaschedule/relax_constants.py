"""Spares TVM from compiling a kernel per trivial constant."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from prune_engine.metaschedule._compat import import_tvm

_Array = NDArray[Any]

#: Operators that the importer puts around weights (a bias made 1xCx1x1, bounds of a clip), in numpy.
_EXACT: dict[str, Callable[..., _Array]] = {"relax.isnan": np.isnan, "relax.where": np.where, "relax.less": np.less}


def fold_trivial(mod: Any) -> object:
    """Evaluate reshapes and element-wise predicates of constants in the module's ``main``.

    TVM's FoldConstant does the same, but compiles and runs a kernel for every single call (70 ms each,
    6 s for a model of 80 convolutions).
    """
    tvm = import_tvm()
    from tvm.relax import expr_functor

    @expr_functor.mutator
    class Folder(expr_functor.PyExprMutator):  # type: ignore[misc]  # untyped base
        def visit_call_(self, call: Any) -> Any:
            call = super().visit_call_(call)
            arrays = [self._constant(argument) for argument in call.args]
            folded = _evaluate(call, arrays)
            return call if folded is None else tvm.relax.const(folded)

        def _constant(self, argument: Any) -> _Array | None:
            if isinstance(argument, tvm.relax.Var):
                argument = self.builder_.lookup_binding(argument)
            if not isinstance(argument, tvm.ir.GenericConst) or not isinstance(argument.value, tvm.runtime.Tensor):
                return None
            array: _Array = argument.value.numpy()
            return array

    main = mod.get_global_var("main")
    folder = Folder(mod)
    mod.update_func(main, folder.visit_expr(mod["main"]))
    folded_mod: object = mod
    return folded_mod


def _evaluate(call: Any, arrays: list[_Array | None]) -> _Array | None:
    """The call's value, or None if it is not one of the trivial ones on constants."""
    operator = getattr(call.op, "name", None)
    if operator == "relax.reshape" and arrays[0] is not None:
        try:
            return arrays[0].reshape([int(axis) for axis in call.args[1].values])
        except (AttributeError, TypeError, ValueError):
            return None
    known = [array for array in arrays if array is not None]
    if operator not in _EXACT or len(known) != len(arrays):
        return None
    return np.asarray(_EXACT[operator](*known))
