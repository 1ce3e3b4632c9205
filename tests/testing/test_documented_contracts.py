"""The contract classes shown to plugin authors pass under pytest, as they stand in the documentation."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "plugins.md"


def test_documented_contract_classes_pass(tmp_path: Path) -> None:
    blocks = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    shown = [block for block in blocks if "(RuleContract)" in block]
    assert len(shown) == 2
    for number, block in enumerate(shown):
        (tmp_path / f"test_shown_{number}.py").write_text(block)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(tmp_path), "."]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout
    assert re.search(r"\b(\d+) passed", done.stdout), done.stdout
