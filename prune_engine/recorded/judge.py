"""The active draft and verifier, taught and asked as the engine does it, without its loop."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from prune_engine.candidates import CandidateBatch
from prune_engine.config import EngineConfig
from prune_engine.contracts import STRATEGY_FAILURES
from prune_engine.errors import ConfigError, PluginContractError
from prune_engine.hardware.schema import HardwareProfile
from prune_engine.loop.teaching import Lesson, Teacher
from prune_engine.pipeline import Pipeline
from prune_engine.plugins import PluginHost
from prune_engine.recorded.spaces import RecordedSpace
from prune_engine.stages.scoring import comparable
from prune_engine.strategies import Explorer, Strategy, Verifier
from prune_engine.strategy_set import Strategies, load_strategies
from prune_engine.verdicts import Float64Array


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
        self.failed_plugins = host.failed
        pipeline = Pipeline(
            rules=(),
            draft_scorer=self._strategies.draft_scorer,
            verifier=self._strategies.verifier,
            selector=self._strategies.selector,
            profile=profile,
            config=config.model_copy(update={"build_aversion": 0.0}),  # nothing is built
            on_failure=_blame,
        )
        self._scoring = pipeline.scoring
        self._teacher = Teacher(self._strategies, pipeline, profile, _blame)
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
        """Teach what one round measured."""
        self._teacher.teach(lessons)

    def save(self, path: Path) -> None:
        """Write what the verifier learnt. Raises OSError, PluginContractError if it fails."""
        verifier = self._strategies.verifier
        assert verifier is not None, "asked before"
        try:
            verifier.save(path)
        except OSError:  # the disk's fault, not the plugin's
            raise
        except STRATEGY_FAILURES as error:  # the plugin boundary: blamed, not swallowed
            _blame(verifier, error)

    def scores(self, batches: Sequence[CandidateBatch]) -> Float64Array:
        """Scores of all batches one after the other, float64.

        They are the trained verifier's, else the draft's, else ones.
        """
        batches = [batch for batch in batches if len(batch)]
        strategy: Strategy | None = self._strategies.verifier
        verified = map(self._scoring.verify, batches)
        parts = [one.scores for one in verified if one is not None and one.is_trained]
        if len(parts) < len(batches):
            strategy = self._strategies.draft_scorer
            drafts = [one for one in map(self._scoring.draft, batches) if one is not None]
            compared = comparable(drafts, batches) if len(drafts) == len(batches) else None
            parts = [] if compared is None else [compared]
        self._scoring.forget()
        scores = np.concatenate(parts) if parts else np.ones(sum(map(len, batches)))
        self._ranked_by = strategy.name if strategy and len(np.unique(scores)) > 1 else None
        return scores


def _blame(strategy: Strategy, error: BaseException) -> None:
    """Name the strategy in whatever it raised; an explorer that cannot learn is none to judge by."""
    if isinstance(strategy, Explorer):
        return
    if isinstance(error, (ConfigError, PluginContractError)):  # the first is about a prior: the user's to mend
        raise error
    raise PluginContractError(
        "raised an exception",
        who=f"strategy {strategy.name}",
        got=f"{type(error).__name__}: {error}",
        remedy="Report it to the plugin's author, or rank without it.",
    ) from error
