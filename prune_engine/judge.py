"""The active draft and verifier, taught and asked as the engine does it, without its loop."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

import numpy as np

from prune_engine import contracts
from prune_engine.candidates import CandidateBatch
from prune_engine.config import EngineConfig
from prune_engine.contracts import STRATEGY_FAILURES
from prune_engine.errors import ConfigError, PluginContractError
from prune_engine.hardware.schema import HardwareProfile
from prune_engine.measurement import Measurement
from prune_engine.plugins import PluginHost, PluginStatus
from prune_engine.recordings import RecordedSpace
from prune_engine.scoring import comparable
from prune_engine.strategies import ScoreContext, Strategy, Verifier
from prune_engine.strategy_set import Strategies, load_strategies
from prune_engine.verdicts import DraftScores, Float64Array, VerifyScores

#: A batch and its measurements, row by row.
Lesson = tuple[CandidateBatch, tuple[Measurement, ...]]


class Judge:
    """The draft and the verifier that the options name, not shared with any engine.

    One that fails ends it, by PluginContractError, or ConfigError where it cannot use an option: without it there
    is nothing to judge by. ``failed_plugins`` are those that could not be loaded.
    """

    def __init__(self, config: EngineConfig, profile: HardwareProfile) -> None:
        """Load the strategies. Raises ConfigError for one that there is not."""
        host = PluginHost(config)
        host.load()
        self._strategies: Strategies = load_strategies(host, config)
        self.failed_plugins = tuple(
            record for record in host.records if record.status in (PluginStatus.FAILED, PluginStatus.UNAVAILABLE)
        )
        self._profile = profile
        self._context = ScoreContext(profile, self.draft)
        self._ranked_by: str | None = None

    @property
    def verifier(self) -> Verifier | None:
        """The verifier, None where the options name none."""
        return self._strategies.verifier

    @property
    def ranked_by(self) -> str | None:
        """Whose the last scores were; None if nobody told the candidates apart."""
        return self._ranked_by

    def adopted(self, recorded: RecordedSpace) -> RecordedSpace:
        """The same recording with the symbols of all loaded plugins."""
        space = replace(recorded.space, symbols=self._strategies.symbols)
        batches = tuple(CandidateBatch(space, batch.sketch, batch.indices) for batch in recorded.batches)
        return replace(recorded, space=space, batches=batches)

    def teach(self, lessons: Sequence[Lesson]) -> None:
        """Teach what one round measured: the draft before the verifier, which may look at it."""
        draft_scorer, verifier = self._strategies.draft_scorer, self._strategies.verifier
        for batch, measurements in lessons:
            if draft_scorer is not None:
                with _blamed(draft_scorer):
                    draft_scorer.update(batch, measurements, self._profile)
        for batch, measurements in lessons:
            if verifier is not None:
                with _blamed(verifier):
                    verifier.update(batch, measurements, self._context)

    def draft(self, batch: CandidateBatch) -> DraftScores | None:
        """The draft's scores as calibrated now; None without a draft."""
        scorer = self._strategies.draft_scorer
        if scorer is None:
            return None
        with _blamed(scorer):
            return contracts.check_draft(scorer.name, scorer.score(batch, self._profile), len(batch))

    def verify(self, batch: CandidateBatch) -> VerifyScores | None:
        """The verifier's scores, trained or not; None without a verifier."""
        verifier = self._strategies.verifier
        if verifier is None:
            return None
        with _blamed(verifier):
            return contracts.check_verify(verifier.name, verifier.score(batch, self._context), len(batch))

    def scores(self, batches: Sequence[CandidateBatch]) -> Float64Array:
        """Scores of all batches one after the other, float64.

        They are the trained verifier's, else the draft's, else ones.
        """
        batches = [batch for batch in batches if len(batch)]
        strategy: Strategy | None = self._strategies.verifier
        verified = map(self.verify, batches)
        parts = [one.scores for one in verified if one is not None and one.is_trained]
        if len(parts) < len(batches):
            strategy = self._strategies.draft_scorer
            drafts = [one for one in map(self.draft, batches) if one is not None]
            compared = comparable(drafts, batches) if len(drafts) == len(batches) else None
            parts = [] if compared is None else [compared]
        scores = np.concatenate(parts) if parts else np.ones(sum(map(len, batches)))
        self._ranked_by = strategy.name if strategy and len(np.unique(scores)) > 1 else None
        return scores


@contextmanager
def _blamed(strategy: Strategy) -> Iterator[None]:
    """Name the strategy in whatever it raises."""
    try:
        yield
    except (ConfigError, PluginContractError):  # the first is about an option, a prior say: the user's to mend
        raise
    except STRATEGY_FAILURES as error:  # the plugin boundary: passed on, with a name
        raise PluginContractError(
            "raised an exception",
            who=f"strategy {strategy.name}",
            got=f"{type(error).__name__}: {error}",
            remedy="Report it to the plugin's author, or rank without it.",
        ) from error
