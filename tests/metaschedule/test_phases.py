"""Where the time of a run goes, phase by phase."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from prune_engine.config import EngineConfig
from prune_engine.lifecycle import PruneSummary, SilentObserver
from prune_engine.metaschedule.phases import PhaseClock
from prune_engine.plugins import PluginHost
from prune_engine.testing import make_task


class Teller(SilentObserver):
    def __init__(self) -> None:
        self.told: list[str] = []

    def on_status(self, message: str) -> None:
        self.told.append(message)


def ticking() -> Iterator[float]:
    """A clock on which every look takes one second more than the one before."""
    return itertools.accumulate(itertools.count())


def test_every_second_belongs_to_one_phase() -> None:
    times, teller = ticking(), Teller()
    clock = PhaseClock(teller, lambda: next(times))  # starts at 0
    messages = ["profile host: as is", "importing model.onnx", "warning: reading the design spaces", "tuning"]
    for message in messages:
        clock.on_status(message)
    host = PluginHost(EngineConfig())
    host.register(clock, "phases")
    for _ in range(2):
        host.notify("batch_pruned", task=make_task("t"), summary=PruneSummary(1, 1, (), 0.0))
        host.notify("batch_measured", task=make_task("t"), measured=())
    clock.on_status("checking the outputs and timing the whole model")
    assert clock.secs() == {
        "starting": 1,
        "importing": 2,
        "choosing": 3 + 5 + 7,
        "measuring": 4 + 6,
        "checking the whole model": 8,
    }
    assert teller.told == [*messages, "checking the outputs and timing the whole model"]
    assert not [record for record in host.records if record.detail]
