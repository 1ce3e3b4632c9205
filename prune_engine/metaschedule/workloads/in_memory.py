"""Modules that a program holds, as text that `load_model` reads."""

from __future__ import annotations

from prune_engine.metaschedule._compat import import_tvm
from prune_engine.metaschedule.materialise import module_to_json


def is_module(value: object) -> bool:
    """Whether this is TVM's: an IRModule, or one kernel."""
    tvm = import_tvm()
    return isinstance(value, tvm.IRModule | tvm.tirx.PrimFunc)


def module_text(value: object) -> str:
    """An IRModule as ``tvm.ir.save_json`` writes it; a PrimFunc becomes one."""
    tvm = import_tvm()
    if isinstance(value, tvm.tirx.PrimFunc):
        name = (value.attrs or {}).get("global_symbol", "main")
        value = tvm.IRModule({str(name): value})
    return module_to_json(value)
