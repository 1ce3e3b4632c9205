"""The measured candidates of one task, as columns and labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from prune_engine.measurement import Measurement
from prune_engine.space import Int32Array

Float64Array = NDArray[np.float64]
Float32Array = NDArray[np.float32]
BoolArray = NDArray[np.bool_]
#: Named columns float32 (n,).
Columns = Mapping[str, Float32Array]

#: A failure counts as so much slower (log2) than the slowest that ran.
_FAILURE_GAP = 1.0


@dataclass(frozen=True, slots=True)
class Labels:
    """log2 seconds of n candidates, NaN for failures; which of them were stopped early as clearly slow."""

    log_secs: Float64Array
    is_censored: BoolArray

    @staticmethod
    def of(measurements: Sequence[Measurement]) -> Labels:
        """Read measurements. A latency of 0, of a clock too coarse to see it, tells nothing, like a failure."""
        secs = np.array([m.latency_secs or np.nan for m in measurements], dtype=np.float64)
        secs[~np.isfinite(secs) | (secs <= 0)] = np.nan
        return Labels(np.log2(secs), np.array([m.is_censored for m in measurements], dtype=np.bool_))

    def __len__(self) -> int:
        return len(self.log_secs)


@dataclass(frozen=True, slots=True)
class Block:
    """Rows of one sketch: choice indices, int32 (n, v), columns, labels. Raises ValueError for unequal lengths."""

    sketch_index: int
    sketch_id: str
    indices: Int32Array
    columns: Columns
    labels: Labels

    def __post_init__(self) -> None:
        lengths = {len(self.indices), len(self.labels), *map(len, self.columns.values())}
        if len(lengths) != 1:
            raise ValueError(f"{len(self.labels)} latencies for {len(self.indices)} rows: other lengths")


@dataclass(slots=True)
class TaskRows:
    """All rows of one task in the order they were learnt."""

    blocks: list[Block] = field(default_factory=list)

    def add(self, block: Block) -> None:
        """Take in rows."""
        self.blocks.append(block)

    def __len__(self) -> int:
        return sum(len(block.labels) for block in self.blocks)

    @property
    def labels(self) -> Labels:
        """Of all rows."""
        none: list[Labels] = [Labels(np.empty(0), np.empty(0, dtype=np.bool_))]
        found = none + [block.labels for block in self.blocks]
        return Labels(
            np.concatenate([labels.log_secs for labels in found]),
            np.concatenate([labels.is_censored for labels in found]),
        )

    @property
    def best_log_secs(self) -> float | None:
        """log2 seconds of the best row that ran to the end, else of any that ran; None if none did."""
        labels = self.labels
        ran = ~np.isnan(labels.log_secs)
        whole = ran & ~labels.is_censored
        known = labels.log_secs[whole if whole.any() else ran]
        return float(known.min()) if len(known) else None

    def names(self) -> tuple[str, ...]:
        """Of all columns that any block has."""
        return tuple(sorted(set().union(*(block.columns for block in self.blocks))))

    def matrix(self, names: Sequence[str]) -> Float32Array:
        """Columns in that order, float32 (n, len(names)); NaN where a block lacks one."""
        parts = [matrix(block.columns, names, len(block.labels)) for block in self.blocks]
        return np.concatenate([np.empty((0, len(names)), dtype=np.float32), *parts])


def matrix(columns: Columns, names: Sequence[str], n: int) -> Float32Array:
    """Columns in the order of ``names``, float32 (n, len(names)); NaN where there is no such column."""
    # Column by column in memory: LightGBM takes either order, and this one is written without jumps.
    table = np.empty((len(names), n), dtype=np.float32)
    for number, name in enumerate(names):
        table[number] = columns.get(name, np.float32(np.nan))
    by_row: Float32Array = table.T
    return by_row


def targets(labels: Labels) -> Float64Array:
    """What trees are to learn, float64 (n,): failures stand behind the slowest that ran."""
    ran = ~np.isnan(labels.log_secs)
    worst = labels.log_secs[ran].max() if ran.any() else 0.0
    return np.where(ran, labels.log_secs, worst + _FAILURE_GAP)
