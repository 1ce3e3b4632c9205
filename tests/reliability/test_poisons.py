"""A run whose candidates are poison ends as any other, and tells each for what it was."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from reliability.figure import Figure

#: Candidates, and the seconds that each may run: on a machine that does more than one thing it takes longer.
QUICK, FULL = (13, 5.0), (1000, 2.0)


@pytest.mark.timeout(3600)
def test_poisoned_candidates(
    is_full: bool, reached: Callable[[Figure], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from reliability import poisons

    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    figure = poisons.measure(folder, *(FULL if is_full else QUICK))
    assert figure.details["told_as_something_else"] == []
    reached(figure)
