"""Weights of the draft's terms: what labels may and may not do to them."""

from __future__ import annotations

import json
from collections.abc import Sequence

import numpy as np
import pytest
from kits import nests
from prune_engine_draft.calibrated import TaskWeights
from prune_engine_draft.calibration import MIN_COMPARED, MIN_LABELS, Labels, agreement, fitted, held_out_agreement
from prune_engine_draft.cpu import TERMS, cpu_terms
from prune_engine_draft.priors import PRIORS_FILE, family_of, prior_weights
from prune_engine_draft.scorer import SymbolDraft

from prune_engine.candidates import CandidateBatch
from prune_engine.measurement import MeasureErrorKind, Measurement
from prune_engine.space import DesignSpace
from prune_engine.testing import make_measurement, make_profile, make_task

TRUE = np.array([1.5, 0.2, 3.0])
ONES = np.ones(3)


def planted(n: int, seed: int = 0, noise: float = 0.02) -> Labels:
    rng = np.random.default_rng(seed)
    terms = rng.lognormal(0.0, 1.0, (n, 3)) * 1e-3
    return Labels(terms, terms @ TRUE * rng.normal(1.0, noise, n), np.zeros(n, dtype=np.bool_))


def measured(secs: Sequence[float]) -> list[Measurement]:
    return [make_measurement(f"c{i}", s) for i, s in enumerate(secs)]


def test_planted_weights_are_found() -> None:
    found = fitted(planted(200), ONES)
    np.testing.assert_allclose(found, TRUE, rtol=0.15)
    assert agreement(planted(200, seed=1), found) > 0.99


def test_weights_are_not_negative_even_where_that_would_fit_better() -> None:
    labels = planted(100)
    inverse = Labels(labels.terms, 1e-3 / (1 + labels.terms[:, 0] * 1e3), labels.is_censored)
    assert (fitted(inverse, ONES) >= 0).all()


def test_few_labels_leave_factors_near_the_prior() -> None:
    little, much = (fitted(planted(n), ONES, ridge=50.0) for n in (4, 400))
    assert np.ptp(little / little.mean()) < 0.5 * np.ptp(much / much.mean())


@pytest.mark.parametrize("factor", [50.0, 1 / 50.0])
def test_a_wild_label_changes_little(factor: float) -> None:
    labels = planted(60)
    secs = labels.latency_secs.copy()
    secs[:3] *= factor
    wild = fitted(Labels(labels.terms, secs, labels.is_censored), ONES)
    assert agreement(planted(200, seed=2), wild) > 0.97
    np.testing.assert_allclose(wild, fitted(labels, ONES), rtol=0.5)


def test_a_censored_label_pulls_up_but_never_down() -> None:
    labels = planted(80)
    half = np.arange(80) < 40
    # Stopped at a tenth of what they take: as latencies they would say that all is much faster.
    secs = np.where(half, labels.latency_secs * 0.1, labels.latency_secs)
    stopped = fitted(Labels(labels.terms, secs, half), ONES)
    as_if_done = fitted(Labels(labels.terms, secs, np.zeros(80, dtype=np.bool_)), ONES)
    known = fitted(labels, ONES)
    truth = planted(200, seed=3)
    error = {
        name: np.abs(np.log(truth.terms @ w / truth.latency_secs)).mean()
        for name, w in {"stopped": stopped, "as if done": as_if_done, "known": known}.items()
    }
    assert error["stopped"] < 0.5 * error["as if done"]


@pytest.mark.parametrize("n", [1, 2, MIN_LABELS, 40])
def test_constant_or_repeated_labels_do_no_harm(n: int) -> None:
    terms = np.repeat(planted(1).terms, n, axis=0)
    weights = TaskWeights(ONES)
    weights.add(terms, measured([2e-3] * n))
    found = weights.weights()
    assert np.isfinite(found).all()
    assert (found >= 0).all()
    assert found.any()


def test_labels_of_no_use_leave_the_prior() -> None:
    labels = Labels(np.zeros((20, 3)), np.full(20, 1e-3), np.zeros(20, dtype=np.bool_))
    np.testing.assert_array_equal(fitted(labels, ONES), ONES)
    assert agreement(labels, ONES) == 0.0


