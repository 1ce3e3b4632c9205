"""What the contract of verifiers does not say: LightGBM late, one fit per round, few samples, files."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from prune_engine_lightgbm.features import decision_columns, matrix
from prune_engine_lightgbm.verifier import DecisionVerifier

from prune_engine.candidates import CandidateBatch
from prune_engine.errors import ConfigError
from prune_engine.measurement import MeasureErrorKind, Measurement
from prune_engine.testing import FakeWorkbench, make_batch, make_context, make_measurement, make_space, make_task

FAILED = MeasureErrorKind.CRASH


def measured(batch: CandidateBatch, noise: float = 0.0) -> list[Measurement]:
    secs = FakeWorkbench().true_latency_secs(batch) * (1 + noise * np.random.default_rng(0).random(len(batch)))
    return [make_measurement(f"c{i}", float(s)) for i, s in enumerate(secs)]


def ranks(values: np.ndarray) -> np.ndarray:
    return np.argsort(np.argsort(values))


def rank_correlation(verifier: DecisionVerifier, sketch: int = 1, seed: int = 77) -> float:
    unseen = make_batch(400, sketch=sketch, seed=seed)
    truth = -FakeWorkbench().true_latency_secs(unseen)
    return float(np.corrcoef(ranks(verifier.score(unseen, make_context()).scores), ranks(truth))[0, 1])


def test_registering_the_plugin_does_not_import_lightgbm() -> None:
    """Nor does asking an untrained model: the command line starts in half a second."""
    script = """
import sys
from prune_engine.config import EngineConfig
from prune_engine.plugins import PluginHost
from prune_engine.strategy_set import load_strategies
from prune_engine.testing import make_batch, make_context
config = EngineConfig()
host = PluginHost(config)
host.load()
verifier = load_strategies(host, config).verifier
assert verifier.name == config.verifier
verifier.score(make_batch(5), make_context())
print(sorted({m.split(".")[0] for m in sys.modules} & {"lightgbm", "scipy", "sklearn", "pandas", "tvm"}))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("seed", range(3))
def test_64_noisy_samples_teach_it_a_ranking(seed: int) -> None:
    verifier = DecisionVerifier(seed)
    batch = make_batch(64, sketch=1, seed=seed)
    verifier.update(batch, measured(batch, noise=0.1), make_context())
    assert rank_correlation(verifier) > 0.5


def test_it_waits_for_16_samples_that_tell_something() -> None:
    verifier, batch = DecisionVerifier(), make_batch(16, sketch=1)
    verifier.update(batch.take(np.arange(15)), measured(batch)[:15], make_context())
    assert not verifier.score(batch, make_context()).is_trained
    verifier.update(batch.take(np.arange(15, 16)), measured(batch)[15:], make_context())
    assert verifier.score(batch, make_context()).is_trained
    assert verifier.score(batch.take(np.arange(0)), make_context()).is_trained


def test_only_failures_teach_nothing_but_failures_count_later() -> None:
    verifier, bad, good = DecisionVerifier(), make_batch(40, seed=1), make_batch(40, seed=2)
    verifier.update(bad, [make_measurement(f"b{i}", error=FAILED) for i in range(40)], make_context())
    assert not verifier.score(bad, make_context()).is_trained
    verifier.update(good, measured(good), make_context())
    scores = verifier.score(good, make_context()).scores, verifier.score(bad, make_context()).scores
    assert np.median(scores[0]) > np.median(scores[1])


def test_a_failing_region_is_learnt() -> None:
    verifier, batch = DecisionVerifier(), make_batch(200)
    fails = batch.indices[:, 3] == 3  # unroll 512
    measurements = [
        make_measurement(f"c{i}", error=FAILED) if failed else m
        for i, (m, failed) in enumerate(zip(measured(batch), fails, strict=True))
    ]
    verifier.update(batch, measurements, make_context())
    unseen = make_batch(400, seed=9)
    scores, probs = (
        verifier.score(unseen, make_context()).scores,
        verifier.score(unseen, make_context()).degradation_prob,
    )
    bad = unseen.indices[:, 3] == 3
    assert np.median(scores[bad]) < 0.3 * np.median(scores[~bad])
    assert np.median(probs[bad]) > 0.9


