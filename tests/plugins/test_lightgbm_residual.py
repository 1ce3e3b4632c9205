"""What the contract of verifiers does not say of the one that learns the draft's residual."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from prune_engine_lightgbm.learner import MIN_ROWS, rank_correlation
from prune_engine_lightgbm.residual import ResidualVerifier

from prune_engine.candidates import CandidateBatch
from prune_engine.hardware.schema import HardwareProfile
from prune_engine.measurement import MeasureErrorKind, Measurement
from prune_engine.strategies import DraftScorer, ScoreContext
from prune_engine.testing import (
    FakeWorkbench,
    VerifierContract,
    make_batch,
    make_context,
    make_measurement,
    make_space,
    make_task,
)
from prune_engine.verdicts import DraftScores

FAILED = MeasureErrorKind.CRASH


class TestContract(VerifierContract):
    @pytest.fixture
    def verifier(self) -> ResidualVerifier:
        return ResidualVerifier()


class Draft(DraftScorer):
    """The true latency, wrong by a factor that the unroll limit decides; ``scale`` is what calibration moves."""

    name = "testing.draft"

    def __init__(self, wrong_by: float = 1.0) -> None:
        self.scale, self.wrong_by, self.n_asked = 1.0, wrong_by, 0

    def score(self, batch: CandidateBatch, profile: HardwareProfile) -> DraftScores:
        self.n_asked += 1
        wrong = np.where(batch.column(3)[:, 0] >= 64, self.wrong_by, 1.0)
        secs = self.scale * truth(batch) * wrong
        return DraftScores(1 / secs, secs)


def truth(batch: CandidateBatch) -> np.ndarray:
    return FakeWorkbench().true_latency_secs(batch)


def measured(batch: CandidateBatch) -> list[Measurement]:
    return [make_measurement(f"c{i}", float(s)) for i, s in enumerate(truth(batch))]


def correlation(verifier: ResidualVerifier, context: ScoreContext, sketch: int = 1) -> float:
    unseen = make_batch(300, sketch=sketch, seed=77)
    ranks = [np.argsort(np.argsort(x)) for x in (verifier.score(unseen, context).scores, -truth(unseen))]
    return float(np.corrcoef(*ranks)[0, 1])


def taught(context: ScoreContext, n: int = 64, seeds: Sequence[int] = (0,), **options: object) -> ResidualVerifier:
    verifier = ResidualVerifier(**options)  # type: ignore[arg-type]
    for seed in seeds:
        batch = make_batch(n, sketch=1, seed=seed)
        verifier.update(batch, measured(batch), context)
        verifier.score(batch, context)
    return verifier


def test_registering_and_asking_untrained_does_not_import_lightgbm() -> None:
    script = """
import sys
from prune_engine.config import EngineConfig
from prune_engine.plugins import PluginHost
from prune_engine.strategy_set import load_strategies
from prune_engine.testing import make_batch, make_context
config = EngineConfig(verifier="lightgbm.residual", prior="none")
host = PluginHost(config)
host.load()
verifier = load_strategies(host, config).verifier
assert verifier.name == "lightgbm.residual"
verifier.score(make_batch(5), make_context())
print(sorted({m.split(".")[0] for m in sys.modules} & {"lightgbm", "sklearn", "pandas", "tvm"}))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_good_draft_is_worth_samples() -> None:
    """16 samples teach little; with a draft that errs by a constant factor in one region they suffice."""
    alone, drafted = make_context(), make_context(draft=Draft(wrong_by=8.0))
    assert correlation(taught(drafted, 16), drafted) > 0.65
    assert correlation(taught(drafted, 16), drafted) > correlation(taught(alone, 16), alone) + 0.1


def test_a_draft_that_is_plain_wrong_is_outvoted() -> None:
    class Upside(Draft):
        def score(self, batch: CandidateBatch, profile: HardwareProfile) -> DraftScores:
            secs = 1e-9 / truth(batch)
            return DraftScores(1 / secs, secs)

    context = make_context(draft=Upside())
    assert correlation(taught(context, 200), context) > 0.5


def test_rows_learnt_earlier_are_drafted_as_the_draft_stands_now() -> None:
    """A calibration that scales the draft by 100 between two rounds changes nothing."""
    scores = []
    for scale in (1.0, 100.0):
        draft = Draft(wrong_by=4.0)
        context = make_context(draft=draft)
        verifier, batch = taught(context, 40), make_batch(40, sketch=1, seed=5)
        draft.scale = scale
        verifier.update(batch, measured(batch), context)
        scores.append(np.log2(verifier.score(make_batch(200, sketch=1, seed=9), context).scores))
    np.testing.assert_allclose(scores[0], scores[1], atol=0.05)


