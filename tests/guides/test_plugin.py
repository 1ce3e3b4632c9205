"""The guide to plugins works by copy and paste, and what it yields is the outside plugin of the tests."""

from __future__ import annotations

from pathlib import Path

from guides.harness import follow, read_blocks

from prune_engine.cli.plugin_new import PluginKind, plugin_files

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "guides" / "plugin.md"
HELLO = ROOT / "tests" / "third_party" / "prune-engine-hello"
_LEFT_BEHIND = ("build", "__pycache__", ".pytest_cache", ".ruff_cache")


def files_of(project: Path) -> dict[str, str]:
    """Texts of a project's own files by path."""
    return {
        path.relative_to(project).as_posix(): path.read_text(encoding="utf-8")
        for path in sorted(project.rglob("*"))
        if path.is_file()
        and not any(p in _LEFT_BEHIND or p.endswith(".egg-info") for p in path.relative_to(project).parts)
    }


def test_guide_works_as_printed_and_yields_the_plugin(tmp_path: Path, guide_venv: Path) -> None:
    follow(PAGE, tmp_path, guide_venv)
    assert files_of(tmp_path / "work" / "prune-engine-hello") == files_of(HELLO)


def test_outside_plugin_is_what_plugins_new_writes() -> None:
    assert files_of(HELLO) == plugin_files("hello", PluginKind.RULE)


def test_rule_that_the_guide_shows_is_the_one_that_is_written() -> None:
    (shown,) = [block for block in read_blocks(PAGE) if block.title]
    assert shown.text == (HELLO / "prune_engine_hello" / "rule.py").read_text(encoding="utf-8")