def test_constant_labels_are_survived() -> None:
    verifier, batch = DecisionVerifier(), make_batch(64)
    verifier.update(batch, [make_measurement(f"c{i}", 1e-3) for i in range(64)], make_context())
    np.testing.assert_allclose(verifier.score(batch, make_context()).scores, 1.0, rtol=0.05)


def test_duplicates_and_contradictions_are_survived() -> None:
    verifier, batch = DecisionVerifier(), make_batch(64, sketch=1)
    same = batch.take(np.zeros(64, dtype=np.int64))
    verifier.update(same, [make_measurement(f"c{i}", 1e-3 * (1 + i % 2)) for i in range(64)], make_context())
    for _ in range(3):
        verifier.update(batch, measured(batch), make_context())
    assert rank_correlation(verifier) > 0.5


def test_a_latency_of_zero_is_survived() -> None:
    """A clock too coarse for a tiny kernel."""
    verifier, batch = DecisionVerifier(), make_batch(32)
    verifier.update(batch, [make_measurement("zero", 0.0), *measured(batch)[1:]], make_context())
    assert verifier.score(batch, make_context()).is_trained


def test_censored_samples_count_as_slow() -> None:
    verifier, batch = DecisionVerifier(), make_batch(100, sketch=1)
    best = min(m.latency_secs or 1.0 for m in measured(batch))
    verifier.update(
        batch,
        [
            make_measurement(m.candidate_id, m.run_secs, is_censored=(m.latency_secs or 1.0) > 1.3 * best, stage=1)
            for m in measured(batch)
        ],
        make_context(),
    )
    assert rank_correlation(verifier) > 0.5


def test_the_degradation_probability_is_calibrated_by_its_own_errors() -> None:
    """Sure of itself where it predicted well, unsure where labels are noise."""
    spread = {}
    for noise in (0.0, 20.0):
        verifier = DecisionVerifier()
        for seed in range(8):
            batch = make_batch(48, seed=seed)
            verifier.update(batch, measured(batch, noise=noise), make_context())
            verifier.score(batch, make_context())
        probs = verifier.score(make_batch(300, seed=99), make_context()).degradation_prob
        spread[noise] = float(np.mean(np.minimum(probs, 1 - probs)))
    assert spread[0.0] < spread[20.0]


def test_one_fit_per_round(monkeypatch: pytest.MonkeyPatch) -> None:
    """An update per sketch, and several questions, are one training."""
    import lightgbm

    n_trained, train = [], lightgbm.train
    monkeypatch.setattr(lightgbm, "train", lambda *a, **k: n_trained.append(1) or train(*a, **k))
    verifier = DecisionVerifier()
    batches = [make_batch(40, sketch=s) for s in (0, 1)]
    for n_rounds in (1, 2):
        for batch in batches:
            verifier.update(batch, measured(batch), make_context())
        for batch in batches:
            verifier.score(batch, make_context())
        assert len(n_trained) == n_rounds


def test_unequal_lengths_are_refused_and_change_nothing() -> None:
    verifier, batch = DecisionVerifier(), make_batch(40)
    verifier.update(batch, measured(batch), make_context())
    before = verifier.score(batch, make_context()).scores
    with pytest.raises(ValueError, match="other lengths"):
        verifier.update(batch, measured(batch)[:-1], make_context())
    np.testing.assert_array_equal(verifier.score(batch, make_context()).scores, before)


def test_seed_decides() -> None:
    batch = make_batch(60, sketch=1)
    scores = []
    for seed in (1, 1, 2):
        verifier = DecisionVerifier(seed)
        verifier.update(batch, measured(batch), make_context())
        scores.append(verifier.score(batch, make_context()).scores)
    np.testing.assert_array_equal(scores[0], scores[1])
    assert (scores[0] != scores[2]).any()


