"""Whatever goes wrong around a run, it ends in the way that is documented, and resumes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from reliability import surroundings
from reliability.figure import Figure

#: What no other test of the suite meets; the rest of them costs a minute.
QUICK = (
    "disk full",
    "store locked for a while",
    "clock set back by a day",
    "SIGTERM twice",
    "reader of all output gone (`2>&1 | head -1`)",
)


@pytest.mark.timeout(3600)
def test_surroundings(is_full: bool, reached: Callable[[Figure], None], tmp_path: Path) -> None:
    figure = surroundings.measure(tmp_path, 28.0) if is_full else surroundings.measure(tmp_path, 1.0, QUICK)
    assert figure.details["problems"] == {}
    reached(figure)
