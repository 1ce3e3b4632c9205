"""`prune-engine run FOLDER`: run a compiled model on given or random inputs."""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from prune_engine.errors import ConfigError, OutputError

if TYPE_CHECKING:
    from prune_engine.metaschedule.artifact import Artifact


def run(
    folder: Annotated[Path, typer.Argument(help="Folder that `prune-engine tune` wrote.", show_default=False)],
    inputs: Annotated[
        list[str] | None,
        typer.Option("--input", help="Input as NAME=FILE.npy; may be repeated. Random where not given."),
    ] = None,
    output: Annotated[Path | None, typer.Option(help="Write the outputs to this .npz file.")] = None,
    repeat: Annotated[int, typer.Option(min=1, help="Timed calls.")] = 20,
    seed: Annotated[int, typer.Option(min=0, help="Seed of random inputs.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for machines.")] = False,
) -> None:
    """Run a tuned model, time it and show what comes out."""
    import numpy as np

    from prune_engine.metaschedule.artifact import load_artifact

    artifact = load_artifact(folder)
    arrays = _inputs(artifact, inputs or [], seed)
    outputs = artifact.run(arrays)
    tensors = artifact.bind(arrays)
    secs = []
    for _ in range(repeat):
        started = time.perf_counter()
        artifact.call(tensors)
        secs.append(time.perf_counter() - started)
    named = dict(zip((spec.name for spec in artifact.metadata.outputs), outputs, strict=True))
    if output is not None:
        try:
            with output.open("wb") as file:
                np.savez(file, allow_pickle=False, **named)
        except OSError as error:
            raise OutputError(f"cannot be written ({error.strerror})", who=str(output)) from error
    record = {
        "model": artifact.metadata.model_name,
        "n_threads": artifact.metadata.n_threads,
        "n_calls": repeat,
        "median_secs": statistics.median(secs),
        "min_secs": min(secs),
        "max_secs": max(secs),
        "outputs": {
            name: {"shape": list(a.shape), "dtype": str(a.dtype), **_range(a)} for name, a in named.items()
        },
    }
    if as_json:
        typer.echo(json.dumps(record))
    else:
        _print(record, named)


def _inputs(artifact: Artifact, given: list[str], seed: int) -> Mapping[str, Any]:
    from prune_engine.metaschedule.model_inputs import random_inputs

    arrays = dict(random_inputs(artifact.metadata.inputs, seed))
    for text in given:
        name, separator, file = text.partition("=")
        if not separator or name not in arrays:
            raise ConfigError(
                "no such input" if separator else "cannot be read",
                who="--input",
                got=repr(text),
                expected=f"NAME=FILE.npy with one of: {', '.join(arrays)}",
            )
        arrays[name] = _load(Path(file))
    return arrays


def _load(path: Path) -> Any:
    import numpy as np

    try:
        return np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise ConfigError("not a readable .npy file", who=str(path), got=str(error).splitlines()[0]) from error


def _range(array: Any) -> dict[str, float]:
    if not array.size:
        return {}
    return {"min": float(array.min()), "max": float(array.max()), "mean": float(array.mean())}


def _print(record: Mapping[str, Any], named: Mapping[str, Any]) -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console()
    console.print(
        f"{record['model']}: median {record['median_secs'] * 1e3:.3f} ms over {record['n_calls']} calls "
        f"(min {record['min_secs'] * 1e3:.3f}, max {record['max_secs'] * 1e3:.3f}), "
        f"{record['n_threads']} threads",
        highlight=False,
    )
    table = Table("output", "shape", "dtype", "min", "max", "mean", box=None, pad_edge=False)
    for name, array in named.items():
        shape = "x".join(str(size) for size in array.shape) or "scalar"
        values = [f"{v:.5g}" for v in _range(array).values()] or ["-"] * 3
        table.add_row(name, shape, str(array.dtype), *values)
    console.print(table)
