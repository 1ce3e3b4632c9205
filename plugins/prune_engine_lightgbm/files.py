"""Model files: what was measured, as columns, with what is needed to tell whether they mean the same here.

One compressed numpy archive: a header of JSON and three arrays for each block of rows. Models are fitted from the
rows, so a file does not depend on a version of LightGBM.
"""

from __future__ import annotations

import json
import math
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from prune_engine.bounded_files import NPY_ERRORS
from prune_engine.errors import ConfigError
from prune_engine.symbols.table import SYMBOLS_VERSION
from prune_engine_lightgbm.device import Device
from prune_engine_lightgbm.rows import Block, Labels, TaskRows

#: Changes with the form of the file, or with the meaning of a column that is no symbol.
FORMAT = "prune_engine_lightgbm.residual/1"

#: log2 of seconds that no float64 exceeds, nor falls below.
_MOST_LOG_SECS = 1100.0

#: A row has about 400 bytes: a million of them.
_MAX_BYTES = 1 << 29


@dataclass(frozen=True, slots=True)
class ModelFile:
    """The rows of tasks by task id, all measured on ``device`` (None: nothing was measured)."""

    device: Device | None
    tasks: Mapping[str, TaskRows]


def write_model(path: Path, content: ModelFile) -> None:
    """Write a file, in place of an earlier one. Raises OSError."""
    arrays: dict[str, np.ndarray[Any, Any]] = {}
    tasks: list[dict[str, object]] = []
    for task_id, rows in content.tasks.items():
        blocks: list[dict[str, object]] = []
        for block in rows.blocks:
            number = len(arrays)
            names = sorted(block.columns)
            arrays[f"indices{number}"] = block.indices
            arrays[f"labels{number}"] = np.stack(
                [block.labels.log_secs, block.labels.is_censored.astype(np.float64)]
            )
            table = [np.asarray(block.columns[name], dtype=np.float32) for name in names]
            arrays[f"columns{number}"] = np.stack(table) if table else np.empty((0, len(block.labels)), np.float32)
            told = {
                "number": number,
                "sketch_index": block.sketch_index,
                "sketch_id": block.sketch_id,
                "names": names,
            }
            blocks.append(told)
        tasks.append({"task_id": task_id, "blocks": blocks})
    header = {
        "format": FORMAT,
        "symbols_version": SYMBOLS_VERSION,
        "device": None if content.device is None else asdict(content.device),
        "tasks": tasks,
    }
    arrays["header"] = np.frombuffer(json.dumps(header).encode(), dtype=np.uint8)
    with path.open("wb") as file:
        np.savez_compressed(file, **arrays)  # type: ignore[arg-type]


def read_model(path: Path) -> ModelFile:
    """Read what ``write_model`` wrote. Raises ConfigError for anything else."""
    try:
        _check_size(path)
        with np.load(path, allow_pickle=False) as archive:
            header = json.loads(archive["header"].tobytes().decode())
            if header["format"] != FORMAT:
                raise ValueError(f"format {header['format']!r}")
            if header["symbols_version"] != SYMBOLS_VERSION:
                raise _OtherSymbolsError(header["symbols_version"])
            device = None if header["device"] is None else _device(header["device"])
            tasks = {str(task["task_id"]): _rows(task["blocks"], archive) for task in header["tasks"]}
    except _OtherSymbolsError as error:
        raise ConfigError(
            "a model of other symbols: its columns mean something else here",
            who=str(path),
            got=f"symbols version {error.args[0]}",
            expected=f"symbols version {SYMBOLS_VERSION}",
            remedy="Train afresh with this version (--prior none), or use the version that wrote the file.",
        ) from error
    except _UNREADABLE as error:
        raise ConfigError(
            f"not a model of this verifier ({_told(error)})",
            who=str(path),
            expected=f"a whole file of format {FORMAT}",
            remedy="Give a file that this verifier saved, or train afresh (--prior none).",
        ) from error
    return ModelFile(device, tasks)


def _check_size(path: Path) -> None:
    """Raise ValueError for an archive that inflates to more than any model has, as a few kilobytes may."""
    if path.exists() and not path.is_file():
        raise ValueError("it is no file")  # a device may never end
    if not zipfile.is_zipfile(path):
        return  # told by what reads it
    with zipfile.ZipFile(path) as archive:
        n_bytes = sum(member.file_size for member in archive.infolist())
    if n_bytes > _MAX_BYTES:
        raise ValueError(f"inflates to {n_bytes >> 20} MiB, more than {_MAX_BYTES >> 20} MiB")


def _told(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    if isinstance(error, zipfile.BadZipFile | EOFError | zlib.error):
        return "it is cut off, or no archive of numbers"
    if "allow_pickle" in str(error):  # numpy's words on other files are advice to load them as code
        return "it is no archive of numbers"
    return f"{type(error).__name__}: {error}"


class _OtherSymbolsError(Exception):
    """The file is ours, but of another version of the symbols."""


_UNREADABLE = (
    *NPY_ERRORS,
    OSError,
    KeyError,
    AttributeError,
    IndexError,
    EOFError,
    RecursionError,
    ArithmeticError,
    NotImplementedError,
    zipfile.BadZipFile,
    zlib.error,
)


def _device(fields: Mapping[str, Any]) -> Device:
    """A device whose numbers are above 0, or NaN where nobody knows them. Raises TypeError or ValueError."""
    device = Device(**fields)
    for name, value in fields.items():
        if name in ("name", "kind", "vendor"):
            is_right = isinstance(value, str)
        else:
            is_right = isinstance(value, float | int) and not value <= 0 and value != math.inf
        if not is_right:
            raise ValueError(f"device {name} is {value!r}")
    return device


def _check_numbers(labels: np.ndarray[Any, Any], table: np.ndarray[Any, Any]) -> None:
    """Raise ValueError for numbers that ``write_model`` does not write.

    A time is NaN for a failure. A column is NaN as a whole, where the device lacks its limit; not all are.
    """
    if not labels.shape[1]:
        return
    log_secs, is_censored = labels
    if (np.abs(log_secs) > _MOST_LOG_SECS).any() or not np.isin(is_censored, (0, 1)).all():
        raise ValueError("times or marks that are no numbers of seconds")
    unknown = np.isnan(table)
    is_whole = unknown.all(axis=1) | ~unknown.any(axis=1)
    if np.isinf(table).any() or not is_whole.all() or (len(table) and unknown.all()):
        raise ValueError("columns of NaN or infinity")


def _rows(blocks: Sequence[Mapping[str, Any]], archive: Mapping[str, np.ndarray[Any, Any]]) -> TaskRows:
    rows = TaskRows()
    for block in blocks:
        number, names = block["number"], [str(name) for name in block["names"]]
        indices, labels, table = (archive[f"{kind}{number}"] for kind in ("indices", "labels", "columns"))
        if indices.ndim != 2 or indices.dtype != np.int32 or labels.shape != (2, len(indices)):
            raise ValueError(f"rows {indices.dtype} {indices.shape} with labels {labels.shape}")
        if table.shape != (len(names), len(indices)) or table.dtype != np.float32:
            raise ValueError(f"{len(names)} columns of {len(indices)} rows in {table.dtype} {table.shape}")
        _check_numbers(labels, table)
        told = Labels(labels[0].astype(np.float64), labels[1] != 0)
        columns = dict(zip(names, table, strict=True))
        rows.add(Block(int(block["sketch_index"]), str(block["sketch_id"]), indices, columns, told))
    return rows
