"""Who is told how a run goes on: a function of the caller's, a display, the log."""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from prune_engine.errors import ConfigError
from prune_engine.lifecycle import Observer, TaskSummary

#: Statuses go there as INFO, warnings as WARNING. Silent unless a program sets logging up.
LOGGER = logging.getLogger("prune_engine")
LOGGER.addHandler(logging.NullHandler())

_WARNING = "warning: "


@dataclass(frozen=True, slots=True)
class Progress:
    """How a run goes on. ``message`` says what has begun; it is empty where only figures are new.

    ``tasks`` are all of the run's, with what is known of each. ``left_secs`` and ``trials_left`` are None without
    such a budget.
    """

    message: str
    tasks: tuple[TaskSummary, ...]
    elapsed_secs: float
    left_secs: float | None
    trials_left: int | None


#: False for nothing, True for what the command shows (on stderr), or a function that is told.
Watching = bool | Callable[[Progress], None]


class _Teller:
    """An observer that calls a function and writes the log."""

    def __init__(self, told: Callable[[Progress], None] | None, shown: Observer | None) -> None:
        self._told, self._shown = told, shown
        self._last = Progress("", (), 0.0, None, None)

    def on_status(self, message: str) -> None:
        is_warning = message.startswith(_WARNING)
        LOGGER.log(logging.WARNING if is_warning else logging.INFO, "%s", message.removeprefix(_WARNING))
        if self._shown is not None:
            self._shown.on_status(message)
        last = self._last
        self._tell(Progress(message, last.tasks, last.elapsed_secs, last.left_secs, last.trials_left))

    def on_tasks(
        self, tasks: Sequence[TaskSummary], elapsed_secs: float, left_secs: float | None, n_trials_left: int | None
    ) -> None:
        if self._shown is not None:
            self._shown.on_tasks(tasks, elapsed_secs, left_secs, n_trials_left)
        self._tell(Progress("", tuple(tasks), elapsed_secs, left_secs, n_trials_left))

    def _tell(self, news: Progress) -> None:
        self._last = news
        if self._told is not None:
            self._told(news)


@contextmanager
def watched(progress: Watching, *, takes_signals: bool = True) -> Iterator[tuple[Observer, Callable[[], bool]]]:
    """An observer, and whether the run is to stop: once the user pressed Ctrl-C.

    The first Ctrl-C ends the run in order, the second raises KeyboardInterrupt at once. Outside the main thread
    signals are left alone. What a function raises that is told, ends the run; what was measured is in the store.
    """
    if not (isinstance(progress, bool) or callable(progress)):
        raise ConfigError(
            "cannot be used",
            who="progress",
            got=repr(progress)[:200],
            expected="True, False, or a function that takes a Progress",
        )
    with ExitStack() as stack:
        shown = None
        if progress is True:
            from prune_engine.display.observers import progress_observer

            shown = stack.enter_context(progress_observer(quiet=False, as_json=False))
        teller = _Teller(progress if callable(progress) else None, shown)
        if takes_signals:
            yield teller, stack.enter_context(_stopped(teller.on_status))
        else:
            yield teller, lambda: False


@contextmanager
def _stopped(say: Callable[[str], None]) -> Iterator[Callable[[], bool]]:
    if threading.current_thread() is not threading.main_thread():
        yield lambda: False
        return
    asked: list[int] = []

    def handle(number: int, _frame: object) -> None:
        if asked:
            raise KeyboardInterrupt
        asked.append(number)
        say("stopping after this batch; once more to stop at once")

    previous = signal.signal(signal.SIGINT, handle)
    try:
        yield lambda: bool(asked)
    finally:
        # None: it was set by something other than Python, which cannot be set again.
        signal.signal(signal.SIGINT, signal.SIG_DFL if previous is None else previous)
