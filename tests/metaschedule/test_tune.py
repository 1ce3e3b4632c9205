"""What a tuning run prepares before it measures."""

from __future__ import annotations

from pathlib import Path

from prune_engine.config import EngineConfig
from prune_engine.decisions.files import DecisionWriter
from prune_engine.metaschedule.tune import TuneRequest, decision_writer


def test_decisions_that_stay_from_earlier_runs_are_told_of(tmp_path: Path) -> None:
    told: list[str] = []
    request = TuneRequest(Path("gemm:8x8x8"), tmp_path, 1, EngineConfig(), decision_bytes=0)
    assert decision_writer(request, told.append) is None
    assert told == []
    DecisionWriter(tmp_path / "decisions").add(["{}"])
    assert decision_writer(request, told.append) is None
    assert told == [
        f"warning: what is in {tmp_path / 'decisions'} are decisions of earlier runs, as this one records none"
    ]
    recording = TuneRequest(Path("gemm:8x8x8"), tmp_path, 1, EngineConfig())
    assert decision_writer(recording, told.append) is not None
    assert len(told) == 1