def test_nothing_is_fitted_before_there_are_enough_labels() -> None:
    labels = planted(MIN_LABELS)
    weights = TaskWeights(ONES)
    weights.add(labels.terms[:-1], measured(labels.latency_secs[:-1].tolist()))
    np.testing.assert_array_equal(weights.weights(), ONES)
    assert weights.fitted is None
    weights.add(labels.terms[-1:], measured(labels.latency_secs[-1:].tolist()))
    assert weights.fitted is None  # nobody asked yet
    assert not np.array_equal(weights.weights(), ONES)
    assert weights.fitted is not None


def test_a_fit_that_does_not_rank_other_labels_better_is_not_used() -> None:
    rng = np.random.default_rng(5)
    terms = rng.lognormal(0.0, 1.0, (MIN_LABELS, 3))
    weights = TaskWeights(ONES)
    weights.add(terms, measured((terms.sum(axis=1)).tolist()))  # the prior is right already
    noisy = TaskWeights(ONES)
    noisy.add(terms, measured(rng.lognormal(0.0, 1.0, MIN_LABELS).tolist()))
    labels = Labels(terms, np.array(noisy._secs), np.zeros(MIN_LABELS, dtype=np.bool_))
    assert held_out_agreement(labels, ONES) < agreement(labels, ONES)
    np.testing.assert_array_equal(noisy.weights(), ONES)


def test_weights_of_an_earlier_task_are_taken_where_they_rank_better() -> None:
    labels = planted(MIN_COMPARED + 4, noise=0.0)
    weights = TaskWeights(ONES)
    weights.add(labels.terms, measured(labels.latency_secs.tolist()))
    assert weights.weights([TRUE]) is TRUE
    wrong = np.array([0.0, 5.0, 0.0])
    np.testing.assert_array_equal(weights.weights([wrong]), ONES)
    few = TaskWeights(ONES)
    few.add(labels.terms[: MIN_COMPARED - 1], measured(labels.latency_secs[: MIN_COMPARED - 1].tolist()))
    np.testing.assert_array_equal(few.weights([TRUE]), ONES)


def test_failures_say_nothing() -> None:
    weights = TaskWeights(ONES)
    failed = [make_measurement(error=MeasureErrorKind.BUILD_ERROR)] * 40
    weights.add(planted(40).terms, failed)
    np.testing.assert_array_equal(weights.weights(), ONES)


def batch_of_task(name: str, n: int, seed: int = 0) -> CandidateBatch:
    sketch = nests.gemm_cpu(64, 48, 32)
    made = nests.batch_of(sketch, nests.random_rows(sketch, n, seed))
    return CandidateBatch(DesignSpace(make_task(name), (sketch,), made.space.symbols), sketch, made.indices)


def test_the_scorer_learns_and_carries_over_to_the_next_task() -> None:
    profile, draft = make_profile(), SymbolDraft()
    hidden = np.linspace(0.2, 4.0, len(TERMS))

    def truth(batch: CandidateBatch) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        return np.stack([cpu_terms(batch, profile).terms[t] for t in TERMS], axis=1) @ hidden

    first, other = batch_of_task("first", 200), batch_of_task("first", 300, seed=1)
    before = rank_agreement(draft.score(other, profile).scores, truth(other))
    draft.update(first, measured(truth(first).tolist()), profile)
    after = draft.score(other, profile)
    assert rank_agreement(after.scores, truth(other)) > before + 0.005
    assert after.latency_secs is not None
    assert np.median(np.abs(np.log(after.latency_secs / truth(other)))) < 0.1
    second = batch_of_task("second", 12, seed=2)
    draft.update(second, measured(truth(second).tolist()), profile)
    unseen = batch_of_task("second", 300, seed=3)
    found = draft.score(unseen, profile).scores
    fresh = SymbolDraft().score(unseen, profile).scores
    assert rank_agreement(found, truth(unseen)) >= rank_agreement(fresh, truth(unseen))


def rank_agreement(scores: np.ndarray, secs: np.ndarray) -> float:  # type: ignore[type-arg]
    order = np.argsort(np.argsort(-scores)), np.argsort(np.argsort(secs))
    return float(np.corrcoef(*order)[0, 1])


def test_shipped_priors_are_weights_of_terms() -> None:
    known = json.loads(PRIORS_FILE.read_text())
    for family, entry in known.items():
        assert set(entry["weights"]) <= set(TERMS), family
        assert all(w > 0 for w in entry["weights"].values())
        assert entry["made_of"]
    profile = make_profile()
    assert family_of(profile) == "cpu-512"
    assert (prior_weights(profile, ["no such term"]) == 1.0).all()
