"""What every Verifier must do, as a pytest class. Subclass it and give it your verifier.

class TestMyVerifier(VerifierContract):
    @pytest.fixture
    def verifier(self):
        return MyVerifier()
"""

from __future__ import annotations

import copy
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest

from prune_engine.contracts import check_verify
from prune_engine.errors import ConfigError
from prune_engine.space import DesignSpace
from prune_engine.strategies import ScoreContext, Verifier
from prune_engine.testing.builders import make_batch, make_space, make_task
from prune_engine.testing.checks import check_name, measure_batch, snapshot
from prune_engine.testing.contexts import make_context
from prune_engine.testing.hot_path import check_no_row_loop
from prune_engine.testing.workbench import FakeWorkbench


class VerifierContract:
    """Override ``verifier``. Its untrained copies (``copy.deepcopy``) must behave as it does.

    ``min_rank_correlation`` is what it must reach on unseen candidates after ``n_training`` noiseless ones.
    """

    n_training: ClassVar[int] = 200
    min_rank_correlation: ClassVar[float] = 0.3

    @pytest.fixture
    def verifier(self) -> Verifier:
        """The verifier under test, untrained."""
        raise NotImplementedError("give the contract a verifier")

    @pytest.fixture
    def space(self) -> DesignSpace:
        """A space that the verifier can judge."""
        return make_space()

    @pytest.fixture
    def context(self) -> ScoreContext:
        """What the engine would give it: a profile, and no draft."""
        return make_context()

    def test_name(self, verifier: Verifier) -> None:
        """A dotted name."""
        check_name(verifier)

    @pytest.mark.parametrize("n", [0, 1, 50])
    def test_untrained_says_so(self, verifier: Verifier, context: ScoreContext, space: DesignSpace, n: int) -> None:
        """Before the first training ``is_trained`` is False and all scores are equal."""
        scores = check_verify(verifier.name, verifier.score(make_batch(n, space=space), context), n)
        assert not scores.is_trained, "claims to be trained"
        assert len(set(scores.scores.tolist())) <= 1, "ranks without having learnt anything"

    @pytest.mark.parametrize("n", [0, 1, 50])
    def test_trained_scores_keep_the_contract(
        self, verifier: Verifier, context: ScoreContext, space: DesignSpace, n: int
    ) -> None:
        """float64 (n,), finite, >= 0; probabilities in [0, 1]; for every sketch, seen or not."""
        _train(verifier, context, space, self.n_training)
        for sketch in range(len(space.sketches)):
            batch = make_batch(n, space=space, sketch=sketch, seed=5)
            scores = check_verify(verifier.name, verifier.score(batch, context), n)
            assert isinstance(scores.model_version, str), "model_version is text"

    def test_learns(self, verifier: Verifier, context: ScoreContext, space: DesignSpace) -> None:
        """Unseen candidates are ranked better than at random."""
        _train(verifier, context, space, self.n_training)
        unseen = make_batch(300, space=space, seed=99)
        scores = verifier.score(unseen, context)
        assert scores.is_trained, f"{self.n_training} measurements did not train it"
        truth = -FakeWorkbench().true_latency_secs(unseen)
        rho = float(np.corrcoef(_ranks(scores.scores), _ranks(truth))[0, 1])
        assert rho >= self.min_rank_correlation, f"rank correlation {rho:.2f}"

    def test_score_does_not_loop_over_candidates(
        self, verifier: Verifier, context: ScoreContext, space: DesignSpace
    ) -> None:
        """Whole columns at once: as many steps of Python for a thousand candidates as for a few."""
        _train(verifier, context, space, self.n_training)
        for sketch in range(min(2, len(space.sketches))):
            batch = make_batch(64, space=space, sketch=sketch, seed=5)
            check_no_row_loop(verifier, lambda rows: verifier.score(rows, context), batch)

    def test_same_data_same_scores(self, verifier: Verifier, context: ScoreContext, space: DesignSpace) -> None:
        """Two copies trained alike agree, and scoring changes nothing."""
        twin = copy.deepcopy(verifier)
        batch = make_batch(40, space=space, seed=5)
        for each in (verifier, twin):
            _train(each, context, space, 100)
        first = verifier.score(batch, context).scores.copy()
        np.testing.assert_allclose(twin.score(batch, context).scores, first, rtol=1e-9)
        np.testing.assert_array_equal(verifier.score(batch, context).scores, first)

    def test_survives_poor_data(self, verifier: Verifier, context: ScoreContext, space: DesignSpace) -> None:
        """Nothing, one sample, only failures, one latency for all: no exception, scores in contract."""
        empty, one, some = (make_batch(n, space=space, seed=n) for n in (0, 1, 40))
        verifier.update(empty, [], context)
        verifier.update(one, measure_batch(one), context)
        verifier.update(some, measure_batch(some, fail_every=1), context)
        check_verify(verifier.name, verifier.score(some, context), len(some))
        verifier.update(some, [measure_batch(some)[0]] * len(some), context)
        check_verify(verifier.name, verifier.score(some, context), len(some))

    def test_tasks_do_not_mix(self, verifier: Verifier, context: ScoreContext, space: DesignSpace) -> None:
        """What one task taught does not break the scores of another."""
        _train(verifier, context, space, 60)
        other = make_space(make_task("other", shape=(30, 20, 14)))
        batch = make_batch(20, space=other, sketch=1)
        check_verify(verifier.name, verifier.score(batch, context), len(batch))
        _train(verifier, context, other, 60)
        check_verify(verifier.name, verifier.score(batch, context), len(batch))

    @pytest.mark.parametrize("n_trained", [0, 100])
    def test_save_and_load(
        self, verifier: Verifier, context: ScoreContext, space: DesignSpace, tmp_path: Path, n_trained: int
    ) -> None:
        """A copy that loads what was saved scores alike, untrained ones included."""
        twin, file = copy.deepcopy(verifier), tmp_path / "model"
        _train(verifier, context, space, n_trained)
        verifier.save(file)
        twin.load(file)
        batch = make_batch(30, space=space, seed=5)
        assert twin.score(batch, context).is_trained == verifier.score(batch, context).is_trained
        np.testing.assert_allclose(
            twin.score(batch, context).scores, verifier.score(batch, context).scores, rtol=1e-9
        )

    @pytest.mark.parametrize("content", [b"", b"no model", b"{}", b"\xff\x00"])
    def test_refuses_another_file(self, verifier: Verifier, tmp_path: Path, content: bytes) -> None:
        """A file that is not one of its own is a ConfigError."""
        file = tmp_path / "model"
        file.write_bytes(content)
        with pytest.raises(ConfigError):
            verifier.load(file)

    def test_inputs_are_not_changed(self, verifier: Verifier, context: ScoreContext, space: DesignSpace) -> None:
        """Batch and space stay as they were."""
        batch = make_batch(40, space=space)
        before = snapshot(space, batch)
        verifier.update(batch, measure_batch(batch), context)
        verifier.score(batch, context)
        assert snapshot(space, batch) == before, "the verifier changed its input"


def _train(verifier: Verifier, context: ScoreContext, space: DesignSpace, n: int) -> None:
    """Teach ``n`` candidates of each of two sketches at most, in two rounds; one in ten fails."""
    for seed in range(2 if n else 0):
        for sketch in range(min(2, len(space.sketches))):
            batch = make_batch(n // 2, space=space, sketch=sketch, seed=seed)
            verifier.update(batch, measure_batch(batch, fail_every=10), context)


def _ranks(values: np.ndarray) -> np.ndarray:
    return np.argsort(np.argsort(values, kind="stable"), kind="stable")
