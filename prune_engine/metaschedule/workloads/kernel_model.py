"""Kernels as a model: a Relax module that calls each of them once, so that they tune and ship as models do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from prune_engine.errors import ModelImportError
from prune_engine.metaschedule._compat import import_tvm
from prune_engine.metaschedule.importers import ImportedModel, TensorInfo
from prune_engine.metaschedule.relax_tasks import extract_tasks


@dataclass(frozen=True, slots=True)
class Kernel:
    """A kernel by name; ``func`` is a PrimFunc whose outputs are its last parameters."""

    name: str
    func: object = field(repr=False)


def kernel_model(
    kernels: Sequence[Kernel],
    *,
    name: str,
    source: Path,
    digest: str,
    target: str,
    task_names: Mapping[str, str] | None = None,
) -> ImportedModel:
    """A model that calls each kernel once, on inputs of its own, and returns all outputs.

    ``source`` is what errors name. Inputs and outputs bear the names of the kernel's parameters, after the
    kernel's name and a dot if there are several kernels. ``task_names`` renames tasks. There is no ONNX
    form of it, so ``onnx_bytes`` is empty.

    Raises:
        ModelImportError: a kernel has no static shapes, or other parameters than inputs and then outputs.
    """
    tvm = import_tvm()
    from tvm import relax

    builder = relax.BlockBuilder()
    parts = [_parts(kernel, source) for kernel in kernels]
    prefixes = [f"{kernel.name}." if len(kernels) > 1 else "" for kernel in kernels]
    variables = [
        [relax.Var(prefix + t.name, relax.TensorType(t.shape, t.dtype)) for t in part.inputs]
        for prefix, part in zip(prefixes, parts, strict=True)
    ]
    with builder.function("main", [v for group in variables for v in group]):
        with builder.dataflow():
            results: list[Any] = []
            for kernel, part, group in zip(kernels, parts, variables, strict=True):
                func: Any = kernel.func
                # Tasks have this attribute, and a task's schedule goes to the function that equals it.
                func = func.without_attr("global_symbol").with_attr("tirx.noalias", True)
                var = builder.add_func(func, kernel.name)
                types = [relax.TensorType(t.shape, t.dtype) for t in part.outputs]
                call = builder.emit(relax.call_tir(var, relax.Tuple(group), types))
                results += (
                    [call]
                    if len(types) == 1
                    else [builder.emit(relax.TupleGetItem(call, i)) for i in range(len(types))]
                )
            returned = builder.emit_output(results[0] if len(results) == 1 else relax.Tuple(results))
        builder.emit_func_output(returned)
    mod = builder.finalize()
    tasks = extract_tasks(mod, target)
    return ImportedModel(
        name=name,
        source_path=source,
        digest=digest,
        inputs=_prefixed(prefixes, [part.inputs for part in parts]),
        outputs=_prefixed(prefixes, [part.outputs for part in parts]),
        mod=tvm.IRModule(dict(mod.functions)),
        tasks=tuple(replace(task, name=(task_names or {}).get(task.name, task.name)) for task in tasks),
        onnx_bytes=b"",
    )


@dataclass(frozen=True, slots=True)
class _Parts:
    inputs: tuple[TensorInfo, ...]
    outputs: tuple[TensorInfo, ...]


def _prefixed(prefixes: Sequence[str], groups: Sequence[tuple[TensorInfo, ...]]) -> tuple[TensorInfo, ...]:
    return tuple(
        replace(t, name=prefix + t.name) for prefix, group in zip(prefixes, groups, strict=True) for t in group
    )


def _parts(kernel: Kernel, source: Path) -> _Parts:
    """Which parameters are inputs and which outputs."""
    func: Any = kernel.func
    tensors = _distinct([_tensor(param, kernel, source) for param in func.params])
    written = _written(func, kernel, source)
    first = min(written, default=len(tensors))
    if not written or written != set(range(first, len(tensors))):
        uses = (f"{t.name} ({'written' if i in written else 'read'})" for i, t in enumerate(tensors))
        raise ModelImportError(
            f"the outputs of kernel {kernel.name!r} are not its last parameters",
            who=str(source),
            got=", ".join(uses) or "no parameters",
            expected="parameters that are only read, then at least one that is written",
        )
    return _Parts(tuple(tensors[:first]), tuple(tensors[first:]))


def _distinct(tensors: Sequence[TensorInfo]) -> list[TensorInfo]:
    """Inputs are given by name: parameters of one name get numbers."""
    counts = Counter(tensor.name for tensor in tensors)
    return [replace(t, name=f"{t.name}_{i}") if counts[t.name] > 1 else t for i, t in enumerate(tensors)]


def _tensor(param: Any, kernel: Kernel, source: Path) -> TensorInfo:
    try:
        return TensorInfo(str(param.name), tuple(int(axis) for axis in param.ty.shape), str(param.ty.dtype))
    except (AttributeError, TypeError, ValueError) as error:
        raise ModelImportError(
            f"parameter {param.name} of kernel {kernel.name!r} is no tensor of a fixed shape",
            who=str(source),
            expected="buffers with numbers for shapes",
            remedy="Specialise it for one shape first, with `func.specialize`.",
        ) from error


def _written(func: Any, kernel: Kernel, source: Path) -> set[int]:
    """Positions of the parameters that are written. Raises for one that is read before it is first written."""
    tvm = import_tvm()
    import tvm_ffi

    blocks: list[Any] = []
    tvm_ffi.structural_walk(func.body, (tvm.s_tir.SBlock, blocks.append), order="pre")
    written: set[int] = set()
    for block in blocks:
        read = {i for region in block.reads for i in _positions(func, region)}
        for position in [i for region in block.writes for i in _positions(func, region)]:
            if position in read and block.init is None and position not in written:
                raise ModelImportError(
                    f"kernel {kernel.name!r} changes parameter {func.params[position].name} in place",
                    who=str(source),
                    expected="outputs that are written before they are read",
                    remedy="Let it write to a parameter of its own.",
                )
            written.add(position)
    return written


def _positions(func: Any, region: Any) -> list[int]:
    """Where the parameter is that a region belongs to, if it does."""
    return [i for i, param in enumerate(func.params) if param.same_as(region.source)]
