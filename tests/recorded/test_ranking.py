"""Rankings of recorded spaces: what they find, and what they learn from."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from kits.recordings import fake_recording

from prune_engine.config import EngineConfig
from prune_engine.errors import ConfigError, PluginContractError
from prune_engine.hardware.schema import HardwareProfile
from prune_engine.recorded.judge import Judge
from prune_engine.recorded.ranking import PICKS, Ranking, random_lessons, rank, rank_correlation, train_prior
from prune_engine.recorded.spaces import RecordedSpace
from prune_engine.store.base import Store
from prune_engine.store.sql import SqlStore

#: A draft that knows the truth, or its opposite, or all of it wrong.
PLUGIN = '''
import numpy as np
from prune_engine.hookspecs import hookimpl
from prune_engine.strategies import DraftScorer, Verifier
from prune_engine.testing import FakeWorkbench
from prune_engine.verdicts import DraftScores, VerifyScores


class Truth(DraftScorer):
    name = "truth.draft"

    def score(self, batch, profile):
        return DraftScores(1 / FakeWorkbench().true_latency_secs(batch))


class Lie(DraftScorer):
    name = "lie.draft"

    def score(self, batch, profile):
        return DraftScores(FakeWorkbench().true_latency_secs(batch))


class Broken(DraftScorer):
    name = "broken.draft"

    def score(self, batch, profile):
        raise RuntimeError("out of order")


class Memory(Verifier):
    """Remembers what it was taught, in which order, and what the draft said then."""

    name = "memory.verifier"

    def __init__(self):
        self.rounds, self.drafts = [], []

    def score(self, batch, context):
        n = len(batch)
        return VerifyScores(np.ones(n), np.zeros(n), "0", is_trained=False)

    def update(self, batch, measurements, context):
        self.rounds.append((batch, measurements))
        self.drafts.append(context.draft(batch))

    def save(self, path):
        path.write_text(str(sum(len(batch) for batch, _ in self.rounds)))

    def load(self, path):
        pass


@hookimpl
def register_draft_scorers():
    return [Truth(), Lie(), Broken()]


@hookimpl
def register_verifiers():
    return [Memory()]
'''


@pytest.fixture
def plugin(tmp_path: Path) -> Path:
    path = tmp_path / "truth.py"
    path.write_text(PLUGIN)
    return path


@pytest.fixture
def recorded() -> RecordedSpace:
    return fake_recording(failed=(3, 5))


def _config(plugin: Path, **options: object) -> EngineConfig:
    given = {"draft_scorer": "truth.draft", "verifier": None, "prior": "none", "batch_size": 8, **options}
    return EngineConfig.of(plugin_files=(plugin,), **given)


def _rank(recorded: RecordedSpace, config: EngineConfig, profile: HardwareProfile, **options: object) -> Ranking:
    return rank(recorded, config, profile, store=SqlStore("sqlite://"), **options)  # type: ignore[arg-type]


def test_a_perfect_draft(recorded: RecordedSpace, plugin: Path, profile: HardwareProfile) -> None:
    ranking = _rank(recorded, _config(plugin), profile)
    assert ranking.found == ranking.picked == dict.fromkeys(PICKS, 1.0)
    assert ranking.correlation == pytest.approx(1.0)
    assert ranking.ranked_by == "truth.draft"
    assert (ranking.n_candidates, ranking.n_failed, ranking.n_samples) == (120, 2, 0)
    assert ranking.found_by_samples is None


def test_the_worst_draft(recorded: RecordedSpace, plugin: Path, profile: HardwareProfile) -> None:
    ranking = _rank(recorded, _config(plugin, draft_scorer="lie.draft"), profile)
    slowest = max(np.nanmax(secs) for secs in recorded.run_secs)
    assert ranking.found[1] == pytest.approx(ranking.best_secs / slowest)
    assert ranking.correlation == pytest.approx(-1.0)


def test_a_failure_that_is_ranked_first_is_nothing_found(
    recorded: RecordedSpace, plugin: Path, profile: HardwareProfile
) -> None:
    best = recorded.run_secs[0].copy()
    best[np.nanargmin(best)] = np.nan
    only = replace(recorded, batches=(recorded.batches[0], recorded.batches[1].take(np.arange(0))))
    only = replace(only, run_secs=(best, np.empty(0)))
    ranking = _rank(only, _config(plugin), profile)
    assert ranking.found[1] == 0.0
    assert ranking.found[8] > 0.9


def test_without_scores_the_order_is_random_not_the_recordings(
    recorded: RecordedSpace, plugin: Path, profile: HardwareProfile
) -> None:
    found = {
        seed: tuple(_rank(recorded, _config(plugin, draft_scorer=None, seed=seed), profile).found.values())
        for seed in range(4)
    }
    assert len(set(found.values())) > 1
    again = _rank(recorded, _config(plugin, draft_scorer=None, seed=1), profile)
    assert tuple(again.found.values()) == found[1]
    assert again.ranked_by is None
    assert again.correlation is None


@pytest.mark.parametrize("sampling", ["loop", "random"])
def test_the_measured_count_as_found_and_are_not_ranked(
    recorded: RecordedSpace, plugin: Path, profile: HardwareProfile, sampling: str
) -> None:
    config = _config(plugin, draft_scorer=None, verifier="lightgbm.decisions")
    ranking = _rank(recorded, config, profile, n_samples=40, sampling=sampling)
    assert ranking.n_samples == 40
    assert ranking.ranked_by == "lightgbm.decisions"
    assert ranking.found_by_samples is not None
    assert ranking.found[64] == max(ranking.found_by_samples, ranking.picked[64])
    assert ranking.found[1] == max(ranking.found_by_samples, ranking.picked[1])
    assert ranking == replace(
        _rank(recorded, config, profile, n_samples=40, sampling=sampling),
        learn_secs=ranking.learn_secs,
        score_secs=ranking.score_secs,
    )


def test_all_measured_leaves_nothing_to_rank(
    recorded: RecordedSpace, plugin: Path, profile: HardwareProfile
) -> None:
    ranking = _rank(recorded, _config(plugin), profile, n_samples=1000, sampling="random")
    assert (ranking.n_samples, ranking.found_by_samples) == (120, 1.0)
    assert ranking.picked == dict.fromkeys(PICKS, 0.0)
    assert ranking.correlation is None


def test_random_lessons_are_of_the_whole_recording_with_its_times(recorded: RecordedSpace) -> None:
    lessons = random_lessons(recorded, 1000, 0)
    assert [len(batch) for batch, _ in lessons] == [60, 60]
    for (_, measurements), secs in zip(lessons, recorded.run_secs, strict=True):
        told = [np.nan if m.latency_secs is None else m.latency_secs for m in measurements]
        np.testing.assert_array_equal(told, secs)
    few = random_lessons(recorded, 7, 3)
    assert sum(len(batch) for batch, _ in few) == 7
    rows = {tuple(row) for batch, _ in few for row in batch.indices.tolist()}
    assert rows != {tuple(row) for batch, _ in random_lessons(recorded, 7, 4) for row in batch.indices.tolist()}


class TestJudge:
    def test_teaches_the_verifier_after_the_draft(
        self, recorded: RecordedSpace, plugin: Path, profile: HardwareProfile
    ) -> None:
        judge = Judge(_config(plugin, verifier="memory.verifier"), profile)
        lessons = random_lessons(recorded, 20, 0)
        judge.teach(lessons)
        memory: object = judge.verifier
        assert [len(b) for b, _ in memory.rounds] == [len(b) for b, _ in lessons]  # type: ignore[attr-defined]
        assert all(draft is not None for draft in memory.drafts)  # type: ignore[attr-defined]

    def test_a_verifier_that_is_not_trained_leaves_it_to_the_draft(
        self, recorded: RecordedSpace, plugin: Path, profile: HardwareProfile
    ) -> None:
        ranking = _rank(recorded, _config(plugin, verifier="memory.verifier"), profile)
        assert ranking.ranked_by == "truth.draft"

    def test_a_strategy_that_fails_is_named(
        self, recorded: RecordedSpace, plugin: Path, profile: HardwareProfile
    ) -> None:
        config = _config(plugin, draft_scorer="broken.draft")
        with pytest.raises(PluginContractError, match=r"strategy broken\.draft: raised an exception.*out of order"):
            _rank(recorded, config, profile)

    def test_symbols_of_plugins_can_be_asked_for(
        self, recorded: RecordedSpace, tmp_path: Path, profile: HardwareProfile
    ) -> None:
        path = tmp_path / "symbol.py"
        path.write_text(
            "import numpy as np\n"
            "from prune_engine.hookspecs import hookimpl\n"
            "from prune_engine.symbols.table import SymbolDef\n"
            "@hookimpl\n"
            "def register_symbols():\n"
            "    return [SymbolDef('mine.one', '', 'one', 'here', lambda batch: np.ones(len(batch)))]\n"
        )
        config = EngineConfig.of(plugin_files=(path,), draft_scorer=None, verifier=None)
        adopted = Judge(config, profile).adopted(recorded)
        assert adopted.batches[0].symbol("mine.one").tolist() == [1.0] * 60


def test_a_prior_is_learnt_from_all_of_a_recording(
    recorded: RecordedSpace, plugin: Path, profile: HardwareProfile, tmp_path: Path
) -> None:
    train_prior(recorded, _config(plugin, verifier="memory.verifier"), profile, tmp_path / "prior")
    assert (tmp_path / "prior").read_text() == "120"
    with pytest.raises(ConfigError, match="no verifier"):
        train_prior(recorded, _config(plugin), profile, tmp_path / "prior")


def test_nothing_that_ran_cannot_be_ranked(plugin: Path, profile: HardwareProfile, store: Store) -> None:
    dead = fake_recording(n=4)
    for secs in dead.run_secs:
        secs[:] = np.nan
    with pytest.raises(ConfigError, match="no candidate of it ran; got 8 recorded"):
        rank(dead, _config(plugin), profile, store=store)


def test_correlation_is_of_speed_over_what_ran() -> None:
    scores = np.array([4.0, 3.0, 2.0, 1.0])
    assert rank_correlation(scores, np.array([1.0, 2.0, 3.0, 4.0])) == pytest.approx(1.0)
    assert rank_correlation(scores, np.array([4.0, 3.0, np.nan, 1.0])) == pytest.approx(-1.0)
    assert rank_correlation(scores, np.array([4.0, np.nan, np.nan, 1.0])) is None
    assert rank_correlation(np.ones(4), np.arange(1.0, 5.0)) is None
