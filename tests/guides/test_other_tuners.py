"""What the guides for other tuners print is what their code prints; `...` in it stands for anything."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

GUIDES = Path(__file__).parents[2] / "docs" / "guides"
PAGES = ("anyone", "kernel-tuner", "triton")
BLOCK = re.compile(r"^```(\w+)(?: title=\"([\w.]+)\")?\n(.*?)^```", re.MULTILINE | re.DOTALL)


def printing() -> list[tuple[str, str, str]]:
    """Code with what it prints, by place: a python block before a text, maybe its command between."""
    found = []
    for page in PAGES:
        blocks = BLOCK.findall((GUIDES / f"{page}.md").read_text())
        for number, (kind, _, printed) in enumerate(blocks):
            before = blocks[number - 1] if number else ("", "", "")
            if kind == "text" and before[0] == "bash" and before[2].startswith("python "):
                before = blocks[number - 2]
            if kind == "text" and before[0] == "python":
                found.append((f"{page}:{number}", before[2], printed))
    return found


def test_there_is_something_to_compare() -> None:
    assert {place.partition(":")[0] for place, _, _ in printing()} == set(PAGES)
    assert len(printing()) >= 5


@pytest.mark.parametrize(("place", "code", "printed"), printing(), ids=[place for place, _, _ in printing()])
def test_code_prints_what_the_page_says(place: str, code: str, printed: str, tmp_path: Path) -> None:
    (tmp_path / "page.py").write_text(code)  # Triton reads its kernels from files
    command = [sys.executable, "page.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, f"{place}: {done.stderr}"
    expected = re.escape(printed.strip()).replace(re.escape("..."), ".*")
    assert re.fullmatch(expected, done.stdout.strip(), re.DOTALL), f"{place} prints:\n{done.stdout}"
