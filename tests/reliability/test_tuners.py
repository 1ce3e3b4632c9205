"""Two tuners share a store as if each had it alone."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from reliability import tuners
from reliability.figure import Figure

SECS, FULL_SECS = 1.5, 600.0


@pytest.mark.timeout(3600)
def test_two_tuners(is_full: bool, reached: Callable[[Figure], None], tmp_path: Path) -> None:
    figure = tuners.measure(tmp_path, FULL_SECS if is_full else SECS)
    assert figure.details["last_words"] == []
    assert figure.details["writes"]
    reached(figure)
