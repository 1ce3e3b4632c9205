"""What a verifier is given besides the batch, to test with."""

from __future__ import annotations

from prune_engine.candidates import CandidateBatch
from prune_engine.hardware.schema import HardwareProfile
from prune_engine.strategies import DraftScorer, ScoreContext
from prune_engine.testing.profiles import make_profile
from prune_engine.verdicts import DraftScores


def make_context(profile: HardwareProfile | None = None, draft: DraftScorer | None = None) -> ScoreContext:
    """Make the context of an engine with this profile (`make_profile` if None) and this draft, or without one."""
    device = profile or make_profile()

    def scores(batch: CandidateBatch) -> DraftScores | None:
        return None if draft is None else draft.score(batch, device)

    return ScoreContext(device, scores)