def test_scores_are_throughput_relative_to_the_best_measured() -> None:
    context = make_context(draft=Draft())
    verifier, batch = taught(context, 200), make_batch(200, sketch=1)
    scores = verifier.score(batch, context).scores
    assert scores.max() == pytest.approx(1.0, rel=0.25)
    best = truth(batch).min()
    np.testing.assert_allclose(np.median(scores / (best / truth(batch))), 1.0, rtol=0.2)


def test_it_waits_for_enough_samples_that_tell_something() -> None:
    verifier, batch, context = ResidualVerifier(), make_batch(MIN_ROWS, sketch=1), make_context(draft=Draft())
    verifier.update(batch.take(np.arange(MIN_ROWS - 1)), measured(batch)[:-1], context)
    assert not verifier.score(batch, context).is_trained
    verifier.update(batch.take(np.arange(MIN_ROWS - 1, MIN_ROWS)), measured(batch)[-1:], context)
    assert verifier.score(batch, context).is_trained


def test_only_failures_teach_nothing_but_failures_count_later() -> None:
    context = make_context()
    verifier, bad, good = ResidualVerifier(), make_batch(40, seed=1), make_batch(40, seed=2)
    verifier.update(bad, [make_measurement(f"b{i}", error=FAILED) for i in range(40)], context)
    assert not verifier.score(bad, context).is_trained
    verifier.update(good, measured(good), context)
    scores = verifier.score(good, context).scores, verifier.score(bad, context).scores
    assert np.median(scores[0]) > 2 * np.median(scores[1])


def test_a_failing_region_is_learnt_in_spite_of_the_draft() -> None:
    context, batch = make_context(draft=Draft()), make_batch(200)
    fails = batch.indices[:, 3] == 3
    verifier = ResidualVerifier()
    verifier.update(
        batch,
        [
            make_measurement(f"c{i}", error=FAILED) if failed else m
            for i, (m, failed) in enumerate(zip(measured(batch), fails, strict=True))
        ],
        context,
    )
    unseen = make_batch(400, seed=9)
    scores = verifier.score(unseen, context).scores
    bad = unseen.indices[:, 3] == 3
    assert np.median(scores[bad]) < 0.5 * np.median(scores[~bad])


@pytest.mark.parametrize("secs", [1e-3, 5e-7])
def test_constant_labels_are_survived(secs: float) -> None:
    verifier, batch, context = ResidualVerifier(), make_batch(64), make_context()
    verifier.update(batch, [make_measurement(f"c{i}", secs) for i in range(64)], context)
    np.testing.assert_allclose(verifier.score(batch, context).scores, 1.0, rtol=0.05)


def test_duplicates_and_a_latency_of_zero_are_survived() -> None:
    context, batch = make_context(), make_batch(64, sketch=1)
    verifier, same = ResidualVerifier(), batch.take(np.zeros(64, dtype=np.int64))
    verifier.update(same, [make_measurement(f"c{i}", 1e-3 * (1 + i % 2)) for i in range(64)], context)
    for _ in range(3):
        verifier.update(batch, [make_measurement("zero", 0.0), *measured(batch)[1:]], context)
    assert correlation(verifier, context) > 0.5


def test_censored_samples_rank_as_slow_and_set_no_best() -> None:
    context, batch = make_context(), make_batch(100, sketch=1)
    best = truth(batch).min()
    verifier = ResidualVerifier()
    verifier.update(
        batch,
        [
            make_measurement(f"c{i}", float(s), is_censored=bool(s > 1.3 * best), stage=1)
            for i, s in enumerate(truth(batch))
        ],
        context,
    )
    assert correlation(verifier, context) > 0.5
    again = make_batch(8, sketch=1, seed=3)
    verifier.update(
        again, [make_measurement(f"d{i}", best / 64, is_censored=True, stage=0) for i in range(8)], context
    )
    assert verifier.score(batch, context).scores.max() > 0.3


