"""The active draft and verifier, asked in one place: contracts are checked, what fails is set aside."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from prune_engine import contracts
from prune_engine.candidates import CandidateBatch
from prune_engine.contracts import STRATEGY_FAILURES
from prune_engine.hardware.schema import HardwareProfile
from prune_engine.plugin_host.call_guard import called_back
from prune_engine.row_memory import RowMemory
from prune_engine.stages.patience import patience
from prune_engine.stages.standing import Standing
from prune_engine.strategies import DraftScorer, ScoreContext, Verifier
from prune_engine.verdicts import DraftScores, Float64Array, VerifyScores

#: Candidates whose `patience` is remembered, 24 bytes each.
_MAX_REMEMBERED = 1 << 18


class Scoring:
    """Asks the draft and the verifier.

    Scores are held against what building costs (`patience`); latencies, probabilities and penalties are not.
    The draft of a batch is kept until ``forget``, so that a verifier which reads it does not pay for it again.
    """

    def __init__(
        self,
        draft_scorer: DraftScorer | None,
        verifier: Verifier | None,
        profile: HardwareProfile,
        standing: Standing,
        build_aversion: float = 0.0,
    ) -> None:
        """Take the strategies; ``standing`` says which of them are still used."""
        self._draft_scorer, self._verifier, self._profile = draft_scorer, verifier, profile
        self._standing, self._build_aversion = standing, build_aversion
        self.context = ScoreContext(profile, called_back(self.draft))
        self._climbing = replace(self.context, wants_kinship=False)
        self._known_patience: RowMemory[np.float64] = RowMemory(_MAX_REMEMBERED)
        #: Drafts in flight, by the identity of their batch, which is kept alive beside.
        self._drafts: dict[int, tuple[CandidateBatch, DraftScores]] = {}
        #: The usual score of readable candidates, by task: what an explorer takes those for that cannot be read.
        self._usual: dict[str, float] = {}

    @property
    def draft_scorer(self) -> DraftScorer | None:
        """The draft, as long as it has not failed."""
        scorer = self._draft_scorer
        return scorer if scorer is not None and self._standing.is_active(scorer) else None

    @property
    def verifier(self) -> Verifier | None:
        """The verifier, as long as it has not failed."""
        verifier = self._verifier
        return verifier if verifier is not None and self._standing.is_active(verifier) else None

    def draft(self, batch: CandidateBatch) -> DraftScores | None:
        """The draft's scores of a batch; None without a draft, or if it failed."""
        scorer = self.draft_scorer
        if scorer is None:
            return None
        if known := self._drafts.get(id(batch)):
            return known[1]
        try:
            scores = self._standing.ask(scorer, scorer.score, batch, self._profile)
            scores = contracts.check_draft(scorer.name, scores, len(batch))
        except STRATEGY_FAILURES as error:  # the plugin boundary: recorded, not swallowed
            self._standing.set_aside(scorer, error)
            return None
        scores = replace(scores, scores=self._held_against_building(batch, scores.scores))
        self._drafts[id(batch)] = batch, scores
        return scores

    def verify(self, batch: CandidateBatch) -> VerifyScores | None:
        """The verifier's scores of a batch, trained or not; None without a verifier, or if it failed."""
        return self._verified(batch, self.context)

    def _verified(self, batch: CandidateBatch, context: ScoreContext) -> VerifyScores | None:
        verifier = self.verifier
        if verifier is None:
            return None
        try:
            scores = self._standing.ask(verifier, verifier.score, batch, context)
            scores = contracts.check_verify(verifier.name, scores, len(batch))
        except STRATEGY_FAILURES as error:  # the plugin boundary: recorded, not swallowed
            self._standing.set_aside(verifier, error)
            return None
        return replace(scores, scores=self._held_against_building(batch, scores.scores))

    def fitness(self, batch: CandidateBatch) -> Float64Array:
        """What to climb on, float64 (n,): the trained verifier's scores, else the draft's, else 1."""
        verified = self._verified(batch, self._climbing)
        if verified is not None and verified.is_trained:
            return verified.scores
        draft = self.draft(batch)
        if draft is None:
            return np.ones(len(batch))
        task_id = batch.space.task.task_id
        if batch.is_opaque and draft.latency_secs is None:  # as good as the usual candidate of the other sketches
            return np.full(len(batch), self._usual.get(task_id, 1.0))
        if len(batch):
            self._usual[task_id] = float(np.median(draft.scores))
        return draft.scores

    def _held_against_building(self, batch: CandidateBatch, scores: Float64Array) -> Float64Array:
        """The scores times `patience`; equal ones stay equal, as they say nothing."""
        if not len(scores) or scores.min() == scores.max():
            return scores
        held = scores * self._patience(batch)
        held.flags.writeable = False  # a verifier is shown the draft's
        return held

    def without_building(self, batch: CandidateBatch, scores: Float64Array) -> Float64Array:
        """The scores of a batch, float64 (n,), as they were before they were held against building."""
        if not len(scores) or scores.min() == scores.max():
            return scores
        return scores / self._patience(batch)

    def _patience(self, batch: CandidateBatch) -> Float64Array:
        """`patience` of a batch, float64 (n,)."""
        return self._known_patience.of(batch, lambda part: patience(part, self._build_aversion)[:, None])[:, 0]

    def forget(self) -> None:
        """Drop the drafts that are kept: their batches are done with, or the draft was calibrated anew."""
        self._drafts.clear()


def comparable(drafts: Sequence[DraftScores], batches: Sequence[CandidateBatch]) -> Float64Array | None:
    """The scores of several batches one after the other, float64 (n,); None if they are all equal.

    Where a sketch could not be read and the draft knows no latency, its scores are no measure beside those of the
    others. Such candidates are spread evenly over the others' scores, in the order of their own, so that as large
    a share of them is among the best as among all.
    """
    unsaid = np.concatenate(
        [np.full(len(b), b.is_opaque and d.latency_secs is None) for b, d in zip(batches, drafts, strict=True)]
        or [np.empty(0, dtype=np.bool_)]
    )
    scores = np.concatenate([d.scores for d in drafts] or [np.empty(0)])
    if not len(scores) or scores.min() == scores.max():
        return None
    if unsaid.any() and not unsaid.all():
        n = int(unsaid.sum())
        order = np.argsort(scores[unsaid], kind="stable")
        spread = np.empty(n)
        spread[order] = np.quantile(scores[~unsaid], (np.arange(n) + 0.5) / n)
        scores[unsaid] = spread
    return scores
