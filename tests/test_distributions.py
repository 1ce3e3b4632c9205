"""What is shipped: all of the packages and their data, types included, and no tests."""

from __future__ import annotations

import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from kits import venvs

ROOT = Path(__file__).parent.parent
#: Folders of the tree by where they are in a wheel.
PACKAGES = {"prune_engine": "prune_engine", "hardware_profiles": "prune_engine_hardware_profiles"} | {
    f"plugins/{folder.name}": folder.name for folder in sorted((ROOT / "plugins").iterdir()) if folder.is_dir()
}
#: What builds the wheel may have to be downloaded.
pytestmark = pytest.mark.timeout(900)
_LEFTOVERS = ("__pycache__", ".egg-info", ".mypy_cache", ".ruff_cache")


def files_of(folder: str) -> Iterator[str]:
    for path in sorted((ROOT / folder).rglob("*")):
        if path.is_file() and not any(word in str(path) for word in _LEFTOVERS):
            yield path.relative_to(ROOT / folder).as_posix()


@pytest.fixture(scope="module")
def wheel(wheelhouse: Path) -> set[str]:
    (path,) = wheelhouse.glob("*.whl")
    return set(zipfile.ZipFile(path).namelist())


@pytest.fixture(scope="module")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    (path,) = venvs.build_distributions(tmp_path_factory.mktemp("sdist") / "dist", kind="--sdist")
    with tarfile.open(path) as archive:
        return {name.partition("/")[2] for name in archive.getnames()}


@pytest.mark.parametrize("folder", PACKAGES)
def test_wheel_has_every_file_of_a_package(folder: str, wheel: set[str]) -> None:
    missing = [name for name in files_of(folder) if f"{PACKAGES[folder]}/{name}" not in wheel]
    assert not missing, "add it to `packages` or `package-data` in pyproject.toml"


@pytest.mark.parametrize("folder", PACKAGES)
def test_sdist_has_every_file_of_a_package(folder: str, sdist: set[str]) -> None:
    assert not [name for name in files_of(folder) if f"{folder}/{name}" not in sdist]


def test_wheel_says_that_it_is_typed(wheel: set[str]) -> None:
    assert "prune_engine/py.typed" in wheel


def test_wheel_has_nothing_else(wheel: set[str]) -> None:
    """Neither tests, which would be importable as `tests` beside those of other packages, nor documentation."""
    tops = {name.partition("/")[0] for name in wheel}
    assert {top for top in tops if not top.endswith(".dist-info")} == set(PACKAGES.values())


def test_sdist_has_no_tests(sdist: set[str]) -> None:
    tops = {name.partition("/")[0] for name in sdist if name}
    wanted = {"prune_engine", "plugins", "hardware_profiles", "pyproject.toml", "README.md", "LICENSE"}
    assert wanted <= tops
    made = {"PKG-INFO", "setup.cfg", "MANIFEST.in"} | {top for top in tops if top.endswith(".egg-info")}
    assert tops - wanted - made == set()
