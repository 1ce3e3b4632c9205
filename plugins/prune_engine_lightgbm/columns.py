"""All columns of a batch that trees may split on."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from prune_engine.candidates import CandidateBatch
from prune_engine.space import VariableKind
from prune_engine_lightgbm.device import Device
from prune_engine_lightgbm.features import decision_columns
from prune_engine_lightgbm.nest_columns import nest_feature_columns
from prune_engine_lightgbm.rows import Columns

Float32Array = NDArray[np.float32]
#: Columns over the loop nests of a batch whose sketch could be read.
NestFeatures = Callable[[CandidateBatch, Device], Columns]

#: Prefix of columns that mean something in the space of one kernel only.
DECISION = "decision."
#: Pairs of more variables than these would be hundreds of columns.
_MOST_PAIRED = 16


def columns_of(batch: CandidateBatch, device: Device, of_nest: NestFeatures = nest_feature_columns) -> Columns:
    """Named columns float32 (n,): of the loop nest, the decisions and the device.

    ``of_nest`` gives those of the loop nest. Where the sketch could not be read (``batch.is_opaque``) products and
    ratios of its categorical numbers stand in for what symbols would tell, beside those that came with the space.
    """
    columns: dict[str, Float32Array] = {
        f"{DECISION}{name}": column.astype(np.float32) for name, column in decision_columns(batch).items()
    }
    columns |= _joint_columns(batch) | _given_columns(batch) if batch.is_opaque else of_nest(batch, device)
    n = len(batch)
    columns |= {name: np.full(n, value, dtype=np.float32) for name, value in device.columns().items()}
    return columns


def is_portable(name: str) -> bool:
    """Whether a column means the same in the space of another kernel."""
    return not name.startswith(DECISION)


def _joint_columns(batch: CandidateBatch) -> dict[str, Float32Array]:
    """log2 of the products and ratios of two categorical numbers, and of the product of all."""
    logs: dict[str, Float32Array] = {}
    for number, variable in enumerate(batch.sketch.variables):
        is_size = (
            variable.kind is VariableKind.CATEGORICAL and variable.table.min() >= 0 and variable.table.max() > 1
        )
        if is_size:
            values = batch.column(number)[:, 0].astype(np.float32)
            logs[variable.name] = np.log2(np.maximum(values, 0.5))
    columns: dict[str, Float32Array] = {}
    if not 2 <= len(logs) <= _MOST_PAIRED:
        return columns
    for (one, a), (other, b) in itertools.combinations(logs.items(), 2):
        columns[f"{DECISION}{one}*{other}"] = a + b
        columns[f"{DECISION}{one}/{other}"] = a - b
    columns[f"{DECISION}product"] = np.sum(list(logs.values()), axis=0, dtype=np.float32)
    return columns


def _given_columns(batch: CandidateBatch) -> dict[str, Float32Array]:
    """log2 of what came with the space, where it is a quantity: rules and drafts read the same numbers."""
    columns: dict[str, Float32Array] = {}
    for name in batch.space.given:
        values = batch.symbol(name)
        if not len(values) or values.min() >= 0:
            # They mean the same everywhere, but are what the kernel's owner says they are: of this kernel's space.
            columns[f"{DECISION}given.{name}"] = np.log2(1 + values.astype(np.float32))
    return columns
