"""Makes the shapes of an ONNX model static, from what the user says about its inputs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from prune_engine.errors import ConfigError, ModelImportError

#: Larger dimensions overflow the 32 bits that kernels count in.
MAX_SIZE = 2**31 - 1

#: Names exporters write where they do not know a dimension: they name nothing.
_NAMELESS = ("", "?", "-1", "None", "none", "unk")


@dataclass(frozen=True, slots=True)
class OpenDimension:
    """A dimension that is still undetermined.

    ``symbol`` is its name in the model, None if it has none; ``axis`` is None if even the rank is
    unknown. ``suggestion`` is a usual value, None if there is none.
    """

    input_name: str
    axis: int | None
    symbol: str | None
    suggestion: int | None


@dataclass(frozen=True, slots=True)
class _Input:
    """An input as declared: an axis is a number, a symbol's name, or None."""

    name: str
    axes: tuple[int | str | None, ...] | None
    value: Any


def make_static(
    model: Any,
    shapes: Mapping[str, tuple[int, ...]],
    dims: Mapping[str, int],
    path: Path,
) -> list[OpenDimension]:
    """Write the given shapes into the model's inputs; return what stays open.

    Weights listed as inputs (as old models do) stop being inputs.

    Raises:
        ConfigError: an unknown input or symbol, a wrong rank, or a contradiction to a fixed dimension.
        ModelImportError: an input is no tensor.
    """
    _drop_weights_from_inputs(model)
    inputs = [_read_input(value, path) for value in model.graph.input]
    known = _bind_symbols(inputs, shapes, dims, path)
    still_open = []
    for declared in inputs:
        shape = _shape_of(declared, shapes, known)
        still_open += _open_axes(declared, shape)
        if shape is not None:
            _write_shape(declared.value, shape)
    # What the exporter inferred for other shapes would now contradict.
    del model.graph.value_info[:]
    return still_open


def describe_inputs(model: Any) -> str:
    """The model's inputs as a user writes them: ``x=?x3x224x224 (float32)``."""
    import onnx

    texts = []
    for value in model.graph.input:
        tensor = value.type.tensor_type
        axes = _axes_of(tensor)
        shape = "unknown rank" if axes is None else "x".join(str(a) if a else "?" for a in axes) or "scalar"
        dtype = onnx.TensorProto.DataType.Name(tensor.elem_type).lower()
        texts.append(f"{value.name}={shape} ({dtype})")
    return ", ".join(texts) or "none"


def _drop_weights_from_inputs(model: Any) -> None:
    weights = {tensor.name for tensor in model.graph.initializer}
    weights |= {tensor.values.name for tensor in model.graph.sparse_initializer}
    kept = [value for value in model.graph.input if value.name not in weights]
    if len(kept) == len(model.graph.input):
        return
    del model.graph.input[:]
    model.graph.input.extend(kept)
    # Version 3 demands that weights be inputs; from 4 on they need not be.
    model.ir_version = max(model.ir_version, 4)


def _read_input(value: Any, path: Path) -> _Input:
    kind = value.type.WhichOneof("value")
    if kind != "tensor_type":
        raise ModelImportError(
            f"input {value.name!r} is not a tensor",
            who=str(path),
            got=kind,
            expected="tensors only",
            remedy="Export the model with plain tensor inputs.",
        )
    return _Input(value.name, _axes_of(value.type.tensor_type), value)


def _axes_of(tensor: Any) -> tuple[int | str | None, ...] | None:
    if not tensor.HasField("shape"):
        return None
    return tuple(_axis(dim) for dim in tensor.shape.dim)


def _axis(dim: Any) -> int | str | None:
    if dim.WhichOneof("value") == "dim_value":
        return int(dim.dim_value) if dim.dim_value > 0 else None
    name = str(dim.dim_param).strip()
    return None if name in _NAMELESS else name


