"""Read kernel tables: Kernel Tuner spaces as tab-separated text, maybe gzipped.

The columns are ``workload``, ``config`` (``name=value;name=value``) and one per device, with milliseconds,
``invalid`` for what failed there, or nothing for what was not tried.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from prune_engine.bounded_files import read_maybe_gzipped
from prune_engine.errors import ConfigError
from prune_engine.recorded.kernel_tables import KernelTable

_WORKLOAD, _CONFIG, _INVALID = "workload", "config", "invalid"
_SECS_PER_MS = 1e-3


def read_kernel_tables(path: Path) -> tuple[KernelTable, ...]:
    """The tables of a file, one per workload. A row that cannot be read is left out and told of in ``remarks``.

    Raises ConfigError if the file cannot be read or is no such table.
    """
    header, *rows = [line.split("\t") for line in _text(path).splitlines() if line.strip()] or [[""]]
    devices = header[2:]
    if header[:2] != [_WORKLOAD, _CONFIG] or not devices:
        raise ConfigError(
            "is no table of kernels",
            who=str(path),
            got=f"first line {chr(9).join(header)[:80]!r}",
            expected=f"tab-separated columns {_WORKLOAD}, {_CONFIG} and one per device",
        )
    twice = sorted({device for device in devices if devices.count(device) > 1})
    if twice:
        raise ConfigError(
            "the table has two columns of one device",
            who=str(path),
            got=", ".join(twice),
            expected="one column per device",
        )
    groups: dict[str, _Rows] = {}
    for number, cells in enumerate(rows, 2):
        groups.setdefault(cells[0], _Rows(devices)).add(number, cells)
    stem = path.name.split(".")[0]
    tables = [rows.table(f"{stem}/{name}" if name else stem) for name, rows in groups.items() if rows.configs]
    if not tables:
        problems = [problem for rows in groups.values() for problem in rows.problems]
        raise ConfigError(
            "the table holds no configuration that can be read",
            who=str(path),
            got="; ".join(problems[:3]) or "no rows",
            expected=f"rows such as <tab>a=1;b=2<tab>0.5{'<tab>invalid' if len(devices) > 1 else ''}",
        )
    return tuple(tables)


class _Rows:
    """The rows of one workload."""

    def __init__(self, devices: Sequence[str]) -> None:
        self._devices = devices
        self.configs: list[Mapping[str, str]] = []
        self.problems: list[str] = []
        self._millis: list[list[float | None]] = []

    def add(self, number: int, cells: Sequence[str]) -> None:
        """Take in the row on line ``number``, or note what is wrong with it."""
        try:
            config, millis = _config(cells), [_millis(cell) for cell in _padded(cells, 2 + len(self._devices))[2:]]
        except ValueError as error:
            self.problems.append(f"line {number}: {error}")
            return
        if self.configs and config.keys() != self.configs[0].keys():
            expected = ", ".join(self.configs[0])
            self.problems.append(f"line {number}: parameters {', '.join(config)}, expected {expected}")
            return
        self.configs.append(config)
        self._millis.append(millis)

    def table(self, name: str) -> KernelTable:
        """What was taken in; of equal configurations the first."""
        names = tuple(self.configs[0])
        choices = tuple(_sorted({config[parameter] for config in self.configs}) for parameter in names)
        numbers = [{value: i for i, value in enumerate(values)} for values in choices]
        indices = np.array(
            [[of[config[p]] for p, of in zip(names, numbers, strict=True)] for config in self.configs],
            dtype=np.int32,
        )
        _, first = np.unique(indices, axis=0, return_index=True)
        keep = np.sort(first)
        problems = list(self.problems)
        if len(keep) < len(indices):
            problems.append(f"{len(indices) - len(keep)} configurations are there twice")
        secs = np.array(self._millis, dtype=np.float64)[keep] * _SECS_PER_MS  # None becomes NaN
        return KernelTable(
            name,
            names,
            choices,
            indices[keep],
            {d: np.where(np.isinf(secs[:, i]), np.nan, secs[:, i]) for i, d in enumerate(self._devices)},
            {d: ~np.isnan(secs[:, i]) for i, d in enumerate(self._devices)},
            tuple(problems),
        )


def _text(path: Path) -> str:
    try:
        return read_maybe_gzipped(path).decode("utf-8-sig")
    except (OSError, ValueError) as error:
        raise ConfigError(
            "cannot be read",
            who=str(path),
            got=getattr(error, "strerror", None) or str(error),
            expected="tab-separated text in UTF-8, maybe gzipped",
        ) from error


def _padded(cells: Sequence[str], n: int) -> list[str]:
    """The cells of a row; those that end it and are empty may be missing."""
    if len(cells) > n:
        raise ValueError(f"{len(cells)} columns, expected {n}")
    return [*cells, *[""] * (n - len(cells))]


def _config(cells: Sequence[str]) -> dict[str, str]:
    parts = [part.partition("=") for part in (cells[1] if len(cells) > 1 else "").split(";")]
    if not all(name.strip() and equals for name, equals, _ in parts):
        raise ValueError("its configuration is not name=value;name=value")
    return {name.strip(): value.strip() for name, _, value in parts}


def _millis(cell: str) -> float | None:
    """Milliseconds, infinity for a failure, None where nothing was tried."""
    text = cell.strip()
    if not text:
        return None
    if text == _INVALID:
        return math.inf
    value = float(text)
    if not (math.isfinite(value) and value > 0):
        raise ValueError(f"{text} is no time in milliseconds")
    return value


def _sorted(values: set[str]) -> tuple[str, ...]:
    """Numbers ascending, else texts."""
    try:
        return tuple(sorted(values, key=float))
    except ValueError:
        return tuple(sorted(values))
