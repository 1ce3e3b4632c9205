"""Model files and priors: what is refused, what is adapted, what a source is worth."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from prune_engine_lightgbm import files, learner, priors
from prune_engine_lightgbm.columns import columns_of
from prune_engine_lightgbm.device import device_of
from prune_engine_lightgbm.priors import find_prior
from prune_engine_lightgbm.residual import ResidualVerifier
from prune_engine_lightgbm.rows import Block, Labels
from prune_engine_lightgbm.source import Source

from prune_engine.candidates import CandidateBatch
from prune_engine.errors import ConfigError
from prune_engine.hardware.schema import DeviceKind, HardwareProfile
from prune_engine.measurement import MeasureErrorKind, Measurement
from prune_engine.strategies import DraftScorer
from prune_engine.symbols.table import SYMBOLS_VERSION
from prune_engine.testing import FakeWorkbench, make_batch, make_context, make_measurement, make_profile
from prune_engine.verdicts import DraftScores

CONTEXT = make_context()
HERE = make_context(make_profile(name="acme-new"))


def truth(batch: CandidateBatch) -> np.ndarray:
    return FakeWorkbench().true_latency_secs(batch)


def measured(batch: CandidateBatch) -> list[Measurement]:
    return [make_measurement(f"c{i}", float(s)) for i, s in enumerate(truth(batch))]


def saved(tmp_path: Path, n: int = 40) -> Path:
    verifier, file = ResidualVerifier(), tmp_path / "model"
    for sketch in (0, 1):
        batch = make_batch(n, sketch=sketch)
        failed = make_measurement("bad", error=MeasureErrorKind.CRASH)
        verifier.update(batch, [failed, *measured(batch)[1:]], CONTEXT)
    verifier.save(file)
    return file


def rewritten(file: Path, change: Callable[[dict[str, Any], dict[str, Any]], object]) -> None:
    with np.load(file) as archive:
        arrays = dict(archive)
    header = json.loads(arrays["header"].tobytes())
    change(header, arrays)
    arrays["header"] = np.frombuffer(json.dumps(header).encode(), dtype=np.uint8)
    with file.open("wb") as out:
        np.savez(out, **arrays)


def correlation(scores: np.ndarray, secs: np.ndarray) -> float:
    return learner.rank_correlation(scores, -secs)


def test_a_loaded_model_goes_on_learning_and_is_drafted_anew(tmp_path: Path) -> None:
    file, batch = saved(tmp_path), make_batch(40, sketch=1, seed=3)
    verifier, twin = ResidualVerifier(), ResidualVerifier()
    for each in (verifier, twin):
        each.load(file)
        each.update(batch, measured(batch), CONTEXT)
    np.testing.assert_array_equal(verifier.score(batch, CONTEXT).scores, twin.score(batch, CONTEXT).scores)
    unseen = make_batch(300, sketch=1, seed=9)
    assert correlation(verifier.score(unseen, CONTEXT).scores, truth(unseen)) > 0.4


def test_symbols_of_another_version_are_refused_with_what_to_do(tmp_path: Path) -> None:
    file = saved(tmp_path)
    rewritten(file, lambda header, _: header.update(symbols_version=SYMBOLS_VERSION + 1))
    with pytest.raises(ConfigError, match=f"symbols version {SYMBOLS_VERSION + 1}.*--prior none") as caught:
        ResidualVerifier().load(file)
    assert "Train afresh" in str(caught.value)


@pytest.mark.parametrize("share", [0.0, 0.3, 0.9, 0.999])
def test_a_truncated_file_is_refused_and_what_was_learnt_stays(tmp_path: Path, share: float) -> None:
    file, batch, verifier = saved(tmp_path), make_batch(40), ResidualVerifier()
    verifier.update(batch, measured(batch), CONTEXT)
    before = verifier.score(batch, CONTEXT).scores
    content = file.read_bytes()
    file.write_bytes(content[: int(share * len(content))])
    with pytest.raises(ConfigError, match="not a model of this verifier"):
        verifier.load(file)
    np.testing.assert_array_equal(verifier.score(batch, CONTEXT).scores, before)


BREAKS: dict[str, Callable[[dict[str, Any], dict[str, Any]], object]] = {
    "format": lambda header, _: header.update(format="acme/9"),
    "no tasks": lambda header, _: header.pop("tasks"),
    "tasks": lambda header, _: header.update(tasks=3),
    "device": lambda header, _: header["device"].pop("cores"),
    "ragged": lambda _, arrays: arrays.update(columns0=arrays["columns0"][:, 1:]),
    "dtype": lambda _, arrays: arrays.update(columns0=arrays["columns0"].astype(np.float64)),
    "labels": lambda _, arrays: arrays.update(labels0=arrays["labels0"][:, 1:]),
    "infinite": lambda _, arrays: arrays["labels0"].__setitem__((0, 1), np.inf),
    "infinite column": lambda _, arrays: arrays["columns0"].__setitem__((2, 1), -np.inf),
    "a gap in a column": lambda _, arrays: arrays["columns0"].__setitem__((2, 1), np.nan),
    "all NaN": lambda _, arrays: arrays["columns0"].fill(np.nan),
    "no time": lambda _, arrays: arrays["labels0"].__setitem__((0, 1), 1e300),
    "no mark": lambda _, arrays: arrays["labels0"].__setitem__((1, 1), np.nan),
    "infinite device": lambda header, _: header["device"].update(cores=float("inf")),
    "negative device": lambda header, _: header["device"].update(cores=-1.0),
    "device of texts": lambda header, _: header["device"].update(cores="many"),
    "nameless device": lambda header, _: header["device"].update(kind=3),
    "missing": lambda _, arrays: arrays.pop("indices0"),
    "objects": lambda _, arrays: arrays.update(indices0=np.array([{}], dtype=object)),
}


@pytest.mark.parametrize("how", BREAKS)
def test_a_foreign_file_is_refused(tmp_path: Path, how: str) -> None:
    file = saved(tmp_path)
    rewritten(file, BREAKS[how])
    with pytest.raises(ConfigError, match="not a model of this verifier"):
        ResidualVerifier().load(file)


@pytest.mark.parametrize("how", ["infinite", "infinite column", "all NaN"])
def test_a_prior_of_no_numbers_is_refused_with_its_name(tmp_path: Path, how: str) -> None:
    file = saved(tmp_path)
    rewritten(file, BREAKS[how])
    with pytest.raises(
        ConfigError, match=f"^{file}: not a model of this verifier.*train afresh \\(--prior none\\)"
    ):
        ResidualVerifier(prior=str(file)).score(make_batch(0), CONTEXT)


def test_a_file_in_which_all_failed_teaches_nothing(tmp_path: Path) -> None:
    file = saved(tmp_path)
    rewritten(file, lambda _, arrays: [arrays[f"labels{n}"][0].fill(np.nan) for n in (0, 3)])
    ResidualVerifier().load(file)
    with pytest.raises(ConfigError, match="teaches nothing here"):
        find_prior(str(file), device_of(CONTEXT.profile), 0)


def test_nobody_is_told_to_load_a_foreign_file_as_code(tmp_path: Path) -> None:
    file = tmp_path / "model.npz"
    file.write_text("# a page of text\n" * 20)
    with pytest.raises(ConfigError, match="it is no archive of numbers") as caught:
        ResidualVerifier().load(file)
    assert "pickle" not in str(caught.value)


def test_a_missing_prior_is_refused_when_a_task_is_met(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no-such-file"):
        ResidualVerifier(prior=str(tmp_path / "no-such-file")).score(make_batch(3), CONTEXT)


def test_a_prior_that_teaches_nothing_is_refused(tmp_path: Path) -> None:
    file = saved(tmp_path, n=4)
    with pytest.raises(ConfigError, match="teaches nothing here"):
        find_prior(str(file), device_of(CONTEXT.profile), 0)


def test_a_prior_of_another_kind_of_device_is_refused(tmp_path: Path) -> None:
    gpu = make_context(make_profile(DeviceKind.GPU))
    with pytest.raises(ConfigError, match="expected measurements on a gpu"):
        ResidualVerifier(prior=str(saved(tmp_path))).score(make_batch(3), gpu)


def test_a_model_is_not_asked_about_another_device(tmp_path: Path) -> None:
    verifier = ResidualVerifier()
    verifier.load(saved(tmp_path))
    with pytest.raises(ConfigError, match="Give the file as --prior"):
        verifier.score(make_batch(3), HERE)


def test_a_prior_ranks_before_the_first_measurement(tmp_path: Path) -> None:
    verifier, unseen = ResidualVerifier(prior=str(saved(tmp_path, 200))), make_batch(300, sketch=1, seed=9)
    scores = verifier.score(unseen, HERE)
    assert scores.is_trained
    assert not scores.degradation_prob.any()
    assert correlation(scores.scores, truth(unseen)) > 0.6
    assert not ResidualVerifier().score(unseen, HERE).is_trained


def test_a_draft_that_cannot_tell_leaves_all_to_the_prior(tmp_path: Path) -> None:
    """Equal scores without a latency, as a draft gives sketches that it cannot read."""

    class Silent(DraftScorer):
        name = "testing.silent"

        def score(self, batch: CandidateBatch, profile: HardwareProfile) -> DraftScores:
            return DraftScores(np.ones(len(batch)))

    file, unseen = str(saved(tmp_path, 200)), make_batch(50, sketch=1, seed=9)
    silent = make_context(make_profile(name="acme-new"), Silent())
    scores = [ResidualVerifier(prior=file).score(unseen, context).scores for context in (HERE, silent)]
    np.testing.assert_allclose(scores[0], scores[1])


def test_a_prior_is_worth_samples(tmp_path: Path) -> None:
    unseen, batch = make_batch(300, sketch=1, seed=9), make_batch(12, sketch=1, seed=4)
    found = []
    for prior in ("none", str(saved(tmp_path, 200))):
        verifier = ResidualVerifier(prior=prior)
        verifier.update(batch, measured(batch), HERE)
        found.append(correlation(verifier.score(unseen, HERE).scores, truth(unseen)))
    assert found[1] > found[0] + 0.1


def test_a_prior_that_misleads_is_left_when_a_round_shows_it(tmp_path: Path) -> None:
    """The shadow without a source foresees the second round better, and is believed from then on."""
    liar, file = ResidualVerifier(), tmp_path / "liar"
    batch = make_batch(200, sketch=1, seed=1)
    liar.update(batch, [make_measurement(f"c{i}", float(1e-6 / s)) for i, s in enumerate(truth(batch))], CONTEXT)
    liar.save(file)
    verifier, unseen = ResidualVerifier(prior=str(file)), make_batch(300, sketch=1, seed=9)
    assert correlation(verifier.score(unseen, HERE).scores, truth(unseen)) < -0.3
    for seed in (5, 6):
        batch = make_batch(60, sketch=1, seed=seed)
        verifier.update(batch, measured(batch), HERE)
        verifier.score(batch, HERE)
    alone = ResidualVerifier()
    for seed in (5, 6):
        batch = make_batch(60, sketch=1, seed=seed)
        alone.update(batch, measured(batch), HERE)
    np.testing.assert_allclose(verifier.score(unseen, HERE).scores, alone.score(unseen, HERE).scores)


def test_momentum_moves_the_source_and_leaves_the_original_alone(tmp_path: Path) -> None:
    source = find_prior(str(saved(tmp_path, 200)), device_of(HERE.profile), 0)
    assert isinstance(source, Source)
    batch = make_batch(64, sketch=1, seed=4)
    columns = columns_of(batch, device_of(HERE.profile))
    before = source.says(columns, 64)
    rows = learner.TaskRows()
    wanted = np.where(columns["decision.unroll"] >= 64, 6.0, 0.0)
    rows.add(Block(1, "x", batch.indices, columns, Labels(wanted, np.zeros(64, dtype=bool))))
    moved = source.adapted(rows, wanted).says(columns, 64)
    np.testing.assert_array_equal(source.says(columns, 64), before)
    slow = wanted > 0
    assert (moved - before)[slow].mean() > (moved - before)[~slow].mean() + 0.5


def test_a_source_says_nothing_of_other_columns(tmp_path: Path) -> None:
    source = find_prior(str(saved(tmp_path, 100)), device_of(HERE.profile), 0)
    assert isinstance(source, Source)
    assert np.isnan(source.says({"acme": np.zeros(3, dtype=np.float32)}, 3)).all()


def test_builtin_priors_go_by_kind_and_vendor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / priors._FOLDER
    folder.mkdir()
    saved(tmp_path, 100).rename(folder / "cpu-acme.npz")
    monkeypatch.setattr(priors.resources, "files", lambda package: tmp_path)
    assert find_prior("builtin", device_of(make_profile(name="acme-new")), 0) is not None
    assert find_prior("builtin", device_of(make_profile(name="other-new")), 0) is None
    assert find_prior("builtin", device_of(make_profile(DeviceKind.GPU, name="acme-new")), 0) is None
    assert find_prior("none", device_of(make_profile(name="acme-new")), 0) is None


def test_the_priors_that_ship_can_be_read_and_are_small() -> None:
    folder = Path(priors.__file__).parent / priors._FOLDER
    shipped = sorted(folder.iterdir())
    assert shipped
    for path in shipped:
        content = files.read_model(path)
        assert content.device is not None
        assert path.name == f"{content.device.kind}-{content.device.vendor}.npz"
        assert path.stat().st_size < 500_000
