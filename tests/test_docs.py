"""The documentation is true: code blocks run, commands parse, hooks and exit codes are those of the code."""

from __future__ import annotations

import inspect
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import typer.main

from prune_engine import errors, hookspecs
from prune_engine.cli.app import make_app
from prune_engine.display import style
from prune_engine.hardware.loader import parse_profile
from prune_engine.hardware.packs import ENTRY_POINT_GROUP as PACKS
from prune_engine.plugin_host.loading import ENTRY_POINT_GROUP as PLUGINS

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)


#: Pages of the site that are written from the code.
GENERATED = re.compile(r"reference/(hooks|cli|api/\w+)\.md$")


def blocks(language: str, *, in_guides: bool = False) -> list[tuple[str, str]]:
    """Blocks by place. Those of guides are followed in tests/guides, files that they write with them."""
    return [
        (f"{page.relative_to(ROOT)}:{number}", body)
        for page in PAGES
        if in_guides or page.parent.name != "guides"
        for number, (kind, body) in enumerate(BLOCK.findall(page.read_text(encoding="utf-8")))
        if kind == language
    ]


@pytest.fixture(scope="session")
def folder_with_a_tuned_model(tmp_path_factory: pytest.TempPathFactory, tuned_folder: Path) -> Path:
    """A folder in which `prune-engine tune model.onnx` has been run, as the pages assume."""
    return Path(shutil.copytree(tuned_folder, tmp_path_factory.mktemp("docs") / "folder"))


def code_to_run() -> list[tuple[str, str]]:
    """What no guide has word for word: those blocks are run with the guide, which knows what to shorten."""
    followed = {body for _, body in set(blocks("python", in_guides=True)) - set(blocks("python"))}
    return [(place, body) for place, body in blocks("python") if body not in followed]


#: Before blocks with a TuneContext, unless a long run is asked for: stock TVM parses the intrinsics of every target
#: for it, up to 20 s.
_PREPARED = """\
from prune_engine.metaschedule._compat import import_tvm, load_intrinsics
import_tvm()
load_intrinsics("cuda")
"""


@pytest.mark.parametrize(("place", "code"), code_to_run())
def test_python_block_runs(place: str, code: str, folder_with_a_tuned_model: Path) -> None:
    is_prepared = "TuneContext" in code and os.environ.get("PRUNE_ENGINE_FULL") != "1"
    done = subprocess.run(
        [sys.executable, "-c", f"{_PREPARED if is_prepared else ''}{code}"],
        cwd=folder_with_a_tuned_model,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, f"{place}: {done.stderr}"


def commands() -> list[tuple[str, list[str]]]:
    found = []
    for place, body in blocks("bash", in_guides=True):
        for line in body.splitlines():
            words = shlex.split(line, comments=True)
            if words[:1] == ["prune-engine"]:
                found.append((f"{place} {line.strip()}", words[1:]))
    return found


@pytest.mark.parametrize(("place", "words"), commands())
def test_command_parses(place: str, words: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Every verb and option in the documentation exists and takes what is written there."""
    monkeypatch.setattr(style, "set_style", lambda *_, **__: None)
    command, name, rest = typer.main.get_command(make_app()), "prune-engine", style.take_style(words)
    while commands := getattr(command, "commands", None):
        options = {option: parameter for parameter in command.params for option in parameter.opts}
        while rest and rest[0].startswith("-"):  # not parsed: some would change the reader's shell
            assert rest[0] in options, place
            rest = rest[1 if getattr(options[rest[0]], "is_flag", False) else 2 :]
        if not rest:
            return
        name, *rest = rest
        command = commands.get(name)
        assert command is not None, place
    command.make_context(name, rest)


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    prose = re.sub(r"^(`{3,}).*?^\1$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    for link in re.findall(r"\]\(([^)#]+?)\)", prose):
        if not link.startswith("http") and not GENERATED.search(link):
            assert (page.parent / link).exists(), f"{page.name} links to {link}"


def test_every_hook_is_documented_with_its_arguments() -> None:
    text = (ROOT / "docs" / "plugins.md").read_text(encoding="utf-8")
    for name, hook in vars(hookspecs).items():
        if hasattr(hook, f"{hookspecs.PROJECT}_spec"):
            signature = f"`{name}({', '.join(inspect.signature(hook).parameters)})`"
            assert signature in text, f"docs/plugins.md lacks {signature}"


@pytest.mark.parametrize(("place", "text"), blocks("json"))
def test_json_is_json(place: str, text: str) -> None:
    assert json.loads(text), place


@pytest.mark.parametrize(("place", "text"), blocks("yaml"))
def test_yaml_is_a_profile(place: str, text: str) -> None:
    assert parse_profile(text, place).name


@pytest.mark.parametrize(("place", "text"), blocks("toml"))
def test_toml_is_configuration_of_a_package(place: str, text: str) -> None:
    configuration = pytest.importorskip("tomllib").loads(text)
    assert set(configuration) <= {"project", "build-system", "tool"}, place
    assert set(configuration["project"]["entry-points"]) <= {PLUGINS, PACKS}, place


def test_every_exit_code_is_documented() -> None:
    text = (ROOT / "docs" / "quickstart.md").read_text(encoding="utf-8")
    documented = {int(code) for code in re.findall(r"^\| (\d+) \|", text, re.MULTILINE)}
    codes = {
        error.exit_code
        for error in vars(errors).values()
        if isinstance(error, type) and issubclass(error, errors.PruneEngineError)
    }
    assert documented == codes | {0}


def test_the_first_pages_show_the_python_that_the_guide_begins_with() -> None:
    first = dict(blocks("python", in_guides=True))["docs/guides/python.md:0"]
    shown = {place.partition(":")[0] for place, body in blocks("python") if body == first}
    assert shown == {"README.md", "docs/index.md"}


def test_gains_on_the_home_page_are_those_that_were_measured() -> None:
    home = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    claimed = re.search(r"(\w+) real models \[(\d+) to (\d+) times faster\]", home)
    assert claimed is not None
    models = (ROOT / "docs" / "benchmarks" / "models.md").read_text(encoding="utf-8")
    gains = [float(gain) for gain in re.findall(r"\| (\d+\.\d+)x \|", models)]
    assert {"three": 3}[claimed[1]] == len(gains)
    assert float(claimed[2]) <= min(gains)
    assert max(gains) <= float(claimed[3]) < 1.1 * max(gains)


def test_readme_begins_with_the_two_commands() -> None:
    language, body = BLOCK.findall((ROOT / "README.md").read_text(encoding="utf-8"))[0]
    assert language == "bash"
    assert [line.split("#")[0].strip() for line in body.strip().splitlines()] == ["make demo", "make test"]
