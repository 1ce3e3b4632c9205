"""What was measured, told to the strategies that learn."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from prune_engine.candidates import CandidateBatch
from prune_engine.contracts import STRATEGY_FAILURES
from prune_engine.hardware.schema import HardwareProfile
from prune_engine.measurement import Measurement
from prune_engine.pipeline import Pipeline
from prune_engine.stages.standing import OnFailure
from prune_engine.strategies import DraftScorer, Explorer, Verifier
from prune_engine.strategy_set import Strategies

#: A batch of one sketch and its measurements, row by row.
Lesson = tuple[CandidateBatch, Sequence[Measurement]]


class Teacher:
    """Teaches the draft before the verifier, which may look at it, each of them every sketch."""

    def __init__(
        self, strategies: Strategies, pipeline: Pipeline, profile: HardwareProfile, on_failure: OnFailure
    ) -> None:
        self._strategies, self._pipeline, self._profile = strategies, pipeline, profile
        self._on_failure = on_failure
        #: Strategies that failed to learn and are not asked to again.
        self._unteachable: set[str] = set()
        self._n_taught = 0

    def teach(self, lessons: Sequence[Lesson]) -> None:
        """Teach what one round measured."""
        scoring, strategies = self._pipeline.scoring, self._strategies
        self._n_taught += sum(len(batch) for batch, _ in lessons)
        for learner in (strategies.draft_scorer, strategies.explorer, strategies.verifier):
            for batch, measurements in lessons:
                if isinstance(learner, DraftScorer):
                    self._teach(learner, partial(learner.update, batch, measurements, self._profile))
                elif isinstance(learner, Verifier):
                    self._teach(learner, partial(learner.update, batch, measurements, scoring.context))
                elif learner is not None:
                    self._teach(learner, partial(learner.update, batch, measurements))
            scoring.forget()  # what the draft said of a batch may be out of date

    def save(self, path: Path) -> bool:
        """Write what the verifier learnt to a file that ``prior`` takes. Returns whether there is one.

        There is none without a verifier that takes priors, or if it was taught nothing, or failed. Raises OSError.
        """
        verifier = self._pipeline.scoring.verifier
        if verifier is None or not verifier.takes_prior or not self._n_taught:
            return False
        try:
            self._pipeline.ask(verifier, verifier.save, path)
        except OSError:  # the disk's fault, not the plugin's
            raise
        except STRATEGY_FAILURES as error:  # the plugin boundary: recorded, not swallowed
            self._on_failure(verifier, error)
            return False
        return path.is_file()

    def _teach(self, learner: DraftScorer | Explorer | Verifier, lesson: Callable[[], None]) -> None:
        if learner.name in self._unteachable or not self._pipeline.is_active(learner):
            return
        try:
            self._pipeline.ask(learner, lesson)
        except STRATEGY_FAILURES as error:  # the plugin boundary: recorded, not swallowed
            self._unteachable.add(learner.name)
            if isinstance(learner, Explorer):  # one that cannot learn can still propose
                self._on_failure(learner, error)
            else:  # what it believes is half learnt
                self._pipeline.set_aside(learner, error)
