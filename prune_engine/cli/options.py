"""Reading option values, and asking for what is missing."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from prune_engine.errors import ConfigError
from prune_engine.metaschedule.onnx_shapes import MAX_SIZE

if TYPE_CHECKING:
    import typer

    from prune_engine.metaschedule.onnx_shapes import OpenDimension

T = TypeVar("T")


def parse_shape(text: str) -> tuple[str, tuple[int, ...]]:
    """Read ``input=1x3x224x224``; ``input=scalar`` is a tensor without axes. Raises ConfigError."""
    name, separator, shape = text.rpartition("=")
    try:
        sizes = () if shape == "scalar" else tuple(int(size) for size in shape.lower().split("x"))
        if not separator or not name or not all(1 <= size <= MAX_SIZE for size in sizes):
            raise ValueError(text)
    except ValueError as error:
        raise ConfigError(
            "cannot be read",
            who="--shape",
            got=_quoted(text),
            expected=f"NAME=AxBxC with sizes from 1 to {MAX_SIZE}, as in x=1x3x224x224",
        ) from error
    return name, sizes


def parse_dim(text: str) -> tuple[str, int]:
    """Read ``batch=1``. Raises ConfigError."""
    name, separator, size = text.rpartition("=")
    # Not more digits than Python reads at once.
    if not (separator and name and size.isdecimal() and len(size) < 20 and 1 <= int(size) <= MAX_SIZE):
        raise ConfigError(
            "cannot be read",
            who="--dim",
            got=_quoted(text),
            expected=f"NAME=SIZE with a size from 1 to {MAX_SIZE}, as in batch=1",
        )
    return name, int(size)


def _quoted(text: str) -> str:
    return repr(text if len(text) <= 80 else text[:77] + "...")


def check_blocked(names: Sequence[str], files: Sequence[Path]) -> None:
    """See that there is a plugin of each name that is not to be loaded. Raises ConfigError."""
    from prune_engine.plugin_host import blocked_names

    blocked_names.check_blocked(names, files, "--block")


def refuse_without_effect(context: typer.Context, names: Sequence[str], why: str) -> None:
    """Raise ConfigError if one of these parameters, which change nothing, was given on the command line.

    ``why`` completes "without effect ...".
    """
    given = [
        max(parameter.opts, key=len)
        for parameter in context.command.params
        if parameter.name in names and _is_given(context, parameter.name)
    ]
    if given:
        raise ConfigError(f"without effect {why}", who=", ".join(given), remedy="Leave it out.")


def _is_given(context: typer.Context, name: str) -> bool:
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


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
    from prune_engine.metaschedule.importers import open_dimensions

    by_input: dict[str, list[OpenDimension]] = {}
    for dim in open_dimensions(path, shapes, dims):
        by_input.setdefault(dim.input_name, []).append(dim)
    for name, still_open in by_input.items():
        if all(dim.symbol for dim in still_open):
            for dim in still_open:
                if dim.symbol and dim.symbol not in dims:
                    label = f"size of {dim.symbol!r} (input {name!r}, axis {dim.axis})"
                    suggestion = None if dim.suggestion is None else str(dim.suggestion)
                    dims[dim.symbol] = _asked(label, dim.symbol, parse_dim, suggestion)
        else:
            axes = ", ".join(str(dim.axis) for dim in still_open if dim.axis is not None) or "all"
            label = f"shape of input {name!r} as AxBxC (open axes: {axes})"
            shapes[name] = _asked(label, name, parse_shape)
    return shapes, dims


def _asked(label: str, name: str, parse: Callable[[str], tuple[str, T]], suggestion: str | None = None) -> T:
    """Ask until the answer can be read."""
    import typer

    while True:
        answer = typer.prompt(label, default=suggestion, err=True)
        try:
            return parse(f"{name}={answer.strip()}")[1]
        except ConfigError as error:
            typer.echo(f"{answer!r} will not do: expected {error.expected}", err=True)
