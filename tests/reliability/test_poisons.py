"""A run whose candidates are poison ends as any other, and tells each for what it was."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from reliability.figure import Figure

N, N_FULL = 13, 1000


@pytest.mark.timeout(3600)
def test_poisoned_candidates(
    is_full: bool, reached: Callable[[Figure], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from reliability import poisons

    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    reached(poisons.measure(folder, N_FULL if is_full else N))
