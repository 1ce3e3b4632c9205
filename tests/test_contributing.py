"""What contributors are told is so: layers, hooks before a commit, fragments of the changelog."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
FRAGMENTS = [path for path in sorted((ROOT / "docs" / "changes").iterdir()) if path.name != "README.md"]


def test_every_package_is_in_the_picture_of_layers() -> None:
    picture = PAGE.partition("## Layers")[2].partition("##")[0]
    for package in sorted((ROOT / "prune_engine").iterdir()):
        if (package / "__init__.py").exists():
            assert re.search(rf"(?<!\w){package.name}/", picture), package.name


def test_hooks_before_a_commit_need_no_network_and_are_those_of_make() -> None:
    configuration = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8"))
    assert {repo["repo"] for repo in configuration["repos"]} == {"local"}
    hooks = {hook["id"]: hook for repo in configuration["repos"] for hook in repo["hooks"]}
    assert set(hooks) == {"ruff", "ruff-format", "mypy"}
    for hook in hooks.values():
        assert hook["language"] == "system"  # nothing is installed
        words = hook["entry"].removeprefix(".venv/bin/").split()
        assert f"$(BIN)/{' '.join(words[:2] if len(words) > 1 else words)}" in MAKEFILE, hook["entry"]


def test_no_file_is_longer_than_the_house_style_allows() -> None:
    most = int(re.findall(r"never more than (\d+)", PAGE)[0])
    files = [file for top in ("prune_engine", "plugins", "tests") for file in (ROOT / top).rglob("*.py")]
    lengths = {file.relative_to(ROOT).as_posix(): len(file.read_bytes().splitlines()) for file in files}
    assert len(lengths) > 500
    assert {file: length for file, length in lengths.items() if length > most} == {}


@pytest.mark.parametrize("path", FRAGMENTS, ids=lambda path: path.name)
def test_fragment_of_the_changelog(path: Path) -> None:
    kinds = re.findall(r'^\[\[tool\.towncrier\.type\]\]\ndirectory = "(\w+)"', _pyproject(), re.MULTILINE)
    assert re.fullmatch(rf"[a-z0-9-]+\.({'|'.join(kinds)})\.md", path.name)
    text = path.read_text(encoding="utf-8").strip()
    assert text.endswith(".")
    assert not text.startswith(("-", "#")), "a sentence: the list is made of it"


def test_kinds_of_fragments_are_explained() -> None:
    text = (ROOT / "docs" / "changes" / "README.md").read_text(encoding="utf-8")
    for kind in re.findall(r'^directory = "(\w+)"', _pyproject(), re.MULTILINE):
        assert f"| `{kind}` |" in text


def _pyproject() -> str:
    return (ROOT / "pyproject.toml").read_text(encoding="utf-8")
