"""Recorded spaces: design spaces whose candidates were measured once, for experiments without the hardware."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from prune_engine.candidates import CandidateBatch
from prune_engine.space import DesignSpace
from prune_engine.task import TuningTask
from prune_engine.verdicts import BoolArray, Float64Array


@dataclass(frozen=True, slots=True, eq=False)
class RecordedSpace:
    """A kernel's design space and what was measured of it.

    ``batches`` has one batch per sketch of ``space``, in order and maybe empty, without equal rows.
    ``run_secs[s]``, float64 (n,), belongs to ``batches[s]``: the median of a candidate's repeats, and of its
    records where it has several; NaN where all of them failed. ``unmatched`` counts, by reason, the records
    that stand for no candidate of the space. ``default_secs`` is the run time of the untuned kernel, None where it
    was not recorded or failed. ``is_censored[s]``, bool (n,), marks what was stopped early as clearly slow; without
    any nothing was.
    """

    name: str
    task: TuningTask
    space: DesignSpace
    batches: tuple[CandidateBatch, ...]
    run_secs: tuple[Float64Array, ...]
    unmatched: Mapping[str, int] = field(default_factory=dict)
    default_secs: float | None = None
    is_censored: tuple[BoolArray, ...] = ()

    @property
    def n_unmatched(self) -> int:
        """Records that stand for no candidate of the space."""
        return sum(self.unmatched.values())

    @property
    def remark(self) -> str | None:
        """What to tell of records that are no candidates of the space; None if all are."""
        parts = "; ".join(f"{n} times {reason}" for reason, n in self.unmatched.items())
        return f"{self.n_unmatched} records are no candidates of its space: {parts}" if parts else None

    def only(self, keep: Sequence[BoolArray]) -> RecordedSpace:
        """Some of the candidates: those of sketch ``s`` where ``keep[s]``, bool (n,), is True."""
        return replace(
            self,
            batches=tuple(batch.take(rows) for batch, rows in zip(self.batches, keep, strict=True)),
            run_secs=tuple(secs[rows] for secs, rows in zip(self.run_secs, keep, strict=True)),
            is_censored=tuple(marks[rows] for marks, rows in zip(self.is_censored, keep, strict=False)),
        )

    @property
    def n_candidates(self) -> int:
        """Distinct candidates recorded, the failed included."""
        return sum(map(len, self.batches))

    @property
    def n_failed(self) -> int:
        """Candidates that never ran."""
        return int(sum(np.isnan(secs).sum() for secs in self.run_secs))

    @property
    def best_secs(self) -> float | None:
        """The shortest recorded run time, None if every candidate failed."""
        known = [float(np.nanmin(secs)) for secs in self.run_secs if not np.isnan(secs).all()]
        return min(known, default=None)

    @property
    def median_secs(self) -> float | None:
        """The median run time of the candidates that ran, None if every one failed."""
        secs = np.concatenate([np.empty(0), *self.run_secs])
        return None if np.isnan(secs).all() else float(np.nanmedian(secs))


@dataclass(frozen=True, slots=True)
class Recording:
    """The recorded spaces of a database or table, and sentences on what of it could not be used."""

    spaces: tuple[RecordedSpace, ...]
    remarks: tuple[str, ...] = ()
