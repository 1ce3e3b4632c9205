"""The draft scorer: latency per statement from symbols and the hardware profile, whatever the kind of device."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from prune_engine.candidates import CandidateBatch
from prune_engine.hardware.schema import DeviceKind, HardwareProfile
from prune_engine.measurement import Measurement
from prune_engine.strategies import DraftScorer
from prune_engine.verdicts import DraftScores
from prune_engine_draft.cpu import cpu_terms
from prune_engine_draft.terms import DraftTerms


class SymbolDraft(DraftScorer):
    """Ranks by 1 / predicted latency. It needs no samples; with 16 it weighs its terms by them."""

    name = "draft.symbols"

    def score(self, batch: CandidateBatch, profile: HardwareProfile) -> DraftScores:
        """Score a batch. Candidates of a sketch that could not be read are all equal, without a latency."""
        if batch.is_opaque:
            return DraftScores(np.ones(len(batch)))
        terms = terms_of(batch, profile)
        latency = terms.latency_secs
        scores = 1.0 / latency
        if terms.fits is not None:
            scores = np.where(terms.fits, scores, 0.0)
        return DraftScores(scores, latency, terms.symbols, terms.penalties)

    def update(self, batch: CandidateBatch, measurements: Sequence[Measurement], profile: HardwareProfile) -> None:
        """Calibrate on measurements."""


def terms_of(batch: CandidateBatch, profile: HardwareProfile) -> DraftTerms:
    """The form of the draft for this kind of device. Raises SpaceError for a batch that could not be read."""
    if profile.kind is DeviceKind.GPU:
        from prune_engine_draft.gpu import gpu_terms

        return gpu_terms(batch, profile)
    if profile.kind is DeviceKind.NPU:
        from prune_engine_draft.npu import npu_terms

        return npu_terms(batch, profile)
    return cpu_terms(batch, profile)
