"""The site builds without a warning, needs no network, and its generated pages are complete."""

from __future__ import annotations

import importlib.util
import inspect
import os
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
import typer.main

from prune_engine import hookspecs
from prune_engine.cli.app import make_app

ROOT = Path(__file__).parent.parent


def from_code(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"docs_{name}", ROOT / "docs" / "from_code" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


HOOKS = [name for name, hook in vars(hookspecs).items() if hasattr(hook, f"{hookspecs.PROJECT}_spec")]


@pytest.fixture(scope="module")
def hooks_page() -> str:
    return str(from_code("hooks").hooks_page())


@pytest.fixture(scope="module")
def commands_page() -> str:
    return str(from_code("commands").commands_page())


@pytest.mark.parametrize("hook", HOOKS)
def test_each_hook_has_its_exact_signature_and_its_sentences(hook: str, hooks_page: str) -> None:
    section = hooks_page.partition(f"\n## {hook}\n")[2].partition("\n## ")[0]
    source = inspect.getsource(getattr(hookspecs, hook))
    signature = re.search(r"def (.*?):\s*(?:#.*)?\n", source)
    assert signature is not None
    assert f"\n{signature[1]}\n" in section
    assert " ".join((inspect.getdoc(getattr(hookspecs, hook)) or "").split()).replace("``", "`") in section


@pytest.mark.parametrize(
    ("hook", "kind"),
    [
        ("register_rules", "Collected."),
        ("resolve_hardware_profile", "First result."),
        ("engine_started", "Told, with the past."),
        ("task_started", "Told."),
    ],
)
def test_each_hook_says_how_it_is_called(hook: str, kind: str, hooks_page: str) -> None:
    assert f"*{kind}*" in hooks_page.partition(f"\n## {hook}\n")[2].partition("\n## ")[0]


def test_every_verb_option_and_default_is_in_the_reference(commands_page: str) -> None:
    commands = from_code("commands")
    walked = dict(commands.walk("prune-engine", typer.main.get_command(make_app())))
    assert {"prune-engine tune", "prune-engine profiles show"} <= set(walked)
    for path, command in walked.items():
        section = commands_page.partition(f"## {path}\n")[2].partition("\n## ")[0]
        assert (command.help or "").split("\n")[0].split(".")[0] in section, path
        for option in commands.options_of(command):
            for name in (*option.opts, *option.secondary_opts):
                assert re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", section), f"{path} {name}"


@pytest.mark.parametrize(
    ("path", "row"),
    [
        ("prune-engine tune", r"\| `--plateau N` \| .* \| 96; x>=1 \|"),
        ("prune-engine tune", r"\| `--explorer NAME` \| .* \| explore\.evolution \|"),
        ("prune-engine tune", r"\| `-q, --quiet` \| Print the result only\. \|  \|"),
        ("prune-engine tune", r"\| `--seconds SECONDS` \| .* \| 300, if no --trials; x>=1 \|"),
    ],
)
def test_rows_of_the_reference(path: str, row: str, commands_page: str) -> None:
    section = commands_page.partition(f"## {path}\n")[2].partition("\n## ")[0]
    assert re.search(row, section), section


def test_public_modules_exist_and_say_what_they_are() -> None:
    for _, _, modules in from_code("api").PAGES.values():
        for name in modules:
            assert (importlib.import_module(name).__doc__ or "").strip(), name


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site") / "site"
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1", "DISABLE_MKDOCS_2_WARNING": "true"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stderr, done.stderr
    return folder


def test_every_page_is_in_the_navigation(site: Path) -> None:
    home = (site / "index.html").read_text(encoding="utf-8")
    linked = set(re.findall(r'href="([a-z][^":#]*/)"', home))
    for page in site.rglob("index.html"):
        place = page.parent.relative_to(site).as_posix() + "/"
        assert place == "./" or place in linked, place


def test_nothing_is_fetched_from_elsewhere(site: Path) -> None:
    loads = re.compile(r'<(?:script|img|link|iframe|source)\b[^>]*?\b(?:src|href)="(https?:)?//[^"]*"')
    for page in site.rglob("*.html"):
        found = [
            tag[0] for tag in loads.finditer(page.read_text(encoding="utf-8")) if 'rel="canonical"' not in tag[0]
        ]
        assert not found, f"{page.relative_to(site)}: {found}"
    for sheet in (site / "stylesheets").rglob("*.css"):
        assert not re.search(r"url\(\W?https?:", sheet.read_text(encoding="utf-8")), sheet.name


@pytest.mark.parametrize(
    ("page", "name"),
    [
        ("plugins", "prune_engine.strategies.Rule.mask"),
        ("errors", "prune_engine.errors.ConfigError"),
        ("programs", "prune_engine.api.tuning.tune"),
    ],
)
def test_names_of_the_python_reference_are_there(page: str, name: str, site: Path) -> None:
    assert f'id="{name}"' in (site / "reference" / "api" / page / "index.html").read_text(encoding="utf-8")
