"""Columns over loop nests of candidates that were looked at before."""

from __future__ import annotations

import numpy as np

from prune_engine.candidates import CandidateBatch
from prune_engine.row_memory import RowMemory
from prune_engine_lightgbm.device import Device
from prune_engine_lightgbm.nest_columns import nest_feature_columns
from prune_engine_lightgbm.rows import Columns, Float32Array

#: Candidates that are remembered, about 300 bytes each.
_MAX_ROWS = 1 << 17


class RememberedColumns:
    """`nest_feature_columns` for one device, each candidate once, as long as there is room to remember it."""

    def __init__(self) -> None:
        self._memory: RowMemory[np.float32] = RowMemory(_MAX_ROWS)
        self._names: tuple[str, ...] = ()

    def __call__(self, batch: CandidateBatch, device: Device) -> Columns:
        """Named columns float32 (n,) of a batch whose sketch could be read."""

        def compute(part: CandidateBatch) -> Float32Array:
            columns = nest_feature_columns(part, device)
            self._names = tuple(columns)
            return np.stack(list(columns.values()), axis=1)

        rows = self._memory.of(batch, compute)
        return dict(zip(self._names, np.ascontiguousarray(rows.T), strict=True))
