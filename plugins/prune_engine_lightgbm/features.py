"""Decisions as columns a tree can split on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from prune_engine.candidates import CandidateBatch
from prune_engine.space import VariableKind

Columns = dict[str, NDArray[np.float64]]


def decision_columns(batch: CandidateBatch) -> Columns:
    """Named columns float64 (n,) of a batch.

    A tile gives log2 of each factor and of each product from the innermost factor outwards (the tile's
    extent at that level); tiles of equally many parts also give the sum of those logs over the variables
    (the volume at that level). Categoricals and locations give their value. ``sketch`` is the structure.
    """
    columns: Columns = {"sketch": np.full(len(batch), float(batch.sketch.index))}
    volumes: dict[str, NDArray[np.float64]] = {}
    for v, variable in enumerate(batch.sketch.variables):
        values = batch.column(v).astype(np.float64)
        if variable.kind is not VariableKind.TILE:
            columns[variable.name] = values[:, 0]
            continue
        logs = np.log2(values)
        n_parts = logs.shape[1]
        extents = np.cumsum(logs[:, ::-1], axis=1)[:, ::-1]
        for part in range(n_parts):
            columns[f"{variable.name}.factor{part}"] = logs[:, part]
            columns[f"{variable.name}.extent{part}"] = extents[:, part]
            volume = f"volume.{n_parts}.{part}"
            volumes[volume] = volumes.get(volume, np.zeros(len(batch))) + extents[:, part]
    return columns | volumes


def matrix(columns: Mapping[str, NDArray[np.float64]], names: Sequence[str], n: int) -> NDArray[np.float64]:
    """Columns in the order of ``names``, float64 (n, len(names)); NaN where this sketch has no such column."""
    missing = np.full(n, np.nan)
    return np.column_stack([columns.get(name, missing) for name in names]) if names else np.empty((n, 0))
