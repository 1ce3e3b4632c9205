"""From a fused Relax module to tuning tasks with stable identities."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from prune_engine.metaschedule._compat import import_tvm
from prune_engine.metaschedule.kernel_class import kernel_class_of
from prune_engine.metaschedule.targets import make_target
from prune_engine.task import TuningTask


def extract_tasks(mod: object, target: str) -> tuple[TuningTask, ...]:
    """The module's distinct kernels, in order of their first call; ``weight`` counts the calls.

    Kernels whose shapes are not all numbers cannot be tuned and are left out.
    """
    import_tvm()
    from tvm.s_tir.meta_schedule import relax_integration

    extracted = relax_integration.extract_tasks(mod, make_target(target))
    tasks = [task_of(e.task_name, int(e.weight), e.dispatched[0], target) for e in extracted]
    position = {name: i for i, name in reversed(list(enumerate(_called_kernels(mod))))}
    return tuple(sorted((t for t in tasks if t is not None), key=lambda task: position[task.name]))


def task_id_of(mod: object, target: str) -> str:
    """Identity of a kernel for a target, 24 hexadecimal digits; the same in every process and model.

    TVM's structural hash leaves block names out, but schedules find blocks by name: two kernels that
    differ in names alone must not share schedules, so the names count too.
    """
    import tvm_ffi

    structure = tvm_ffi.structural_hash(mod)
    text = f"{structure & (1 << 64) - 1:016x}|{','.join(block_names(mod))}|{target}"
    return hashlib.blake2b(text.encode(), digest_size=12).hexdigest()


def as_task_module(func: object) -> object:
    """A kernel alone in a module under the name "main": the form tasks have."""
    tvm = import_tvm()
    main: Any = func
    return tvm.IRModule({"main": main.with_attr("global_symbol", "main")})


def block_names(mod: Any) -> list[str]:
    """Names of all blocks of the module's functions, in program order."""
    tvm = import_tvm()
    import tvm_ffi

    names: list[str] = []
    for _, func in mod.functions.items():
        visit = (tvm.s_tir.SBlock, lambda block: names.append(str(block.name_hint)))
        tvm_ffi.structural_walk(func.body, visit, order="pre")
    return names


def _called_kernels(mod: Any) -> list[str]:
    """Names of the kernels that the module calls, in call order."""
    tvm = import_tvm()
    from tvm import relax

    names: list[str] = []

    def visit(expr: Any) -> None:
        if isinstance(expr, relax.Call) and expr.args and isinstance(expr.args[0], tvm.ir.GlobalVar):
            names.append(str(expr.args[0].name_hint))

    for _, func in mod.functions.items():
        if isinstance(func, relax.Function):
            relax.analysis.post_order_visit(func, visit)
    return names


def task_of(name: str, weight: int, mod: Any, target: str) -> TuningTask | None:
    """A kernel alone in a module as a task for a canonical target; None if its shapes are not all numbers."""
    buffers = [param.ty for param in mod["main"].params]
    shapes = [[_number(axis) for axis in buffer.shape] for buffer in buffers]
    if any(axis is None for shape in shapes for axis in shape):
        return None
    return TuningTask(
        task_id=task_id_of(mod, target),
        name=name,
        target=target,
        weight=weight,
        flop_count=_flop_count(mod),
        arg_shapes=tuple(tuple(axis for axis in shape if axis is not None) for shape in shapes),
        arg_dtypes=tuple(str(buffer.dtype) for buffer in buffers),
        mod=mod,
        kernel_class=kernel_class_of(mod, str(json.loads(target)["kind"])),
    )


def _number(axis: Any) -> int | None:
    try:
        return int(axis)
    except (TypeError, ValueError):
        return None


def _flop_count(mod: object) -> int:
    tvm = import_tvm()
    try:
        return max(0, int(tvm.s_tir.analysis.estimate_tir_flops(mod)))
    except (tvm.error.InternalError, ValueError, OverflowError):
        # The estimator does not know every expression; 0 means unknown.
        return 0
