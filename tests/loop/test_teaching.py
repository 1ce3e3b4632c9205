"""What a run's verifier learnt is written to a file from which another run starts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from kits.engine import small_space

from prune_engine.candidates import CandidateBatch
from prune_engine.config import EngineConfig
from prune_engine.engine import Engine
from prune_engine.errors import ConfigError
from prune_engine.hookspecs import hookimpl
from prune_engine.plugins import PluginHost
from prune_engine.store.base import Store
from prune_engine.strategies import Verifier
from prune_engine.testing import FakeWorkbench, make_profile, make_task
from prune_engine.verdicts import VerifyScores

OPTIONS: dict[str, Any] = {"n_trials": 40, "explorer": "explore.uniform", "draft_scorer": None, "transfer": False}


class Own(Verifier):
    name = "acme.own"
    takes_prior = True

    def __init__(self, save: Callable[[Path], object] = Path.touch) -> None:
        self._save = save

    def score(self, batch: CandidateBatch, context: object) -> VerifyScores:
        return VerifyScores(np.ones(len(batch)), np.zeros(len(batch)), "1", is_trained=False)

    def update(self, batch: object, measurements: object, context: object) -> None: ...

    def save(self, path: Path) -> None:
        self._save(path)

    def load(self, path: object) -> None: ...


def engine_of(store: Store, own: Verifier | None = None, **options: Any) -> tuple[Engine, PluginHost]:
    class Plugin:
        @hookimpl
        def register_verifiers(self) -> list[Verifier]:
            return [own] if own else []

    config = EngineConfig.of(**{**OPTIONS, "verifier": own.name if own else None, **options})
    host = PluginHost(config)
    host.load()
    host.register(Plugin(), "acme")
    workbench = FakeWorkbench(spaces={make_task(name).task_id: small_space(make_task(name), 400) for name in "ab"})
    return Engine(config, workbench, store, make_profile(), host=host), host


def test_another_run_starts_from_what_a_run_learnt(store: Store, tmp_path: Path) -> None:
    file = tmp_path / "model"
    engine, _ = engine_of(store, verifier="lightgbm.residual", prior="none")
    assert not engine.save_verifier(file), "it has learnt nothing"
    engine.run([make_task("a")])
    assert engine.save_verifier(file)
    for prior in ("none", str(file)):
        other, _ = engine_of(store, verifier="lightgbm.residual", prior=prior, n_trials=8)
        other.run([make_task("b")])
        trail = [v for v in store.verdicts(make_task("b").task_id) if "score" in v.evidence]
        assert bool(trail) == (prior != "none"), "only with a prior something is known before the first measurement"
        store = type(store)("sqlite://")


def test_what_the_store_held_is_learnt_and_saved_too(store: Store, tmp_path: Path) -> None:
    engine_of(store, Own())[0].run([make_task("a")])
    again, _ = engine_of(store, Own())
    again.run([make_task("a")])
    assert again.save_verifier(tmp_path / "model")


@pytest.mark.parametrize("verifier", [None, "lightgbm.decisions"])
def test_a_verifier_that_takes_no_prior_leaves_no_file(store: Store, tmp_path: Path, verifier: str | None) -> None:
    engine, _ = engine_of(store, verifier=verifier)
    engine.run([make_task("a")])
    assert not engine.save_verifier(tmp_path / "model")
    assert not list(tmp_path.iterdir())


def failing(_: Path) -> None:
    raise ValueError("planted")


def test_a_verifier_that_cannot_save_is_named(store: Store, tmp_path: Path) -> None:
    engine, host = engine_of(store, Own(failing))
    engine.run([make_task("a")])
    assert not engine.save_verifier(tmp_path / "model")
    (record,) = [r for r in host.failed if r.name == "acme"]
    assert "planted" in record.detail
    nothing, _ = engine_of(store, Own(lambda path: None))
    nothing.run([make_task("a")])
    assert not nothing.save_verifier(tmp_path / "model"), "it wrote nothing"


def test_a_full_disk_is_no_fault_of_the_plugin(store: Store, tmp_path: Path) -> None:
    engine, host = engine_of(store, Own())
    engine.run([make_task("a")])
    with pytest.raises(OSError, match="no-such-folder"):
        engine.save_verifier(tmp_path / "no-such-folder" / "model")
    assert not [r for r in host.failed if r.name == "acme"]


def test_a_file_that_teaches_too_little_is_refused(store: Store, tmp_path: Path) -> None:
    file = tmp_path / "model"
    engine, _ = engine_of(store, verifier="lightgbm.residual", prior="none", n_trials=8)
    engine.run([make_task("a")])
    assert engine.save_verifier(file)
    other, _ = engine_of(store, verifier="lightgbm.residual", prior=str(file))
    with pytest.raises(ConfigError, match="this prior teaches nothing here; got too few measurements"):
        other.run([make_task("b")])
