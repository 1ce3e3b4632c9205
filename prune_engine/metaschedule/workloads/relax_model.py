"""Relax modules as models: whoever builds one by hand, or takes it from another frontend, tunes it as it is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from prune_engine.bounded_files import json_of, read_bounded
from prune_engine.errors import ModelImportError
from prune_engine.metaschedule._compat import import_tvm
from prune_engine.metaschedule.forked import crash_of
from prune_engine.metaschedule.importers import ImportedModel, TensorInfo, lowered_and_fused
from prune_engine.metaschedule.materialise import last_line
from prune_engine.metaschedule.onnx_files import check_readable
from prune_engine.metaschedule.quiet import captured_stderr
from prune_engine.metaschedule.relax_tasks import extract_tasks

#: What the text of a module with Relax functions holds.
_MARK = '"relax.expr.Function"'


def relax_of_json(path: Path) -> object | None:
    """The module in a file, as ``tvm.ir.save_json`` writes it, if its ``main`` is a Relax function; else None.

    Raises ModelImportError for a file that cannot be read, or on which the compiler crashes.
    """
    check_readable(path)
    try:
        text = read_bounded(path).decode("utf-8")
    except UnicodeDecodeError:
        return None
    if _MARK not in text or not isinstance(_json(text), dict):
        return None
    tvm = import_tvm()
    from tvm.ir import load_json

    if crash := crash_of(lambda: load_json(text)):
        raise _error("the module cannot be read", path, crash)
    try:
        mod = load_json(text)
        main = mod["main"] if isinstance(mod, tvm.IRModule) else None
    except Exception as error:  # TVM's reader raises every kind
        raise _error("the module cannot be read", path, last_line(str(error))) from error
    return mod if isinstance(main, tvm.relax.Function) else None


def relax_model(mod: object, *, name: str, source: Path, digest: str, target: str) -> ImportedModel:
    """A model of a Relax module: lowered and fused as ONNX models are, unless that was done.

    Inputs are the parameters of ``main``, under their names; outputs are "output", or "output_0", ... where it
    returns several. There is no ONNX form of it, so ``onnx_bytes`` is empty.

    Raises ModelImportError for shapes that are no numbers, and for what the compiler cannot lower.
    """
    tvm = import_tvm()
    try:
        with captured_stderr():
            fused: Any = lowered_and_fused(mod, target)
            tasks = extract_tasks(fused, target)
    except Exception as error:  # TVM raises every kind
        raise _error("the module cannot be lowered", source, last_line(str(error))) from error
    main = fused["main"]
    returned = main.ret_ty
    types = list(returned.fields) if isinstance(returned, tvm.ir.TupleType) else [returned]
    names = ["output"] if len(types) == 1 else [f"output_{number}" for number in range(len(types))]
    return ImportedModel(
        name=name,
        source_path=source,
        digest=digest,
        inputs=tuple(_tensor(param.name, param.ty, source, "input") for param in main.params),
        outputs=tuple(_tensor(n, t, source, "output") for n, t in zip(names, types, strict=True)),
        mod=fused,
        tasks=tasks,
        onnx_bytes=b"",
    )


def _tensor(name: Any, type_: Any, source: Path, what: str) -> TensorInfo:
    try:
        return TensorInfo(str(name), tuple(int(axis) for axis in type_.shape), str(type_.dtype))
    except (AttributeError, TypeError, ValueError) as error:
        raise ModelImportError(
            f"{what} {str(name)!r} is no tensor of a fixed shape",
            who=str(source),
            got=str(type_)[:200],
            expected="numbers only",
            remedy="Fix its shape, with relax.transform.BindSymbolicVars, and tune again.",
        ) from error


def _json(text: str) -> object:
    try:
        return json_of(text)
    except ValueError:
        return None


def _error(problem: str, path: Path, got: str) -> ModelImportError:
    return ModelImportError(
        problem, who=str(path), got=got, expected="an IRModule as this version of TVM writes it, by save_json"
    )
