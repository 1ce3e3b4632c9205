"""Where the time of a tuning run goes."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence

from prune_engine.hookspecs import hookimpl
from prune_engine.lifecycle import Observer, TaskSummary

#: First words of what observers are told when a phase begins -> the phase.
_BEGINNINGS = {
    "importing": "importing",
    "reading the design spaces": "reading spaces",
    "measuring the untuned kernels": "untuned kernels",
    "tuning": "choosing",
    "re-timing": "re-timing the best",
    "compiling": "compiling",
    "timing kernels inside": "deciding in the model",
    "checking": "checking the whole model",
}


class PhaseClock:
    """An observer that passes everything on, and a plugin: adds up the seconds of each phase.

    Tuning itself is two phases in turns: choosing what to measure (learning included), and measuring it.
    """

    def __init__(self, observer: Observer, clock: Callable[[], float] = time.perf_counter) -> None:
        """Begin with the phase ``starting``."""
        self._observer, self._clock = observer, clock
        self._phase, self._since = "starting", clock()
        self._secs: dict[str, float] = {}

    def on_status(self, message: str) -> None:
        """See whether that begins a phase."""
        for beginning, phase in _BEGINNINGS.items():
            if message.startswith(beginning):
                self._enter(phase)
        self._observer.on_status(message)

    def on_tasks(
        self, tasks: Sequence[TaskSummary], elapsed_secs: float, left_secs: float | None, n_trials_left: int | None
    ) -> None:
        """Pass it on."""
        self._observer.on_tasks(tasks, elapsed_secs, left_secs, n_trials_left)

    @hookimpl
    def batch_pruned(self) -> None:
        """What is to be measured is chosen."""
        self._enter("measuring")

    @hookimpl
    def batch_measured(self) -> None:
        """On to the next batch."""
        self._enter("choosing")

    def secs(self) -> Mapping[str, float]:
        """Seconds by phase, in the order in which they began, the present one up to now."""
        self._enter(self._phase)
        return dict(self._secs)

    def _enter(self, phase: str) -> None:
        now = self._clock()
        self._secs[self._phase] = self._secs.get(self._phase, 0.0) + now - self._since
        self._phase, self._since = phase, now