def test_deterministic_across_processes(tmp_path: Path) -> None:
    batch, verifier = make_batch(60, sketch=1), DecisionVerifier()
    verifier.update(batch, measured(batch), make_context())
    verifier.save(tmp_path / "model")
    script = (
        "import sys; from pathlib import Path; from prune_engine_lightgbm.verifier import DecisionVerifier;"
        "from prune_engine.testing import make_batch, make_context;"
        "v = DecisionVerifier(); v.load(Path(sys.argv[1]));"
        "print(v.score(make_batch(60, sketch=1), make_context()).scores.tobytes().hex())"
    )
    command = [sys.executable, "-c", script, str(tmp_path / "model")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == verifier.score(batch, make_context()).scores.tobytes().hex()


def saved(tmp_path: Path) -> Path:
    verifier, file = DecisionVerifier(), tmp_path / "model"
    for sketch in (0, 1):
        batch = make_batch(20, sketch=sketch)
        verifier.update(batch, [make_measurement("bad", error=FAILED), *measured(batch)[1:]], make_context())
    verifier.save(file)
    return file


def test_a_loaded_model_goes_on_learning(tmp_path: Path) -> None:
    verifier, twin, batch = DecisionVerifier(), DecisionVerifier(), make_batch(40, sketch=1, seed=3)
    file = saved(tmp_path)
    for each in (verifier, twin):
        each.load(file)
        each.update(batch, measured(batch), make_context())
    np.testing.assert_array_equal(
        verifier.score(batch, make_context()).scores, twin.score(batch, make_context()).scores
    )
    assert rank_correlation(verifier) > 0.3


@pytest.mark.parametrize("share", [0.0, 0.3, 0.9, 0.999])
def test_a_truncated_file_is_refused_and_what_was_learnt_stays(tmp_path: Path, share: float) -> None:
    file, batch, verifier = saved(tmp_path), make_batch(40), DecisionVerifier()
    verifier.update(batch, measured(batch), make_context())
    before = verifier.score(batch, make_context()).scores
    content = file.read_bytes()
    file.write_bytes(content[: int(share * len(content))])
    with pytest.raises(ConfigError, match="not a model of this verifier"):
        verifier.load(file)
    np.testing.assert_array_equal(verifier.score(batch, make_context()).scores, before)


def broken(content: dict[str, object], how: str) -> object:
    (task,) = content["tasks"].values()  # type: ignore[attr-defined]
    name = next(iter(task["blocks"][0]))
    if how == "format":
        content["format"] = "acme/9"
    elif how == "no tasks":
        del content["tasks"]
    elif how == "tasks":
        content["tasks"] = [1]
    elif how == "text":
        task["blocks"][0][name][0] = "three"
    elif how == "lengths":
        task["log_secs"].pop()
    elif how == "ragged":
        task["blocks"][0][name].pop()
    elif how == "nested":
        task["blocks"][0][name] = [[1.0]] * 20
    elif how == "huge":
        task["log_secs"][3] = 10**400
    elif how == "version":
        task["version"] = None
    elif how == "infinite column":
        task["blocks"][0][name][0] = float("inf")
    elif how == "infinite time":
        task["log_secs"][3] = float("-inf")
    elif how == "no error":
        task["errors"] = [float("nan")]
    elif how == "list":
        return [content]
    return content


@pytest.mark.parametrize(
    "how",
    [
        *("format", "no tasks", "tasks", "text", "lengths", "ragged", "nested", "huge", "version", "list"),
        *("infinite column", "infinite time", "no error"),
    ],
)
def test_a_foreign_file_is_refused(tmp_path: Path, how: str) -> None:
    file = saved(tmp_path)
    file.write_text(json.dumps(broken(json.loads(file.read_text()), how)))
    with pytest.raises(ConfigError, match="not a model of this verifier"):
        DecisionVerifier().load(file)


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no-such-file"):
        DecisionVerifier().load(tmp_path / "no-such-file")


def test_columns_say_what_they_are() -> None:
    space = make_space(make_task(shape=(64, 48, 32)))
    batch = make_batch(50, space=space, sketch=1)
    columns = decision_columns(batch)
    i, j = batch.column(0), batch.column(1)
    np.testing.assert_allclose(columns["i.factor1"], np.log2(i[:, 1]))
    np.testing.assert_allclose(columns["i.extent0"], 6.0)  # 64 in all
    np.testing.assert_allclose(columns["j.extent1"], np.log2(j[:, 1] * j[:, 2]))
    np.testing.assert_allclose(columns["volume.3.2"], np.log2(i[:, 2] * j[:, 2]))
    np.testing.assert_array_equal(columns["unroll"], batch.column(3)[:, 0])
    np.testing.assert_array_equal(columns["sketch"], 1.0)
    table = matrix(columns, ["unroll", "absent"], 50)
    assert np.isnan(table[:, 1]).all()
    assert matrix(columns, [], 50).shape == (50, 0)
