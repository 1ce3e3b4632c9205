"""Fixtures that several parts of the suite share."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from prune_engine.config import EngineConfig
from prune_engine.engine import Engine
from prune_engine.hardware.schema import HardwareProfile
from prune_engine.lifecycle import RunResult
from prune_engine.plugins import PluginHost
from prune_engine.store.base import Store
from prune_engine.store.sql import SqlStore
from prune_engine.task import TuningTask
from prune_engine.testing import FakeWorkbench, make_profile

#: Where `kits` lives: what tests of one subject share (importlib mode puts no folder of tests on the path).
sys.path.append(str(Path(__file__).parent))

#: Below pytest's folder of a run: what its processes share.
_FRESH = "fresh"


@pytest.fixture(scope="session")
def tvm() -> Any:
    """tvm, imported once per session: it takes one to three seconds, and the intrinsics half a second more."""
    from prune_engine.metaschedule._compat import import_tvm

    return import_tvm()


@pytest.fixture(scope="session")
def wheelhouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the wheel of this tree, built once for all processes of a run."""
    from kits import venvs

    base = tmp_path_factory.getbasetemp()
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    return venvs.once(shared / _FRESH / "wheels", venvs.build_distributions)


@pytest.fixture(scope="session")
def tuned_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `kits.tuned` makes, once for all processes of a run; who writes below it copies it first."""
    from kits import tuned, venvs

    base = tmp_path_factory.getbasetemp()
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    is_full = os.environ.get("PRUNE_ENGINE_FULL") == "1"
    return venvs.once(shared / _FRESH / "tuned", partial(tuned.tuned_folder, is_full=is_full))


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Remove the environment that others were copied from: pytest keeps three runs' folders, and it is large."""
    factory = getattr(session.config, "_tmp_path_factory", None)
    if factory is not None and "PYTEST_XDIST_WORKER" not in os.environ:
        shutil.rmtree(factory.getbasetemp() / _FRESH, ignore_errors=True)


@pytest.fixture(scope="session")
def fresh_venv(wheelhouse: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[], Path]]:
    """Make an environment of its own with that wheel, where a test may install what it wants: ``fresh_venv()``."""
    from kits import venvs

    (wheel,) = wheelhouse.glob("*.whl")
    model = venvs.once(wheelhouse.parent / "venv", lambda folder: venvs.make_venv(folder, wheel))
    made: list[Path] = []

    def make() -> Path:
        made.append(venvs.copy_venv(model, tmp_path_factory.mktemp("fresh") / "venv"))
        return made[-1]

    yield make
    for venv in made:
        shutil.rmtree(venv)


@pytest.fixture
def guide_venv(fresh_venv: Callable[[], Path]) -> Path:
    """A fresh environment with prune-engine for one test, as a reader of a guide has it."""
    return fresh_venv()


@pytest.fixture
def profile() -> HardwareProfile:
    return make_profile()


@pytest.fixture
def store() -> Iterator[Store]:
    store = SqlStore("sqlite://")
    yield store
    store.close()


_PLAIN: dict[str, Any] = {
    "explorer": "explore.uniform",
    "draft_scorer": None,
    "verifier": None,
    "selector": "select.epsilon-greedy",
    "first_trials": 0,
    "harvest": False,
}


class EngineRun:
    """One run of the engine on a fake workbench, and what it left behind."""

    def __init__(self, result: RunResult, host: PluginHost, workbench: FakeWorkbench) -> None:
        self.result, self.host, self.workbench = result, host, workbench

    @property
    def failures(self) -> dict[str, str]:
        """Plugins recorded as failed, with the reason."""
        return {r.name: r.detail for r in self.host.records if r.status.value == "failed"}

    @property
    def asked(self) -> list[str]:
        """Candidates measured, defaults left out, in order."""
        return [candidate for _, candidate in self.workbench.asked if candidate != "default"]

    @property
    def n_repeats(self) -> int:
        """How often something was measured that this workbench had measured before."""
        return sum(n - 1 for n in self.workbench.asked.values())


@pytest.fixture
def run_engine(store: Store, profile: HardwareProfile) -> Callable[..., EngineRun]:
    """Run the engine on tasks: ``run_engine(tasks, plugins={"name": plugin}, n_trials=32, ...)``.

    Without LightGBM unless ``verifier`` is given: it is slow to import, and few tests need it. Batches have one
    size from the start, nothing is drafted, the explorer draws and the library stays as it is, unless the options
    say otherwise.
    """

    def run(
        tasks: Sequence[TuningTask],
        workbench: FakeWorkbench | None = None,
        *,
        plugins: dict[str, object] | None = None,
        into: Store | None = None,
        should_stop: Callable[[], bool] = lambda: False,
        clock: Callable[[], float] | None = None,
        model_name: str = "",
        **options: Any,
    ) -> EngineRun:
        config = EngineConfig.of(**{**_PLAIN, **options})
        host = PluginHost(config)
        host.load()
        for name, plugin in (plugins or {}).items():
            host.register(plugin, name)
        workbench = workbench or FakeWorkbench()
        timing = {"clock": clock} if clock else {}
        named: dict[str, Any] = {"should_stop": should_stop, "model_name": model_name, **timing}
        engine = Engine(config, workbench, into or store, profile, host=host, **named)
        return EngineRun(engine.run(tasks), host, workbench)

    return run
