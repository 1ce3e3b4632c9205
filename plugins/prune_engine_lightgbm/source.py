"""A model of what was measured elsewhere: on another device, or of other kernels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from prune_engine_lightgbm.boosting import fit_trees, predict, refit
from prune_engine_lightgbm.columns import is_portable
from prune_engine_lightgbm.device import Device
from prune_engine_lightgbm.rows import Columns, TaskRows, matrix, targets

if TYPE_CHECKING:
    import lightgbm as lgb

Float64Array = NDArray[np.float64]

#: A source that was taught on columns of which a batch has fewer than this share has nothing to say about it.
_LEAST_COMMON = 0.8
#: Rows of one task beyond which more teach a source nothing.
MAX_TASK_ROWS = 20_000
#: Rows of one task that ran below which it teaches a source nothing.
MIN_ROWS = 16


@dataclass(frozen=True, slots=True)
class Source:
    """Trees that predict log2 seconds of a candidate, relative to the middle of its task.

    ``names`` are the columns in order; kind and vendor are those of the device it was measured on.
    """

    device_name: str
    kind: str
    vendor: str
    names: tuple[str, ...]
    booster: lgb.Booster
    text: str
    n_rows: int

    def says(self, columns: Columns, n: int) -> Float64Array:
        """What it says of a batch, float64 (n,); NaN where it was taught on other columns."""
        common = sum(name in columns for name in self.names)
        if common < _LEAST_COMMON * len(self.names):
            return np.full(n, np.nan)
        return predict(self.booster, matrix(columns, self.names, n))

    def adapted(self, rows: TaskRows, wanted: Float64Array) -> Source:
        """The source moved towards log2 seconds ``wanted``, float64 (n,), of the rows of one task."""
        moved = refit(self.text, rows.matrix(self.names), wanted - np.median(wanted))
        return replace(self, booster=moved)


def train_source(device: Device, tasks: Sequence[TaskRows], seed: int) -> Source | None:
    """Train on the rows of several tasks, the first 20 000 of each; None where there are too few that ran.

    Where loop nests could be read only columns count that mean the same in every kernel.
    """
    tables: list[tuple[TaskRows, Float64Array]] = []
    for rows in tasks:
        labels = rows.labels
        if (~np.isnan(labels.log_secs)).sum() < MIN_ROWS:
            continue
        wanted = targets(labels)
        tables.append((rows, wanted - np.median(wanted)))
    names = sorted(set().union(*(rows.names() for rows, _ in tables)))
    portable = [name for name in names if is_portable(name)]
    # A device's own numbers alone tell nothing about candidates.
    if any(not name.startswith("device.") for name in portable):
        names = portable
    if not tables or not names:
        return None
    x = np.concatenate([rows.matrix(names)[:MAX_TASK_ROWS] for rows, _ in tables])
    y = np.concatenate([wanted[:MAX_TASK_ROWS] for _, wanted in tables])
    booster = fit_trees(x, y, seed, is_source=True)
    return Source(device.name, device.kind, device.vendor, tuple(names), booster, booster.model_to_string(), len(y))
