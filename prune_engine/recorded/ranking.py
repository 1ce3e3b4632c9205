"""Rank a recorded space by the draft, or by draft and verifier after some measurements, and say how well."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from prune_engine.candidates import CandidateBatch, SeenRows
from prune_engine.config import EngineConfig
from prune_engine.errors import ConfigError
from prune_engine.hardware.schema import HardwareProfile
from prune_engine.loop.task_state import TaskState
from prune_engine.loop.teaching import Lesson
from prune_engine.measurement import MeasuredCandidate
from prune_engine.plugins import PluginRecord
from prune_engine.recorded.judge import Judge
from prune_engine.recorded.replay import replay
from prune_engine.recorded.spaces import RecordedSpace
from prune_engine.recorded.workbench import found_after, looked_up
from prune_engine.store.base import Store
from prune_engine.verdicts import BoolArray, Float64Array

#: At how many picks a ranking is judged.
PICKS = (1, 4, 8, 16, 64)

#: How the measured candidates are chosen: by the engine's own loop, or at random.
Sampling = Literal["loop", "random"]


@dataclass(frozen=True, slots=True)
class Ranking:
    """How well the candidates of a recorded space were ranked.

    ``found[k]`` is the best of the space over the best of the ``n_samples`` measured and the ``k`` ranked first
    of the others: 1 is perfect, 0 nothing that runs. ``picked[k]`` is the same without the measured.
    ``found_by_samples`` is what the measured alone hold, None without any. ``correlation`` is Spearman's of score
    and speed over what was not measured and ran, None where either is constant. ``ranked_by`` names whose scores
    they are; None means that nobody told the candidates apart, so the order is random. Times in seconds:
    ``learn_secs`` of measuring by replay and learning, ``score_secs`` of scoring all candidates. ``failed_plugins``
    are those it had to do without.
    """

    name: str
    n_candidates: int
    n_failed: int
    best_secs: float
    median_secs: float
    n_samples: int
    found: Mapping[int, float]
    picked: Mapping[int, float]
    found_by_samples: float | None
    correlation: float | None
    ranked_by: str | None
    learn_secs: float
    score_secs: float
    failed_plugins: tuple[PluginRecord, ...] = ()


def rank(
    recorded: RecordedSpace,
    config: EngineConfig,
    profile: HardwareProfile,
    *,
    store: Store,
    n_samples: int = 0,
    sampling: Sampling = "loop",
    picks: Sequence[int] = PICKS,
) -> Ranking:
    """Rank a recorded space with the strategies that ``config`` names, after ``n_samples`` replayed measurements.

    ``loop`` measures what the engine would, in its batches; ``random`` draws all of them at once from the
    recording. ``store``, an empty one, is the engine's meanwhile. The same arguments give the same ranking.

    Raises ConfigError if no candidate of the space ran, PluginContractError if a strategy fails.
    """
    best_secs, median_secs = recorded.best_secs, recorded.median_secs
    if best_secs is None or median_secs is None:
        raise ConfigError("no candidate of it ran", who=recorded.name, got=f"{recorded.n_candidates} recorded")
    judge = Judge(config, profile)
    recorded = judge.adopted(recorded)
    started = time.perf_counter()
    if not n_samples:
        rounds: Sequence[Sequence[Lesson]] = []
    elif sampling == "loop":
        rounds = _by_loop(recorded, config, profile, store, n_samples)
    else:
        rounds = [random_lessons(recorded, n_samples, config.seed)]
    for lessons in rounds:
        judge.teach(lessons)
    learnt = time.perf_counter()
    scores = judge.scores(recorded.batches)
    scored = time.perf_counter()
    secs = np.concatenate(recorded.run_secs)
    measured = _measured(recorded, rounds)
    others = _order(scores, np.random.default_rng(config.seed), ~measured)
    from_samples = _found(secs[measured], best_secs)
    picked = {k: _found(secs[others[:k]], best_secs) for k in picks}
    return Ranking(
        name=recorded.name,
        n_candidates=recorded.n_candidates,
        n_failed=recorded.n_failed,
        best_secs=best_secs,
        median_secs=median_secs,
        n_samples=int(measured.sum()),
        found={k: max(value, from_samples) for k, value in picked.items()},
        picked=picked,
        found_by_samples=from_samples if measured.any() else None,
        correlation=rank_correlation(scores[others], secs[others]),
        ranked_by=judge.ranked_by,
        learn_secs=learnt - started,
        score_secs=scored - learnt,
        failed_plugins=judge.failed_plugins,
    )


def train_prior(recorded: RecordedSpace, config: EngineConfig, profile: HardwareProfile, path: Path) -> None:
    """Write a model that the verifier learnt from all of a recording: a prior for another device.

    Raises ConfigError without a verifier, PluginContractError if it fails.
    """
    judge = Judge(config.model_copy(update={"prior": "none"}), profile)
    if judge.verifier is None:
        raise ConfigError("there is no verifier that could know another device", who="verifier", got="none")
    judge.teach(random_lessons(judge.adopted(recorded), recorded.n_candidates, config.seed))
    judge.verifier.save(path)


def found_in_order(
    scores: Float64Array, run_secs: Float64Array, *, seed: int = 0, picks: Sequence[int] = PICKS
) -> dict[int, float]:
    """Best of all run times over the best of the ``k`` with the highest scores, for each of ``picks``.

    ``scores`` and ``run_secs`` are float64 (n,), the times NaN for failures; some candidate ran. Candidates of
    equal score are in random order, by ``seed``.
    """
    order = _order(scores, np.random.default_rng(seed), np.ones(len(scores), dtype=np.bool_))
    best_secs = float(np.nanmin(run_secs))
    return {k: _found(run_secs[order[:k]], best_secs) for k in picks}


def random_lessons(recorded: RecordedSpace, n: int, seed: int) -> list[Lesson]:
    """``n`` rows of a recording drawn at random, or all there are, as one batch per sketch with measurements."""
    rng = np.random.default_rng(seed)
    drawn = rng.permutation(recorded.n_candidates)[:n]
    owners = np.repeat(np.arange(len(recorded.batches)), [len(batch) for batch in recorded.batches])
    starts = np.cumsum([0, *map(len, recorded.batches)])
    lessons = []
    for number, batch in enumerate(recorded.batches):
        rows = np.sort(drawn[owners[drawn] == number] - starts[number])
        if len(rows):
            marks = recorded.is_censored[number][rows] if recorded.is_censored else np.zeros(len(rows), np.bool_)
            lessons.append(_lesson(batch.take(rows), recorded.run_secs[number][rows], marks))
    return lessons


def _lesson(batch: CandidateBatch, run_secs: Float64Array, is_censored: BoolArray) -> Lesson:
    """A batch with measurements of these run times, float64 (n,), NaN for failures; bool (n,): stopped early."""
    ids = [batch.candidate(row).candidate_id for row in range(len(batch))]
    found = (looked_up(one, secs) for one, secs in zip(ids, run_secs.tolist(), strict=True))
    return batch, tuple(
        replace(one, is_censored=True) if mark else one
        for one, mark in zip(found, is_censored.tolist(), strict=True)
    )


def rank_correlation(scores: Float64Array, run_secs: Float64Array) -> float | None:
    """Spearman's correlation of score and speed over what ran; None if either is constant, or fewer than 3 ran."""
    from scipy.stats import spearmanr  # takes half a second to import

    ran = ~np.isnan(run_secs)
    scores, run_secs = scores[ran], run_secs[ran]
    if len(scores) < 3 or len(np.unique(scores)) == 1 or len(np.unique(run_secs)) == 1:
        return None
    return float(spearmanr(scores, -run_secs).statistic)


