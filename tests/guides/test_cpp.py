"""The guide for C++ programs works as printed."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from guides.harness import follow
from kits.embedding import need_python_to_embed

PAGE = Path(__file__).parents[2] / "docs" / "guides" / "cpp.md"


@pytest.mark.skipif(shutil.which("g++") is None, reason="there is no g++")
@pytest.mark.skipif(shutil.which("cmake") is None, reason="there is no cmake")
def test_the_guide_works_as_printed(tmp_path: Path, guide_venv: Path) -> None:
    need_python_to_embed()
    follow(PAGE, tmp_path, guide_venv)
