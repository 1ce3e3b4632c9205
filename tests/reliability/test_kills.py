"""Killed at random moments, a run loses nothing that was committed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from reliability import kills
from reliability.figure import Figure

N_KILLS, N_FULL = 2, 100


@pytest.mark.timeout(3600)
def test_kill_9_at_random_moments(is_full: bool, reached: Callable[[Figure], None], tmp_path: Path) -> None:
    reached(kills.measure(tmp_path, N_FULL if is_full else N_KILLS))
