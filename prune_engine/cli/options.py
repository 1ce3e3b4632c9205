"""Reading option values, and asking for what is missing."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from prune_engine.errors import ConfigError

if TYPE_CHECKING:
    from prune_engine.metaschedule.onnx_shapes import OpenDimension

_UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}


def parse_shape(text: str) -> tuple[str, tuple[int, ...]]:
    """Read ``input=1x3x224x224``; ``input=scalar`` is a tensor without axes. Raises ConfigError."""
    name, separator, shape = text.rpartition("=")
    try:
        sizes = () if shape == "scalar" else tuple(int(size) for size in shape.lower().split("x"))
        if not separator or not name or any(size < 1 for size in sizes):
            raise ValueError(text)
    except ValueError as error:
        raise ConfigError(
            "cannot be read",
            who="--shape",
            got=repr(text),
            expected="NAME=AxBxC with sizes >= 1, as in x=1x3x224x224",
        ) from error
    return name, sizes


def parse_dim(text: str) -> tuple[str, int]:
    """Read ``batch=1``. Raises ConfigError."""
    name, separator, size = text.rpartition("=")
    if not separator or not name or not size.isdecimal() or int(size) < 1:
        raise ConfigError("cannot be read", who="--dim", got=repr(text), expected="NAME=SIZE, as in batch=1")
    return name, int(size)


def parse_bytes(text: str, option: str) -> int:
    """Read ``8G``, ``512MiB`` or ``1000000`` (binary units). Raises ConfigError."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMGT]?)(?:i?B)?", text.strip(), re.IGNORECASE)
    size = int(float(match[1]) * _UNITS[match[2].upper()]) if match else 0
    if size < 1:
        raise ConfigError("cannot be read", who=option, got=repr(text), expected="a size such as 8G or 512M")
    return size


def usable_cores() -> int:
    """Processors this process may run on."""
    return len(os.sched_getaffinity(0))


def threads_or_default(n_threads: int | None) -> int:
    """The thread count asked for, else all usable cores. Raises ConfigError for more than there are."""
    n_cores = usable_cores()
    if n_threads is not None and n_threads > n_cores:
        raise ConfigError(
            "more threads than usable cores",
            who="--threads",
            got=n_threads,
            expected=f"1 to {n_cores}",
            remedy="Kernels that share a core cannot be timed.",
        )
    return n_threads or n_cores


def ask_for_open_dimensions(
    path: Path, shapes: Mapping[str, tuple[int, ...]], dims: Mapping[str, int]
) -> tuple[dict[str, tuple[int, ...]], dict[str, int]]:
    """On a terminal, ask for the dimensions a model leaves open; return the completed shapes and dims.

    Symbols are asked for by name with the usual size as default; an input with nameless dimensions is asked
    for as a whole. Elsewhere nothing is asked: importing the model then says what is missing.
    """
    shapes, dims = dict(shapes), dict(dims)
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return shapes, dims
    import typer

    from prune_engine.metaschedule.importers import open_dimensions

    by_input: dict[str, list[OpenDimension]] = {}
    for dim in open_dimensions(path, shapes, dims):
        by_input.setdefault(dim.input_name, []).append(dim)
    for name, still_open in by_input.items():
        if all(dim.symbol for dim in still_open):
            for dim in still_open:
                if dim.symbol and dim.symbol not in dims:
                    label = f"size of {dim.symbol!r} (input {name!r}, axis {dim.axis})"
                    dims[dim.symbol] = typer.prompt(label, default=dim.suggestion, type=int, err=True)
        else:
            axes = ", ".join(str(dim.axis) for dim in still_open if dim.axis is not None) or "all"
            answer = typer.prompt(f"shape of input {name!r} as AxBxC (open axes: {axes})", err=True)
            shapes[name] = parse_shape(f"{name}={answer}")[1]
    return shapes, dims
