"""The library that is shipped: found by its plugin, installed with it, of the classes that kernels have today."""

from __future__ import annotations

import fnmatch
from dataclasses import replace
from pathlib import Path

import prune_engine_transfer
import pytest
from prune_engine_transfer import SHIPPED

from prune_engine.config import EngineConfig
from prune_engine.errors import ConfigError, ModelImportError
from prune_engine.library import KernelClass, LibraryEntry, LibraryQuery, Origin
from prune_engine.library.files import read_library, write_library
from prune_engine.metaschedule.targets import resolve_target
from prune_engine.metaschedule.workloads.loading import load_tasks
from prune_engine.plugins import PluginHost
from prune_engine.strategies import Library
from prune_engine.testing.store_samples import store_entry

#: Kernels whose classes are compared.
_N_COMPARED = 3


def shipped() -> list[Library]:
    config = EngineConfig()
    host = PluginHost(config)
    host.register(prune_engine_transfer, "transfer")
    return [library for _, library in host.collect("register_libraries", config=config)]


def test_the_plugin_brings_its_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    entry = store_entry()
    write_library(tmp_path / "library.jsonl.gz", [entry])
    monkeypatch.setattr(prune_engine_transfer, "SHIPPED", tmp_path / "library.jsonl.gz")
    (library,) = shipped()
    assert library.find(LibraryQuery(strict="strict-1")) == [replace(entry, origin=Origin.BUILTIN)]
    monkeypatch.setattr(prune_engine_transfer, "SHIPPED", tmp_path / "none")
    assert shipped() == []


def test_the_file_is_installed_with_the_plugin() -> None:
    tomllib = pytest.importorskip("tomllib", reason="part of Python since 3.11")
    pyproject = Path(__file__).parents[2] / "pyproject.toml"
    patterns = tomllib.loads(pyproject.read_text())["tool"]["setuptools"]["package-data"]["prune_engine_transfer"]
    assert any(fnmatch.fnmatch(SHIPPED.name, pattern) for pattern in patterns)


@pytest.fixture(scope="module")
def entries() -> tuple[LibraryEntry, ...]:
    if not SHIPPED.is_file():
        pytest.skip("no library is shipped")
    contents = read_library(SHIPPED, Origin.BUILTIN)
    assert contents.remarks == ()
    assert contents.provenance
    return contents.entries


def test_every_entry_gained_something(entries: tuple[LibraryEntry, ...]) -> None:
    assert all(entry.speedup is not None and entry.speedup > 1 for entry in entries)
    assert all("EnterPostproc" not in entry.trace_json and entry.choices for entry in entries)


def test_classes_are_those_that_kernels_have_today(entries: tuple[LibraryEntry, ...]) -> None:
    """A change of what a class is must come with a library of the new classes: this one would never match."""
    compared, target = 0, resolve_target("native", 1)
    for model in dict.fromkeys(entry.model for entry in entries):
        try:
            tasks = load_tasks(model, target)
        except (ConfigError, ModelImportError):
            continue  # a real model, not a workload by name
        classes = {_known_by(task.kernel_class) for task in tasks if task.kernel_class is not None}
        assert {_known_by(entry.kernel_class) for entry in entries if entry.model == model} <= classes
        compared += 1
        if compared == _N_COMPARED:
            break
    assert compared


def _known_by(kernel_class: KernelClass) -> tuple[object, ...]:
    """What entries are found by: labels are for people."""
    return kernel_class.strict, kernel_class.anchor, kernel_class.axes
