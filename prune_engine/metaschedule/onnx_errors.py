"""Turns what TVM raises during import into advice."""

from __future__ import annotations

import re
from pathlib import Path

from prune_engine.errors import ModelImportError

_FIX_SHAPES = "Fix every input's shape with --shape NAME=1x3x224x224 or --dim SYMBOL=1 and try other sizes."
_SHAPE_CHAIN = (
    "the model computes a shape while it runs, and TVM needs it in advance",
    "Install onnxruntime, which folds such arithmetic, or simplify the model with onnxslim or onnxsim; "
    "where the shape depends on the data TVM cannot import the model.",
)
_DYNAMIC = ("a dimension is still dynamic where TVM needs a number", _FIX_SHAPES)

#: What TVM's message contains -> (problem, remedy). The first hit counts.
_KNOWN: tuple[tuple[str, tuple[str, str]], ...] = (
    (r"Dynamic (pads|axes) are not supported", _SHAPE_CHAIN),
    (r"Dynamic size of type", _SHAPE_CHAIN),
    (r"requires the input new shape to be Shape", _SHAPE_CHAIN),
    (r"expects the input data to be a Tensor\. However, the given input is", _SHAPE_CHAIN),
    (r"the given input has no shape", _SHAPE_CHAIN),
    (r"cannot handle ShapeExpr inputs", _SHAPE_CHAIN),
    (r"object of type 'NoneType' has no len\(\)", _DYNAMIC),
    (r"int\(\) argument must be .* not '.*Var'", _DYNAMIC),
    (r"emit_te now only supports Tensor that has ShapeExpr shape", _DYNAMIC),
    (
        r"Cannot cast .*NoneType.* to list of Expr",
        (
            "an operator leaves out an optional input in a way TVM does not accept",
            "Old exporters do this; convert the model to opset 13 or later with onnx.version_converter.",
        ),
    ),
    (
        r"operators are not supported for frontend ONNX",
        ("TVM does not import some of this model's operators", "Export the model with other operators."),
    ),
)


def import_error(
    error: Exception, path: Path, opset: int, *, operator: str | None, node: str | None, folding: str | None
) -> ModelImportError:
    """The error to raise for what TVM raised. ``folding`` says why shape arithmetic was not folded first."""
    text = str(error).strip()
    problem, remedy = next(
        (advice for pattern, advice in _KNOWN if re.search(pattern, text)),
        (
            "TVM's importer failed on this model",
            "Try other input sizes or another opset_version; if it stays, report it to TVM with this message.",
        ),
    )
    if folding:
        remedy += f" (Its shape arithmetic was not folded: {folding}.)"
    return ModelImportError(
        problem,
        who=str(path),
        node=node,
        operator=operator,
        opset=opset,
        got=f"{type(error).__name__}: {_essence(text)}",
        remedy=remedy,
    )


def _essence(text: str, limit: int = 300) -> str:
    """The line of a TVM message that says something: the last one, without its C++ trace."""
    lines = [line.strip() for line in text.split("\n") if line.strip()]
    telling = [line for line in lines if not line.startswith(("File ", "Traceback", "Did you forget"))]
    return (telling or lines or ["no message"])[-1][:limit]
