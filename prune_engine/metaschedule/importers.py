"""ONNX in: a model file becomes a fused Relax module and its tuning tasks."""

from __future__ import annotations

import os
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from prune_engine.errors import ModelImportError
from prune_engine.metaschedule._compat import import_tvm
from prune_engine.metaschedule.onnx_errors import import_error
from prune_engine.metaschedule.onnx_files import digest_of, load_onnx, opset_of
from prune_engine.metaschedule.onnx_folding import fold
from prune_engine.metaschedule.onnx_operators import unsupported_error, unsupported_nodes
from prune_engine.metaschedule.onnx_shapes import OpenDimension, describe_inputs, make_static
from prune_engine.metaschedule.quiet import captured_stderr
from prune_engine.metaschedule.relax_constants import fold_trivial
from prune_engine.metaschedule.relax_tasks import extract_tasks
from prune_engine.metaschedule.targets import make_target
from prune_engine.task import TuningTask

__all__ = ["ImportedModel", "OpenDimension", "TensorInfo", "import_onnx", "open_dimensions"]


@dataclass(frozen=True, slots=True)
class TensorInfo:
    """An input or output of a model; ``name`` is the one in the ONNX file, ``dtype`` is numpy's."""

    name: str
    shape: tuple[int, ...]
    dtype: str


@dataclass(frozen=True, slots=True)
class ImportedModel:
    """A model ready for tuning.

    ``mod`` is the fused Relax IRModule; the inputs of its ``main`` are in the order of ``inputs``.
    ``onnx_bytes`` is the model as shipped but for its now static shapes: the reference for onnxruntime.
    ``digest`` is the hash of the file. ``notes`` are remarks for the user.
    """

    name: str
    source_path: Path
    digest: str
    inputs: tuple[TensorInfo, ...]
    outputs: tuple[TensorInfo, ...]
    mod: object = field(repr=False, compare=False)
    tasks: tuple[TuningTask, ...] = field(repr=False)
    onnx_bytes: bytes = field(repr=False)
    notes: tuple[str, ...] = ()


def open_dimensions(
    path: Path, shapes: Mapping[str, tuple[int, ...]], dims: Mapping[str, int]
) -> list[OpenDimension]:
    """List the input dimensions that neither the model nor ``shapes`` nor ``dims`` determines.

    A symbol that occurs several times is listed once per axis; one ``dims`` entry closes all of them.
    Raises as ``import_onnx``.
    """
    return make_static(load_onnx(path), shapes, dims, path)


def import_onnx(
    path: Path, *, target: str, shapes: Mapping[str, tuple[int, ...]], dims: Mapping[str, int]
) -> ImportedModel:
    """Import a model for a canonical target (see ``resolve_target``).

    ``shapes`` fixes whole inputs by name, ``dims`` fixes symbolic dimensions by their name. A model
    without any kernel imports with no tasks.

    Raises:
        ModelImportError: the file is broken, an operator is unsupported, a dimension is open, ...
        ConfigError: ``shapes`` or ``dims`` do not fit the model.
    """
    path = Path(path)
    model = load_onnx(path)
    still_open = make_static(model, shapes, dims, path)
    if still_open:
        raise _open_error(model, still_open, path)
    relax_mod, notes = _to_relax(model, path)
    mod = _fuse(relax_mod, target, path, opset_of(model, path))
    return ImportedModel(
        name=os.fsencode(path.stem).decode(errors="replace"),  # bytes that are no text cannot be stored as such
        source_path=path,
        digest=digest_of(path),
        inputs=_inputs(mod, model, path),
        outputs=_outputs(mod, model, path),
        mod=mod,
        tasks=extract_tasks(mod, target),
        onnx_bytes=model.SerializeToString(),
        notes=notes,
    )


def _open_error(model: Any, still_open: list[OpenDimension], path: Path) -> ModelImportError:
    first = still_open[0]
    listing = ", ".join(
        f"{d.input_name} axis {d.axis}" + (f" ({d.symbol})" if d.symbol else "")
        if d.axis is not None
        else f"{d.input_name} (rank unknown)"
        for d in still_open
    )
    symbols = " ".join(f"--dim {name}=N" for name in dict.fromkeys(d.symbol for d in still_open) if name)
    return ModelImportError(
        f"{len(still_open)} {'dimension is' if len(still_open) == 1 else 'dimensions are'} left open: {listing}",
        who=str(path),
        got=f"inputs {describe_inputs(model)}",
        expected="a number for every dimension",
        remedy=f"Add --shape {first.input_name}=1x... for the whole input"
        + (f", or {symbols} for the symbols." if symbols else "."),
    )


