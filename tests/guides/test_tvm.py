"""The guide for MetaSchedule's users works as printed."""

from __future__ import annotations

from pathlib import Path

from guides.harness import follow

PAGE = Path(__file__).parents[2] / "docs" / "guides" / "tvm.md"


def test_the_guide_works_as_printed(tmp_path: Path, guide_venv: Path) -> None:
    follow(PAGE, tmp_path, guide_venv)
