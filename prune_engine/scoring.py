"""The active draft and verifier, asked in one place: contracts are checked, what fails is set aside."""

from __future__ import annotations

from collections.abc import Callable

from prune_engine import contracts
from prune_engine.candidates import CandidateBatch
from prune_engine.contracts import STRATEGY_FAILURES
from prune_engine.hardware.schema import HardwareProfile
from prune_engine.strategies import DraftScorer, ScoreContext, Strategy, Verifier
from prune_engine.verdicts import DraftScores, VerifyScores


class Scoring:
    """Asks the draft and the verifier.

    The draft of a batch is kept until ``forget``, so that a verifier which reads it does not pay for it again.
    """

    def __init__(
        self,
        draft_scorer: DraftScorer | None,
        verifier: Verifier | None,
        profile: HardwareProfile,
        is_active: Callable[[Strategy], bool],
        set_aside: Callable[[Strategy, BaseException], None],
    ) -> None:
        """Take the strategies; ``is_active`` and ``set_aside`` say and decide which of them are still used."""
        self._draft_scorer, self._verifier, self._profile = draft_scorer, verifier, profile
        self._is_active, self._set_aside = is_active, set_aside
        self.context = ScoreContext(profile, self.draft)
        #: Drafts in flight, by the identity of their batch, which is kept alive beside.
        self._drafts: dict[int, tuple[CandidateBatch, DraftScores]] = {}

    @property
    def draft_scorer(self) -> DraftScorer | None:
        """The draft, as long as it has not failed."""
        scorer = self._draft_scorer
        return scorer if scorer is not None and self._is_active(scorer) else None

    @property
    def verifier(self) -> Verifier | None:
        """The verifier, as long as it has not failed."""
        verifier = self._verifier
        return verifier if verifier is not None and self._is_active(verifier) else None

    def draft(self, batch: CandidateBatch) -> DraftScores | None:
        """The draft's scores of a batch; None without a draft, or if it failed."""
        scorer = self.draft_scorer
        if scorer is None:
            return None
        if known := self._drafts.get(id(batch)):
            return known[1]
        try:
            scores = contracts.check_draft(scorer.name, scorer.score(batch, self._profile), len(batch))
        except STRATEGY_FAILURES as error:  # the plugin boundary: recorded, not swallowed
            self._set_aside(scorer, error)
            return None
        self.remember(batch, scores)
        return scores

    def verify(self, batch: CandidateBatch) -> VerifyScores | None:
        """The verifier's scores of a batch, trained or not; None without a verifier, or if it failed."""
        verifier = self.verifier
        if verifier is None:
            return None
        try:
            return contracts.check_verify(verifier.name, verifier.score(batch, self.context), len(batch))
        except STRATEGY_FAILURES as error:  # the plugin boundary: recorded, not swallowed
            self._set_aside(verifier, error)
            return None

    def remember(self, batch: CandidateBatch, scores: DraftScores) -> None:
        """Keep the draft of a batch."""
        self._drafts[id(batch)] = batch, scores

    def forget(self) -> None:
        """Drop the drafts that are kept: their batches are done with, or the draft was calibrated anew."""
        self._drafts.clear()
