"""What every DraftScorer must do, as a pytest class. Subclass it and give it your scorer.

class TestMyDraft(DraftScorerContract):
    @pytest.fixture
    def draft_scorer(self):
        return MyDraftScorer()
"""

from __future__ import annotations

import numpy as np
import pytest

from prune_engine.candidates import CandidateBatch
from prune_engine.contracts import check_draft
from prune_engine.hardware.schema import HardwareProfile
from prune_engine.measurement import Measurement
from prune_engine.space import DesignSpace
from prune_engine.strategies import DraftScorer
from prune_engine.testing.builders import make_batch, make_measurement, make_space
from prune_engine.testing.checks import check_name, measure_batch, snapshot
from prune_engine.testing.hot_path import check_no_row_loop
from prune_engine.testing.profiles import make_profile


class DraftScorerContract:
    """Override ``draft_scorer``; override ``space`` and ``profile`` if it needs particular ones."""

    @pytest.fixture
    def draft_scorer(self) -> DraftScorer:
        """The scorer under test."""
        raise NotImplementedError("give the contract a draft scorer")

    @pytest.fixture
    def space(self) -> DesignSpace:
        """A space that the scorer can judge."""
        return make_space()

    @pytest.fixture
    def profile(self) -> HardwareProfile:
        """A device with the numbers that the scorer reads."""
        return make_profile()

    def test_name(self, draft_scorer: DraftScorer) -> None:
        """A dotted name."""
        check_name(draft_scorer)

    @pytest.mark.parametrize("n", [0, 1, 100])
    def test_scores_are_finite_and_not_negative(
        self, draft_scorer: DraftScorer, space: DesignSpace, profile: HardwareProfile, n: int
    ) -> None:
        """float64 (n,), finite, >= 0; latencies, where given, finite and > 0; all columns of length n."""
        for sketch in range(len(space.sketches)):
            batch = make_batch(100, space=space, sketch=sketch).take(np.arange(n))
            draft = check_draft(draft_scorer.name, draft_scorer.score(batch, profile), n)
            if draft.latency_secs is not None:
                secs = draft.latency_secs
                assert secs.dtype == np.float64, f"latency_secs is {secs.dtype}, not float64"
                assert (np.isfinite(secs) & (secs > 0)).all(), "latencies are finite and > 0"

    def test_each_candidate_is_scored_alone(
        self, draft_scorer: DraftScorer, space: DesignSpace, profile: HardwareProfile
    ) -> None:
        """The order and the company of candidates make no difference, nor does asking twice."""
        for sketch in range(len(space.sketches)):
            batch = make_batch(60, space=space, sketch=sketch)
            scores = draft_scorer.score(batch, profile).scores.copy()
            order = np.random.default_rng(1).permutation(len(batch))[: len(batch) // 2]
            again = draft_scorer.score(batch.take(order), profile).scores
            np.testing.assert_allclose(again, scores[order], rtol=1e-12, err_msg="depends on the batch")
            np.testing.assert_array_equal(draft_scorer.score(batch, profile).scores, scores)

    def test_score_does_not_loop_over_candidates(
        self, draft_scorer: DraftScorer, space: DesignSpace, profile: HardwareProfile
    ) -> None:
        """Whole columns at once: as many steps of Python for a thousand candidates as for a few."""
        for sketch in range(len(space.sketches)):
            batch = make_batch(64, space=space, sketch=sketch)
            check_no_row_loop(draft_scorer, lambda rows: draft_scorer.score(rows, profile), batch)

    def test_inputs_are_not_changed(
        self, draft_scorer: DraftScorer, space: DesignSpace, profile: HardwareProfile
    ) -> None:
        """Batch and space stay as they were."""
        batch = make_batch(20, space=space)
        before = snapshot(space, batch)
        draft_scorer.score(batch, profile)
        assert snapshot(space, batch) == before, "the scorer changed its input"

    def test_calibration_survives_poor_data(
        self, draft_scorer: DraftScorer, space: DesignSpace, profile: HardwareProfile
    ) -> None:
        """Nothing, one sample, only failures, one latency for all: no exception, scores in contract."""
        for sketch in range(len(space.sketches)):
            empty, one, some = (make_batch(n, space=space, sketch=sketch, seed=n) for n in (0, 1, 40))
            same = make_measurement("same", 1e-3)
            lessons: tuple[tuple[CandidateBatch, list[Measurement]], ...] = (
                (empty, []),
                (one, measure_batch(one)),
                (some, measure_batch(some, fail_every=1)),
                (some, [same] * len(some)),
                (some, measure_batch(some, fail_every=10)),
            )
            for batch, measurements in lessons:
                draft_scorer.update(batch, measurements, profile)
                check_draft(draft_scorer.name, draft_scorer.score(some, profile), len(some))
