"""Reads ONNX files; every way a file can be broken has its own error."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from prune_engine.errors import ModelImportError

#: Opsets below this have another broadcasting rule, which neither onnxruntime nor TVM implements.
MIN_OPSET = 7

# Field numbers of ModelProto are small: a valid file starts with the tag of ir_version (field 1, varint).
_FIRST_BYTE = b"\x08"
_LFS_POINTER = b"version https://git-lfs"


def load_onnx(path: Path) -> Any:
    """Read a model with its external data; local functions are inlined.

    Raises:
        ModelImportError: the file is missing, not ONNX, truncated, without its external data, of an opset
            that cannot be imported, or without any opset.
    """
    import onnx

    content = _read(path)
    model = onnx.ModelProto()
    try:
        model.ParseFromString(content)
    except Exception as error:  # protobuf's DecodeError depends on its implementation
        if content.startswith(_FIRST_BYTE):
            problem, remedy = "this ONNX file is truncated or damaged", "Copy or export it again."
        else:
            problem, remedy = "this is not an ONNX file", "Give the path of a model exported to .onnx."
        raise ModelImportError(problem, who=str(path), got=f"{len(content)} bytes", remedy=remedy) from error
    if not model.HasField("graph"):
        raise ModelImportError(
            "this is not an ONNX file",
            who=str(path),
            got="no graph in it",
            remedy="Give a model exported to .onnx.",
        )
    _load_external_data(model, path)
    opset_of(model, path)
    if model.functions:
        from onnx import inliner

        model = inliner.inline_local_functions(model)
    return model


def opset_of(model: Any, path: Path) -> int:
    """Version of the model's default operator set. Raises ModelImportError if it cannot be imported."""
    import onnx

    versions = [entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx")]
    if not versions:
        raise ModelImportError(
            "the model names no ONNX operator set",
            who=str(path),
            remedy="The file may be truncated, or use a vendor's operators only; export it again.",
        )
    newest = onnx.defs.onnx_opset_version()
    opset = int(versions[0])
    if not MIN_OPSET <= opset <= newest:
        raise ModelImportError(
            f"the operator set is too {'old' if opset < MIN_OPSET else 'new'}",
            who=str(path),
            opset=opset,
            expected=f"{MIN_OPSET} to {newest}",
            remedy="Export the model with another opset_version, or convert it with onnx.version_converter.",
        )
    return opset


def digest_of(path: Path) -> str:
    """Hash of the file's bytes, 32 hexadecimal digits."""
    digest = hashlib.blake2b(digest_size=16)
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def check_readable(path: Path) -> None:
    """Raise what ``load_onnx`` would raise for a file that is missing, empty or unreadable; takes no time."""
    _read(path, len(_LFS_POINTER))


def _read(path: Path, n_bytes: int = -1) -> bytes:
    if path.is_dir():
        raise ModelImportError("this is a folder", who=str(path), expected="an .onnx file")
    try:
        with path.open("rb") as file:
            content = file.read(n_bytes)
    except OSError as error:
        raise ModelImportError(
            f"the file cannot be read ({error.strerror})",
            who=str(path),
            remedy="Check the path and its permissions.",
        ) from error
    if content.startswith(_LFS_POINTER):
        raise ModelImportError(
            "this is a Git LFS pointer, not the model itself",
            who=str(path),
            remedy="Run `git lfs pull` where it lives.",
        )
    if not content:
        raise ModelImportError("the file is empty", who=str(path), remedy="Copy or export it again.")
    return content


def _load_external_data(model: Any, path: Path) -> None:
    """Bring in tensors that live in files beside the model."""
    from onnx import external_data_helper as external

    for tensor in _tensors(model.graph):
        if not external.uses_external_data(tensor):
            continue
        location = next((e.value for e in tensor.external_data if e.key == "location"), "")
        try:
            external.load_external_data_for_tensor(tensor, str(path.parent))
        except Exception as error:  # OSError, ValueError and onnx's ValidationError
            raise ModelImportError(
                f"tensor {tensor.name!r} is in another file that cannot be read",
                who=str(path),
                got=str(error).split("\n")[0][:200],
                expected=f"{location!r} beside the model",
                remedy="Copy the external data file along with the model.",
            ) from error
        stated = next((int(e.value) for e in tensor.external_data if e.key == "length"), None)
        if stated is not None and len(tensor.raw_data) != stated:
            raise ModelImportError(
                f"the external data of tensor {tensor.name!r} are truncated",
                who=str(path),
                got=f"{len(tensor.raw_data)} bytes in {location!r}",
                expected=f"{stated} bytes",
                remedy="Copy the external data file again.",
            )
        tensor.data_location = type(tensor).DEFAULT
        del tensor.external_data[:]


def _tensors(graph: Any) -> Iterator[Any]:
    """Every tensor stored in a graph and its subgraphs."""
    yield from graph.initializer
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("t"):
                yield attribute.t
            yield from attribute.tensors
            if attribute.HasField("g"):
                yield from _tensors(attribute.g)
            for subgraph in attribute.graphs:
                yield from _tensors(subgraph)