def _by_loop(
    recorded: RecordedSpace, config: EngineConfig, profile: HardwareProfile, store: Store, n: int
) -> list[Sequence[Lesson]]:
    """What the engine measures in ``n`` trials, round by round."""
    config = config.model_copy(update={"n_trials": n, "budget_secs": None, "plateau_trials": n + 1})
    rounds = replay([recorded], config, profile, store).rounds[recorded.task.task_id]
    return [_lessons(recorded, [one for one in measured if one.candidate]) for measured in rounds]


def _lessons(recorded: RecordedSpace, measured: Sequence[MeasuredCandidate]) -> Sequence[Lesson]:
    state = TaskState(recorded.task, recorded.space)
    return state.batches_of([(one.candidate, one.measurement) for one in measured if one.candidate])


def _measured(recorded: RecordedSpace, rounds: Sequence[Sequence[Lesson]]) -> BoolArray:
    """Which of the recorded rows were measured, bool over all batches one after the other."""
    seen = SeenRows()
    for lessons in rounds:
        for batch, _ in lessons:
            seen.add(batch.sketch.index, batch.indices)
    return np.concatenate([~seen.unseen(batch) for batch in recorded.batches])


def _order(scores: Float64Array, rng: np.random.Generator, keep: BoolArray) -> NDArray[np.int64]:
    """Positions of what is kept, best first; equals in random order, as a recording's own order may tell."""
    shuffled = rng.permutation(len(scores))
    order: NDArray[np.int64] = shuffled[np.argsort(-scores[shuffled], kind="stable")]
    return order[keep[order]]


def _found(run_secs: Float64Array, best_secs: float) -> float:
    return float(found_after(run_secs, best_secs)[-1]) if len(run_secs) else 0.0
