"""Terms of candidates that were drafted before: calibration weighs them anew, but they stay what they are."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from prune_engine.candidates import CandidateBatch
from prune_engine.hardware.schema import HardwareProfile
from prune_engine.row_memory import RowMemory
from prune_engine_draft.terms import DraftTerms, Float64Array

#: Candidates that are remembered, about 150 bytes each.
_MAX_ROWS = 1 << 17


@dataclass(frozen=True, slots=True)
class _Layout:
    """The order of a draft's columns; ``has_fits`` says whether the last one is ``fits``."""

    terms: tuple[str, ...]
    penalties: tuple[str, ...]
    symbols: tuple[str, ...]
    has_fits: bool

    @staticmethod
    def of(drafted: DraftTerms) -> _Layout:
        return _Layout(
            tuple(drafted.terms), tuple(drafted.penalties), tuple(drafted.symbols), drafted.fits is not None
        )


class RememberedTerms:
    """Drafts each candidate once per profile, as long as there is room to remember it."""

    def __init__(self, terms_of: Callable[[CandidateBatch, HardwareProfile], DraftTerms]) -> None:
        """``terms_of`` drafts a batch: the same columns for all batches of a task."""
        self._terms_of = terms_of
        self._profile: HardwareProfile | None = None
        self._memory: RowMemory[np.float64] = RowMemory(_MAX_ROWS)
        self._layouts: dict[str, _Layout] = {}

    def __call__(self, batch: CandidateBatch, profile: HardwareProfile) -> DraftTerms:
        """The draft of a batch. Raises SpaceError for a batch whose sketch could not be read."""
        if profile is not self._profile:
            self._profile, self._memory, self._layouts = profile, RowMemory(_MAX_ROWS), {}
        task_id = batch.space.task.task_id

        def compute(part: CandidateBatch) -> Float64Array:
            drafted = self._terms_of(part, profile)
            self._layouts[task_id] = _Layout.of(drafted)
            return _packed(drafted)

        rows = self._memory.of(batch, compute)
        return _unpacked(rows, self._layouts[task_id])


def _packed(drafted: DraftTerms) -> Float64Array:
    """All columns side by side, float64 (n, c)."""
    columns = [
        drafted.latency_secs,
        *drafted.terms.values(),
        *drafted.penalties.values(),
        *drafted.symbols.values(),
    ]
    if drafted.fits is not None:
        columns.append(drafted.fits.astype(np.float64))
    return np.stack(columns, axis=1, dtype=np.float64)


def _unpacked(rows: Float64Array, layout: _Layout) -> DraftTerms:
    columns = iter(np.ascontiguousarray(rows.T))  # a column after the other, as they were worked out
    latency = next(columns)

    def named(names: tuple[str, ...]) -> Mapping[str, Float64Array]:
        return {name: next(columns) for name in names}

    terms, penalties, symbols = named(layout.terms), named(layout.penalties), named(layout.symbols)
    return DraftTerms(latency, terms, penalties, symbols, next(columns) != 0 if layout.has_fits else None)
