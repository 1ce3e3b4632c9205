"""What an explorer remembers of each task between rounds."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from prune_engine.candidates import CandidateBatch
from prune_engine.measurement import Measurement
from prune_engine.space import Int32Array, Sketch
from prune_engine_explore.keys import KeySet, row_keys
from prune_engine_explore.structures import Structures
from prune_engine_explore.translation import Translations

#: Measured candidates whose surroundings are looked at.
N_INCUMBENTS = 4


@dataclass(slots=True)
class SketchMemory:
    """``measured`` are all that ran or failed, ``kept`` int32 (k, v) what was good and not measured yet."""

    structures: Structures
    measured: KeySet = field(default_factory=KeySet)
    kept: Int32Array | None = None


@dataclass(slots=True)
class TaskMemory:
    """Sketches by their identity, the fastest measured candidates: (seconds, sketch, row), fastest first; and which
    sketches decide the same.
    """

    sketches: dict[str, SketchMemory] = field(default_factory=dict)
    fastest: list[tuple[float, str, tuple[int, ...]]] = field(default_factory=list)
    translations: Translations = field(default_factory=Translations)
    is_searched: bool = False

    def of(self, sketch: Sketch) -> SketchMemory:
        """What is known of a sketch."""
        if sketch.sketch_id not in self.sketches:
            self.sketches[sketch.sketch_id] = SketchMemory(Structures(sketch))
        return self.sketches[sketch.sketch_id]

    def learn(self, batch: CandidateBatch, measurements: Sequence[Measurement]) -> None:
        """Note what was measured; ``measurements[i]`` belongs to row i."""
        self.of(batch.sketch).measured.add(row_keys(batch.indices))
        timed = [
            (latency, batch.sketch.sketch_id, tuple(map(int, row)))
            for row, one in zip(batch.indices, measurements, strict=True)
            if (latency := one.latency_secs) is not None and not one.is_censored
        ]
        self.fastest = heapq.nsmallest(N_INCUMBENTS, {*self.fastest, *timed})

    def incumbents(self, sketch: Sketch) -> Int32Array:
        """The fastest candidates as far as they are of this sketch, int32 (<= N_INCUMBENTS, v), fastest first."""
        rows = [row for _, sketch_id, row in self.fastest if sketch_id == sketch.sketch_id]
        return np.array(rows, dtype=np.int32).reshape(len(rows), len(sketch.variables))