def test_one_fit_per_round(monkeypatch: pytest.MonkeyPatch) -> None:
    """An update per sketch, and several questions, are one training and one drafting of each sketch's rows."""
    import lightgbm

    n_trained, train = [], lightgbm.train
    monkeypatch.setattr(lightgbm, "train", lambda *a, **k: n_trained.append(1) or train(*a, **k))
    draft = Draft()
    verifier, context = ResidualVerifier(), make_context(draft=draft)
    batches = [make_batch(40, sketch=s) for s in (0, 1)]
    for n_rounds in (1, 2):
        for batch in batches:
            verifier.update(batch, measured(batch), context)
        draft.n_asked = 0
        for batch in batches:
            verifier.score(batch, context)
        assert len(n_trained) == n_rounds
        assert draft.n_asked == 4  # what is asked, and the rows of both sketches


def test_unequal_lengths_are_refused_and_change_nothing() -> None:
    context, batch = make_context(), make_batch(40, sketch=1)
    verifier = taught(context, 40)
    before = verifier.score(batch, context).scores
    with pytest.raises(ValueError, match="other lengths"):
        verifier.update(batch, measured(batch)[:-1], context)
    np.testing.assert_array_equal(verifier.score(batch, context).scores, before)


def test_degradations_are_told_and_the_threshold_says_what_it_rests_on() -> None:
    context = make_context(draft=Draft(wrong_by=2.0))
    verifier = taught(context, 48, seeds=range(6))
    batch = make_batch(300, sketch=1, seed=99)
    scores = verifier.score(batch, context)
    best = min(truth(make_batch(48, sketch=1, seed=s)).min() for s in range(6))
    degrades = truth(batch) > 1.1 * best
    bad, good = (scores.degradation_prob[rows].mean() for rows in (degrades, ~degrades))
    assert bad > 0.9
    assert good < bad - 0.2
    assert 0.5 <= scores.skip_above < 1
    assert "n = " in scores.skip_basis


def test_kinship_is_the_same_for_alike_and_not_for_all() -> None:
    context, batch = make_context(), make_batch(50, sketch=1)
    kinship = taught(context).score(batch, context).kinship
    assert kinship is not None
    assert kinship.dtype == np.int32
    assert len(kinship) == 50
    assert len(np.unique(kinship, axis=0)) > 10
    twins = taught(context).score(batch.take(np.zeros(5, dtype=np.int64)), context).kinship
    assert twins is not None
    assert len(np.unique(twins, axis=0)) == 1


def test_kinship_is_worked_out_only_for_those_who_look_at_it() -> None:
    context, batch = make_context(), make_batch(50, sketch=1)
    verifier = taught(context)
    asked = verifier.score(batch, replace(context, wants_kinship=False))
    assert asked.kinship is None
    np.testing.assert_array_equal(asked.scores, verifier.score(batch, context).scores)


def test_equal_predictions_share_a_rank() -> None:
    # What was measured first is often fastest: ties in the order of measuring would look like foresight.
    truth = np.arange(8.0)
    assert rank_correlation(np.array([0.0, 0, 0, 0, 0, 0, 0, -1]), truth) < 0
    assert rank_correlation(np.zeros(8), truth) == 0
    assert rank_correlation(2 * truth, truth) == pytest.approx(1)


def test_rank_correlation_is_spearmans() -> None:
    from scipy.stats import spearmanr

    rng = np.random.default_rng(0)
    for n in range(3, 40):
        a, b = rng.integers(0, 5, n).astype(np.float64), rng.normal(size=n)
        a[:2] = 0, 1  # never all the same, and mostly with ties
        assert rank_correlation(a, b) == pytest.approx(float(spearmanr(a, b).statistic))


def test_seed_decides() -> None:
    context, batch = make_context(), make_batch(60, sketch=1)
    scores = [taught(context, seed=seed).score(batch, context).scores for seed in (1, 1, 2)]
    np.testing.assert_array_equal(scores[0], scores[1])
    assert (scores[0] != scores[2]).any()


def test_tasks_are_learnt_apart() -> None:
    context = make_context()
    verifier = taught(context)
    other = make_batch(20, space=make_space(make_task("other")), sketch=1)
    assert not verifier.score(other, context).is_trained


def test_what_was_stopped_early_says_nothing_about_foresight() -> None:
    """Its latency is not one to compare, so no error of a prediction either."""
    context, batch = make_context(), make_batch(40, sketch=1, seed=8)
    scores = []
    for is_censored in (False, True):
        verifier = taught(context, 60)
        off = [
            make_measurement(f"c{i}", float(64 * s), is_censored=is_censored) for i, s in enumerate(truth(batch))
        ]
        verifier.update(batch, off, context)
        scores.append(verifier.score(make_batch(100, sketch=1, seed=9), context).degradation_prob)
    assert scores[1].min() < 0.9 < scores[0].min()
