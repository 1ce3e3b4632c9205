"""Nothing is said of what takes no time."""

from __future__ import annotations

from itertools import pairwise

import pytest

from prune_engine.cli.late_progress import LateProgress


def test_silent_at_first_then_ever_rarer(capsys: pytest.CaptureFixture[str]) -> None:
    now = 0.0
    progress = LateProgress(lambda: now)
    said: list[float] = []
    for tenth in range(2000):
        now = tenth / 10
        progress.tell(f"at {now}")
        out, err = capsys.readouterr()
        assert not out
        if err:
            assert err == f"at {now}\n"
            said.append(now)
    assert said[0] == 2.0
    pauses = [b - a for a, b in pairwise(said)]
    assert pauses == sorted(pauses)
    assert max(pauses) <= 30.1
