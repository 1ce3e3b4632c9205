"""Puts tuned schedules into a model and compiles it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from prune_engine.errors import ModelImportError, TargetError
from prune_engine.metaschedule._compat import import_tvm, load_intrinsics
from prune_engine.metaschedule.importers import ImportedModel
from prune_engine.metaschedule.materialise import SCHEDULE_ERRORS, last_line
from prune_engine.metaschedule.quiet import captured_stderr
from prune_engine.metaschedule.relax_tasks import as_task_module
from prune_engine.metaschedule.targets import architecture_of, make_target


@dataclass(frozen=True, slots=True)
class Winner:
    """The schedule that ships for a task: MetaSchedule's trace JSON, post-processor instructions included."""

    task_id: str
    trace_json: str


@dataclass(frozen=True, slots=True)
class CompiledModel:
    """A compiled Relax executable, and which tasks run tuned schedules in it.

    ``applied`` are the task ids whose winner is in it; ``rejected`` says of each winner that is not why.
    """

    executable: object = field(repr=False)
    applied: tuple[str, ...]
    rejected: Mapping[str, str]


def compile_model(model: ImportedModel, winners: Sequence[Winner], target: str) -> CompiledModel:
    """Compile a model with its tasks' winners; every other task keeps its default schedule.

    A winner that does not replay or build is set aside and reported, never fatal.

    Raises:
        TargetError: the target is not a processor.
        ModelImportError: TVM cannot compile the model even without any winner.
    """
    import_tvm()
    made = make_target(target)
    if made.kind.name != "llvm":
        raise TargetError(
            "whole models are compiled for processors only", who=f"target {target}", expected="kind llvm"
        )
    load_intrinsics(architecture_of(target))
    kernels, rejected = _replay_all(model, winners)
    try:
        executable = _build(_with_kernels(model, kernels), made)
    except _BUILD_ERRORS as error:
        broken = _unbuildable(kernels, made)
        kernels = {task_id: func for task_id, func in kernels.items() if task_id not in broken}
        rejected |= broken
        if not broken:
            raise _compile_error(model, error) from error
        executable = _build_or_raise(model, kernels, made)
    return CompiledModel(executable, tuple(kernels), rejected)


def kernel_names(model: ImportedModel) -> dict[str, tuple[str, ...]]:
    """Names of the functions in the model that each task stands for, by task id."""
    tvm = import_tvm()
    structures = {_structure(task.mod): task.task_id for task in model.tasks}
    found: dict[str, list[str]] = {task.task_id: [] for task in model.tasks}
    source: Any = model.mod
    for var, func in source.functions.items():
        if isinstance(func, tvm.tirx.PrimFunc):
            task_id = structures.get(_structure(as_task_module(func)))
            if task_id is not None:
                found[task_id].append(str(var.name_hint))
    return {task_id: tuple(names) for task_id, names in found.items()}


# LLVM and the lowering passes raise InternalError (a RuntimeError), ValueError and TypeError alike.
_BUILD_ERRORS = SCHEDULE_ERRORS


def _replay_all(model: ImportedModel, winners: Sequence[Winner]) -> tuple[dict[str, Any], dict[str, str]]:
    """The scheduled kernel of each winner, and why the others have none."""
    modules = {task.task_id: task.mod for task in model.tasks}
    kernels: dict[str, Any] = {}
    rejected: dict[str, str] = {}
    for winner in winners:
        if winner.task_id not in modules:
            rejected[winner.task_id] = "the model has no such task"
            continue
        try:
            kernels[winner.task_id] = _replay(modules[winner.task_id], winner.trace_json)
        except SCHEDULE_ERRORS as error:
            rejected[winner.task_id] = f"the schedule does not replay: {last_line(str(error))}"
    return kernels, rejected


def _replay(mod: object, trace_json: str) -> object:
    tvm = import_tvm()
    schedule = tvm.s_tir.Schedule(mod, debug_mask="none")
    with captured_stderr():
        tvm.s_tir.schedule.Trace.apply_json_to_schedule(json.loads(trace_json), schedule)
    func: object = schedule.mod["main"].with_attr("tirx.is_scheduled", True)
    return func


def _with_kernels(model: ImportedModel, kernels: Mapping[str, Any]) -> object:
    """The model's module with the kernels in place of all functions of the same structure."""
    tvm = import_tvm()
    if not kernels:
        return model.mod
    structures = {_structure(task.mod): task.task_id for task in model.tasks}
    source: Any = model.mod
    replaced = tvm.IRModule(dict(source.functions), attrs=source.attrs, global_infos=source.global_infos)
    for var, func in source.functions.items():
        if not isinstance(func, tvm.tirx.PrimFunc):
            continue
        task_id = structures.get(_structure(as_task_module(func)))
        if task_id is not None and task_id in kernels:
            replaced.update_func(var, kernels[task_id].with_attr("global_symbol", var.name_hint))
    return replaced


def _structure(mod: object) -> object:
    """A key under which structurally equal modules are equal."""
    import tvm_ffi

    return tvm_ffi.StructuralKey(mod)


def _build(mod: object, target: Any) -> object:
    tvm = import_tvm()
    from tvm.relax.backend.cpu_generic import pipeline

    # The module is fused already. Fusing again, as the default pipeline does, would merge tuned kernels.
    passes = [*pipeline.dataflow_lower_passes(target), *pipeline.finalize_passes(target)]
    lower = tvm.transform.Sequential(passes)
    with captured_stderr(), target:
        executable: object = tvm.relax.build(mod, target=target, relax_pipeline=lower)
        return executable


def _build_or_raise(model: ImportedModel, kernels: Mapping[str, Any], made: Any) -> object:
    try:
        return _build(_with_kernels(model, kernels), made)
    except _BUILD_ERRORS as error:
        raise _compile_error(model, error) from error


def _unbuildable(kernels: Mapping[str, Any], target: Any) -> dict[str, str]:
    """Kernels that do not build by themselves, and why."""
    tvm = import_tvm()
    broken = {}
    for task_id, func in kernels.items():
        try:
            with captured_stderr():
                tvm.tirx.build(as_task_module(func), target=target)
        except _BUILD_ERRORS as error:
            broken[task_id] = f"the kernel does not build: {last_line(str(error))}"
    return broken


def _compile_error(model: ImportedModel, error: Exception) -> ModelImportError:
    return ModelImportError(
        "TVM imports this model but cannot compile it",
        who=str(model.source_path),
        got=f"{type(error).__name__}: {last_line(str(error))}",
        remedy="Try another opset_version or other input sizes; if it stays, report it to TVM.",
    )