def _bind_symbols(
    inputs: list[_Input], shapes: Mapping[str, tuple[int, ...]], dims: Mapping[str, int], path: Path
) -> dict[str, int]:
    """Values of all symbols, from ``dims`` and from the axes of ``shapes`` that bear a symbol."""
    _refuse_unknown(shapes, [i.name for i in inputs], "input", "--shape", path)
    symbols = {axis for i in inputs for axis in i.axes or () if isinstance(axis, str)}
    _refuse_unknown(dims, sorted(symbols), "symbolic dimension", "--dim", path)
    for name, size in dims.items():
        _check_size(size, f"--dim {name}", path)
    known = dict(dims)
    for declared in inputs:
        shape = shapes.get(declared.name)
        if shape is None:
            continue
        for size in shape:
            _check_size(size, f"--shape {declared.name}", path)
        if declared.axes is None:
            continue
        if len(shape) != len(declared.axes):
            raise ConfigError(
                f"input {declared.name!r} has another rank",
                who=str(path),
                got="x".join(map(str, shape)) or "a scalar",
                expected=f"{len(declared.axes)} dimensions: "
                + "x".join(str(a) if a else "?" for a in declared.axes),
            )
        for position, (axis, size) in enumerate(zip(declared.axes, shape, strict=True)):
            fixed = known.setdefault(axis, size) if isinstance(axis, str) else axis
            if fixed is not None and fixed != size:
                raise ConfigError(
                    f"axis {position} of input {declared.name!r} is already fixed",
                    who=str(path),
                    got=size,
                    expected=f"{fixed}" + (f" (symbol {axis!r})" if isinstance(axis, str) else ""),
                )
    return known


def _refuse_unknown(given: Iterable[str], existing: list[str], what: str, option: str, path: Path) -> None:
    unknown = [name for name in given if name not in existing]
    if unknown:
        raise ConfigError(
            f"the model has no {what} of this name",
            who=f"{option} for {path}",
            got=", ".join(map(repr, unknown)),
            expected=", ".join(map(repr, existing)) or f"none, it has no {what}",
        )


def _check_size(size: int, who: str, path: Path) -> None:
    if not 1 <= size <= MAX_SIZE:
        problem = f"a dimension is too {'small' if size < 1 else 'large'}"
        raise ConfigError(problem, who=f"{who} for {path}", got=size, expected=f"1 to {MAX_SIZE}")


def _shape_of(
    declared: _Input, shapes: Mapping[str, tuple[int, ...]], known: Mapping[str, int]
) -> tuple[int | str | None, ...] | None:
    if declared.name in shapes:
        return tuple(shapes[declared.name])
    if declared.axes is None:
        return None
    return tuple(known.get(axis, axis) if isinstance(axis, str) else axis for axis in declared.axes)


def _open_axes(declared: _Input, shape: tuple[int | str | None, ...] | None) -> list[OpenDimension]:
    if shape is None:
        return [OpenDimension(declared.name, None, None, None)]
    return [
        OpenDimension(declared.name, position, axis, _suggest(position, axis, len(shape)))
        for position, axis in enumerate(shape)
        if not isinstance(axis, int)
    ]


def _suggest(position: int, symbol: str | None, rank: int) -> int | None:
    """A usual size: one sample per batch, 128 tokens, 224 pixels."""
    name = (symbol or "").lower()
    if "seq" in name or "token" in name:
        return 128
    if any(word in name for word in ("height", "width")) or name in ("h", "w"):
        return 224
    if "batch" in name or (position == 0 and rank > 1):
        return 1
    return 224 if rank == 4 and position in (2, 3) else None


def _write_shape(value: Any, shape: tuple[int | str | None, ...]) -> None:
    tensor_shape = value.type.tensor_type.shape
    del tensor_shape.dim[:]
    for axis in shape:
        dim = tensor_shape.dim.add()
        if isinstance(axis, int):
            dim.dim_value = axis
        elif axis is not None:
            dim.dim_param = axis