def _to_relax(model: Any, path: Path) -> tuple[object, tuple[str, ...]]:
    """Import the folded model, or the unfolded one where that alone imports."""
    folding = fold(model)
    notes = () if folding.reason is None else (f"shape arithmetic was not folded: {folding.reason}",)
    failure: ModelImportError | None = None
    for candidate in [m for m in (folding.model, model) if m is not None]:
        opset = opset_of(candidate, path)
        missing = unsupported_nodes(candidate, opset)
        try:
            if missing:
                raise unsupported_error(missing, opset, path)
            return _convert(candidate, path, opset, folding.reason), notes
        except ModelImportError as error:
            # The folded model's failure is the one to report: it is what remains after folding.
            failure = failure or error
            notes = (*notes, f"the folded model does not import: {error}")
    assert failure is not None
    raise failure


def _convert(model: Any, path: Path, opset: int, folding: str | None) -> object:
    """Run TVM's importer, noting which node it is at."""
    import_tvm()
    from tvm.relax.frontend.onnx import onnx_frontend

    place: dict[str, str] = {}

    class LocatingImporter(onnx_frontend.ONNXGraphImporter):  # type: ignore[misc]  # untyped base
        def _convert_operator(self, op_name: str, inputs: Any, attrs: Any, opset: int) -> Any:
            place.update(operator=op_name, node=attrs["tvm_custom"]["name"])
            return super()._convert_operator(op_name, inputs, attrs, opset)

    # The importer prints the operands of a node that fails; the error we raise names the node instead.
    onnx_frontend.print = lambda *_, **__: None
    try:
        with _reported(path, opset, folding, place):
            converted: object = LocatingImporter({}, "float32").from_onnx(model.graph, opset)
        return converted
    finally:
        del onnx_frontend.print


@contextmanager
def _reported(
    path: Path, opset: int, folding: str | None = None, place: Mapping[str, str] | None = None
) -> Iterator[None]:
    """Keep TVM quiet, and turn whatever it raises into a ModelImportError."""
    with captured_stderr():
        try:
            yield
        except Exception as error:  # TVM raises every kind; see import_error
            # Half-built objects that the frames hold would complain on stderr when they go: let it be now.
            traceback.clear_frames(error.__traceback__)
            raise import_error(error, path, opset, folding=folding, **_known_place(place or {})) from error


def _known_place(place: Mapping[str, str]) -> dict[str, str | None]:
    return {"operator": place.get("operator"), "node": place.get("node") or None}


def _fuse(mod: object, target: str, path: Path, opset: int) -> object:
    with _reported(path, opset):
        return lowered_and_fused(mod, target)


def lowered_and_fused(mod: object, target: str) -> object:
    """A Relax module as kernels, what is constant folded: TVM's "zero" pipeline, then views for reshapes.

    Raises whatever TVM raises.
    """
    tvm = import_tvm()
    from tvm.relax import transform

    passes = [
        transform.LegalizeOps(),
        transform.AnnotateTIROpPattern(),
        transform.FoldConstant(),
        transform.FuseOps(),
        transform.FuseTIR(),
        # A kernel that only reshapes becomes a view here; it must not become a task, and a schedule would
        # hide from this pass that it is one.
        transform.RewriteDataflowReshape(),
        transform.DeadCodeElimination(),
    ]
    with make_target(target):
        fused: object = tvm.transform.Sequential(passes)(fold_trivial(mod))
    return fused


def _inputs(mod: Any, model: Any, path: Path) -> tuple[TensorInfo, ...]:
    names = [value.name for value in model.graph.input]
    types = [param.ty for param in mod["main"].params]
    return tuple(_tensor_info(n, t, path, "input") for n, t in zip(names, types, strict=True))


def _outputs(mod: Any, model: Any, path: Path) -> tuple[TensorInfo, ...]:
    tvm = import_tvm()
    names = [value.name for value in model.graph.output]
    returned = mod["main"].ret_ty
    types = list(returned.fields) if isinstance(returned, tvm.ir.TupleType) else [returned]
    return tuple(_tensor_info(n, t, path, "output") for n, t in zip(names, types, strict=True))


def _tensor_info(name: str, type_: Any, path: Path, what: str) -> TensorInfo:
    try:
        return TensorInfo(name, tuple(int(axis) for axis in type_.shape), str(type_.dtype))
    except (AttributeError, TypeError, ValueError) as error:
        raise ModelImportError(
            f"{what} {name!r} has no static shape",
            who=str(path),
            got=str(type_),
            expected="numbers only",
            remedy="Its shape depends on the data; cut the model before the operator that causes it.",
        ) from error
