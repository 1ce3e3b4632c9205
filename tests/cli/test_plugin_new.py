"""`prune-engine plugins new`: every kind is written whole, works as it is, and overwrites nothing."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from prune_engine.cli.app import make_app
from prune_engine.cli.plugin_check_targets import check_targets
from prune_engine.cli.plugin_new import PluginKind, plugin_files
from prune_engine.errors import ConfigError, OutputError


def new(*arguments: object) -> str:
    done = CliRunner().invoke(make_app(), ["plugins", "new", *map(str, arguments)])
    if done.exception and not isinstance(done.exception, SystemExit):
        raise done.exception
    assert done.exit_code == 0, done.output
    return done.output


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture(scope="module")
def projects(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One project of each kind."""
    folder = tmp_path_factory.mktemp("projects")
    for kind in PluginKind:
        new(f"my-{kind.value}", "--kind", kind.value, "--folder", folder / kind.value)
    return folder


def run_python(projects: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    paths = os.pathsep.join(str(projects / kind.value) for kind in PluginKind)
    return subprocess.run(
        [sys.executable, "-m", *arguments],
        cwd=projects,
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )


def test_tests_of_every_kind_pass(projects: Path) -> None:
    """What is written is a strategy that keeps its contract, with a case of its own."""
    done = run_python(projects, "pytest", "-q", "-p", "no:cacheprovider", "--import-mode=importlib", "-ra", ".")
    assert done.returncode == 0, done.stdout
    assert "skipped" not in done.stdout


def test_every_kind_is_in_good_style(projects: Path) -> None:
    check, format_ = (
        run_python(projects, "ruff", "check", "."),
        run_python(projects, "ruff", "format", "--check", "."),
    )
    assert check.returncode == 0, check.stdout
    assert format_.returncode == 0, format_.stdout


@pytest.mark.parametrize("kind", list(PluginKind), ids=lambda kind: kind.value)
def test_files_of_a_kind(projects: Path, kind: PluginKind) -> None:
    package = f"prune_engine_my_{kind.value}"
    files = plugin_files(f"my-{kind.value}", kind)
    assert set(files) == {
        "pyproject.toml",
        "README.md",
        f"{package}/__init__.py",
        f"{package}/{kind.value}.py",
        f"tests/test_{kind.value}.py",
    }
    for name, text in files.items():
        assert (projects / kind.value / name).read_text(encoding="utf-8") == text
        assert text.endswith("\n"), name
        assert not re.search(r"\{\{|\{%|\{strategy\}", text), f"{name}: a template shows"
    assert f'my-{kind.value} = "{package}"' in files["pyproject.toml"]
    assert "prune-engine>=0.1,<1" in files["pyproject.toml"]


@pytest.mark.parametrize("name", ["hello", "Hello", "prune-engine-hello"])
def test_a_name_has_the_prefix_once(tmp_path: Path, name: str) -> None:
    out = new(name)
    assert "wrote prune-engine-hello, a plugin with a rule:" in out
    assert 'name = "prune-engine-hello"' in (tmp_path / "prune-engine-hello" / "pyproject.toml").read_text()
    assert '"hello.unroll-limit"' in (tmp_path / "prune-engine-hello/prune_engine_hello/rule.py").read_text()


@pytest.mark.parametrize(
    "name",
    ["", "1st", "-x", "x-", "Ünix", "a b", "a/b", "../up", "a--b", "a._b", "prune-engine-", "x" * 41, "a\nb"],
)
def test_bad_names(tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigError, match="cannot be the name of a plugin; got"):
        new("--", name)
    assert not list(tmp_path.iterdir())


def test_a_name_with_a_dot_is_one_name() -> None:
    """TOML takes a bare dot for a table in a table."""
    new("my.plug-in")
    (target,) = check_targets("prune-engine-my.plug-in")
    assert (target.name, target.entry) == ("my.plug-in", "prune_engine_my_plug_in")


class TestTakenNames:
    def test_of_an_installed_plugin(self, tmp_path: Path) -> None:
        with pytest.raises(ConfigError, match="'rules': is taken: a plugin of prune-engine has it"):
            new("rules")
        assert not list(tmp_path.iterdir())

    def test_of_an_installed_distribution(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        info = tmp_path / "site" / "prune_engine_taken-1.0.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: prune-engine-taken\nVersion: 1.0\n")
        monkeypatch.syspath_prepend(str(tmp_path / "site"))
        with pytest.raises(ConfigError, match="the distribution prune-engine-taken is installed"):
            new("taken")

    def test_of_a_module(self) -> None:
        with pytest.raises(ConfigError, match="a module prune_engine_hardware_profiles can be imported"):
            new("hardware-profiles")


class TestFolders:
    @pytest.mark.parametrize("what", ["empty folder", "file", "dangling link"])
    def test_nothing_is_overwritten(self, tmp_path: Path, what: str) -> None:
        place = tmp_path / "there"
        if what == "empty folder":
            place.mkdir()
        elif what == "file":
            place.write_text("mine")
        else:
            place.symlink_to(tmp_path / "nowhere")
        with pytest.raises(ConfigError, match="is there already, and nothing is overwritten"):
            new("hello", "--folder", place)
        assert what != "file" or place.read_text() == "mine"
        assert [path.name for path in tmp_path.iterdir()] == ["there"]

    def test_folders_above_are_made(self, tmp_path: Path) -> None:
        new("hello", "--folder", tmp_path / "a" / "b")
        assert [path.name for path in (tmp_path / "a").iterdir()] == ["b"]

    def test_where_nothing_can_be_written(self, tmp_path: Path) -> None:
        (tmp_path / "file").write_text("mine")
        with pytest.raises(OutputError, match="cannot be written; got"):
            new("hello", "--folder", tmp_path / "file" / "hello")

    def test_all_of_it_or_nothing(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """A disk that is full half way leaves no half of a project."""
        write = Path.write_text

        def full(path: Path, *arguments: object, **named: object) -> int:
            if path.name.startswith("test_"):
                raise OSError(28, "No space left on device")
            return write(path, *arguments, **named)  # type: ignore[arg-type]

        monkeypatch.setattr(Path, "write_text", full)
        with pytest.raises(OutputError, match="No space left on device"):
            new("hello")
        assert not list(tmp_path.iterdir())
