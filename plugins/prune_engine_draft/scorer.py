"""The draft scorer: latency per statement from symbols and the hardware profile, whatever the kind of device."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from prune_engine.candidates import CandidateBatch
from prune_engine.hardware.schema import DeviceKind, HardwareProfile
from prune_engine.measurement import Measurement
from prune_engine.strategies import DraftScorer
from prune_engine.verdicts import DraftScores
from prune_engine_draft.calibrated import TaskWeights
from prune_engine_draft.cpu import cpu_terms
from prune_engine_draft.given import can_draft, given_terms
from prune_engine_draft.priors import prior_weights
from prune_engine_draft.remembered import RememberedTerms
from prune_engine_draft.terms import DraftTerms, Float64Array

#: A latency is never less than this, so that a score is finite.
_MIN_SECS = 1e-9
#: Of so many earlier tasks, the latest, weights are tried on a new one.
_MAX_OTHERS = 8


class SymbolDraft(DraftScorer):
    """Ranks by 1 / predicted latency. It needs no samples; what is measured corrects the weights of its terms.

    What it learns of a task it keeps by the task's id; a later task starts from weights fitted on earlier ones if
    these rank its own first measurements better.
    """

    name = "draft.symbols"
    #: Of each kind of device the fields that it has.
    hardware_basis = (
        *("core_count", "clock_hz", "launch_secs", "transaction_bytes"),
        *("memory.LEVEL.capacity_bytes", "memory.LEVEL.bandwidth_bytes_per_sec"),
        *("compute.UNIT.count", "compute.UNIT.lanes", "compute.UNIT.peak_flop_per_sec.float32"),
        *("limits.vector_bytes", "limits.vector_registers", "limits.threads_per_warp", "limits.threads_per_core"),
    )

    def __init__(self) -> None:
        self._tasks: dict[tuple[str, tuple[str, ...]], TaskWeights] = {}
        self._terms_of = RememberedTerms(terms_of)

    def score(self, batch: CandidateBatch, profile: HardwareProfile) -> DraftScores:
        """Score a batch. Candidates that could not be read, and of which too little is given, are all equal."""
        if not _is_known(batch, profile):
            return DraftScores(np.ones(len(batch)))
        drafted = self._terms_of(batch, profile)
        latency = drafted.latency_secs
        if drafted.terms:
            latency = self._weighed(drafted, batch, profile)
        scores = 1.0 / latency
        if drafted.fits is not None:
            scores = np.where(drafted.fits, scores, 0.0)
        return DraftScores(scores, latency, {**drafted.symbols, **_in_secs(drafted)}, drafted.penalties)

    def update(self, batch: CandidateBatch, measurements: Sequence[Measurement], profile: HardwareProfile) -> None:
        """Learn what was measured; failures, and measurements of what it has no latency of, say nothing."""
        if not len(batch) or not _is_known(batch, profile):
            return
        drafted = self._terms_of(batch, profile)
        if drafted.terms:
            matrix = np.stack(list(drafted.terms.values()), axis=1)
            self._task(batch, profile, tuple(drafted.terms)).add(matrix, measurements)

    def _task(self, batch: CandidateBatch, profile: HardwareProfile, names: tuple[str, ...]) -> TaskWeights:
        key = batch.space.task.task_id, names
        if key not in self._tasks:
            self._tasks[key] = TaskWeights(prior_weights(profile, names))
        return self._tasks[key]

    def _weighed(self, drafted: DraftTerms, batch: CandidateBatch, profile: HardwareProfile) -> Float64Array:
        names = tuple(drafted.terms)
        mine = self._task(batch, profile, names)
        others = [task.fitted for (_, known), task in self._tasks.items() if known == names and task is not mine]
        weights = mine.weights([found for found in others if found is not None][-_MAX_OTHERS:])
        if (weights == 1.0).all():
            return drafted.latency_secs
        latency = np.zeros(len(batch))
        for weight, secs in zip(weights, drafted.terms.values(), strict=True):
            latency += weight * secs
        return np.maximum(latency, _MIN_SECS)


def _in_secs(drafted: DraftTerms) -> dict[str, Float64Array]:
    return {f"{name}_secs": secs for name, secs in drafted.terms.items()}


def _is_known(batch: CandidateBatch, profile: HardwareProfile) -> bool:
    return not batch.is_opaque or can_draft(batch, profile)


def terms_of(batch: CandidateBatch, profile: HardwareProfile) -> DraftTerms:
    """The form of the draft for this kind of device. A batch that could not be read is drafted by what is given."""
    if batch.is_opaque:
        return given_terms(batch, profile)
    if profile.kind is DeviceKind.GPU:
        from prune_engine_draft.gpu import gpu_terms

        return gpu_terms(batch, profile)
    if profile.kind is DeviceKind.NPU:
        from prune_engine_draft.npu import npu_terms

        return npu_terms(batch, profile)
    return cpu_terms(batch, profile)
