"""`prune-engine run FOLDER`: run a compiled model on given or random inputs."""

from __future__ import annotations

import json
import math
import statistics
import time
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from prune_engine.bounded_files import NPY_ERRORS
from prune_engine.display.streams import writing_to_stdout
from prune_engine.errors import ConfigError, OutputError

if TYPE_CHECKING:
    from prune_engine.metaschedule.artifact import Artifact


def run(
    folder: Annotated[
        Path, typer.Argument(help="Folder of a result, which `prune-engine tune` wrote.", show_default=False)
    ],
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
        _write_npz(output, named)
    record = {
        "model": artifact.metadata.model_name,
        "n_threads": artifact.metadata.n_threads,
        "n_calls": repeat,
        "median_secs": statistics.median(secs),
        "min_secs": min(secs),
        "max_secs": max(secs),
        "outputs": {
            # JSON has no word for NaN and infinity.
            name: {
                "shape": list(a.shape),
                "dtype": str(a.dtype),
                **{key: v if math.isfinite(v) else None for key, v in _range(a).items()},
            }
            for name, a in named.items()
        },
    }
    with writing_to_stdout("Redirect it to a place with room."):
        if as_json:
            typer.echo(json.dumps(record))
        else:
            _print(record, named)


def _write_npz(path: Path, named: Mapping[str, Any]) -> None:
    """As ``np.savez``, whose own parameters are names that an output cannot have."""
    import numpy as np

    try:
        with path.open("wb") as file, zipfile.ZipFile(file, "w", allowZip64=True) as archive:
            for name, array in named.items():
                with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                    np.lib.format.write_array(member, np.asanyarray(array), allow_pickle=False)
    except OSError as error:
        raise OutputError(
            f"cannot be written ({error.strerror})",
            who=str(path),
            remedy="Name a file in a folder that you can write to, on a disk with room.",
        ) from error


def _inputs(artifact: Artifact, given: list[str], seed: int) -> Mapping[str, Any]:
    from prune_engine.metaschedule.model_inputs import random_inputs

    arrays = dict(random_inputs(artifact.metadata.inputs, seed))
    for text in given:
        # Names may contain the sign themselves.
        name = max((known for known in arrays if text.startswith(f"{known}=")), key=len, default=None)
        if name is None:
            raise ConfigError(
                "no such input" if "=" in text else "cannot be read",
                who="--input",
                got=repr(text),
                expected=f"NAME=FILE.npy with one of: {', '.join(arrays) or 'none, the model has no inputs'}",
            )
        arrays[name] = _load(Path(text.removeprefix(f"{name}=")))
    return arrays


def _load(path: Path) -> Any:
    import numpy as np

    expected = "one array, as numpy.save writes it"
    try:
        with path.open("rb") as file:
            return np.lib.format.read_array(file, allow_pickle=False)
    except OSError as error:
        raise ConfigError(
            "the input file cannot be read", who=str(path), got=error.strerror or str(error), expected=expected
        ) from error
    except (*NPY_ERRORS, EOFError) as error:
        is_npz = path.is_file() and zipfile.is_zipfile(path)  # which reads a device without end
        got = "an .npz archive" if is_npz else (str(error).splitlines() or [type(error).__name__])[0]
        raise ConfigError("not a readable .npy file", who=str(path), got=got, expected=expected) from error


def _range(array: Any) -> dict[str, float]:
    if not array.size:
        return {}
    return {"min": float(array.min()), "max": float(array.max()), "mean": float(array.mean())}


def _print(record: Mapping[str, Any], named: Mapping[str, Any]) -> None:
    from rich.table import Table

    from prune_engine.cli.console import result_console

    console = result_console()
    console.print(
        f"{record['model']}: median {record['median_secs'] * 1e3:.3f} ms over {record['n_calls']} calls "
        f"(min {record['min_secs'] * 1e3:.3f}, max {record['max_secs'] * 1e3:.3f}), "
        f"{record['n_threads']} thread{'' if record['n_threads'] == 1 else 's'}",
    )
    table = Table("output", "shape", "dtype", "min", "max", "mean", box=None, pad_edge=False)
    for name, array in named.items():
        shape = "x".join(str(size) for size in array.shape) or "scalar"
        values = [f"{v:.5g}" for v in _range(array).values()] or ["-"] * 3
        table.add_row(name, shape, str(array.dtype), *values)
    console.print(table)
