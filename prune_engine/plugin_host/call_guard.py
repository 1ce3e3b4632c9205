"""One call of a plugin's code: within a time limit, its prints named, and nothing but errors comes out of it.

Python code and everything that sleeps is interrupted by a timer signal, which raises in the main thread. That is
done nowhere but inside a plugin: where it calls back into the engine (`suspended`), the timer stands still, so no
transaction and no state of ours is ever cut in the middle. What never comes back to Python, a loop in C, can be
ended only together with the process: a watchdog thread that needs no interpreter does that, and prints the stack,
in which the plugin's name stands. What was measured is in the store by then.
"""

from __future__ import annotations

import faulthandler
import signal
import sys
import threading
import time
from collections.abc import Callable
from functools import lru_cache
from types import FunctionType, TracebackType
from typing import Any, ParamSpec, TypeVar, cast

from prune_engine.errors import PluginContractError, PluginTimeoutError
from prune_engine.plugin_host.output import NamedOutput

P = ParamSpec("P")
T = TypeVar("T")

#: The watchdog ends the process after so many limits, but not before so many seconds.
_PATIENCE = 5
_MIN_PATIENCE_SECS = 20.0
#: A plugin that catches the interruption is interrupted again after so long.
_AGAIN_SECS = 0.5
_CAN_INTERRUPT = hasattr(signal, "setitimer")
_STDERR = 2
#: The plain function below the one that makes enums of its numbers, which takes longer than all the rest.
_set_handler = getattr(sys.modules.get("_signal"), "signal", signal.signal)
_ALARM = int(getattr(signal, "SIGALRM", 0))


def call(who: str, limit_secs: float | None, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
    """Call a plugin's function; ``who`` names it in messages.

    ``limit_secs`` None sets no limit. Off the main thread, and without timer signals, there is none either.

    Raises what the function raises. KeyboardInterrupt is the user's; every other BaseException that is neither
    Exception nor SystemExit becomes PluginContractError, and one that takes too long PluginTimeoutError.
    """
    clock = _CLOCK if limit_secs is not None and _may_interrupt() else None
    outer = clock.pause() if clock else None
    stdout, sys.stdout = sys.stdout, NamedOutput.of(who)
    running = None
    try:
        try:
            if clock and limit_secs is not None:
                running = clock.start(limit_secs)
            result = cast(T, _called_as(who)(function, args, kwargs))
        finally:
            if clock:
                clock.stop()
        if running is not None and running.is_over:  # it caught the interruption, and came back all the same
            raise _too_long(who, limit_secs)
        return result
    except _Overtime:
        if clock:
            clock.stop()
        raise _too_long(who, limit_secs) from None
    except (Exception, SystemExit, KeyboardInterrupt):
        raise
    except BaseException as error:  # the plugin boundary: a kind of its own is a failure like any other
        raise PluginContractError(
            "raised what is no Exception",
            who=who,
            got=f"{type(error).__name__}: {error}",
            remedy="Report it to the plugin's author, or block the plugin.",
        ) from error
    finally:
        sys.stdout = stdout
        if clock:
            clock.resume(outer)


def called_back(function: Callable[P, T]) -> Callable[P, T]:
    """A function of the engine's for plugins to call: their time stands still meanwhile."""

    def call_back(*args: P.args, **kwargs: P.kwargs) -> T:
        with suspended():
            return function(*args, **kwargs)

    return call_back


class suspended:  # noqa: N801  # used as a statement
    """While a plugin calls back into the engine: its time stands still, and nothing is interrupted."""

    def __enter__(self) -> None:
        self._stopped = _CLOCK.pause() if _may_interrupt() else None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _CLOCK.resume(self._stopped)


class _Overtime(BaseException):  # no Exception, so that a plugin's `except Exception` lets it pass
    """Raised inside a plugin when its time is over."""


class _Limit:
    """The time that is left to one call."""

    __slots__ = ("is_over", "left_secs", "total_secs")

    def __init__(self, secs: float) -> None:
        self.left_secs = self.total_secs = secs
        self.is_over = False


class _Clock:
    """The process's one timer, lent to the innermost call. Main thread only."""

    def __init__(self) -> None:
        self._running: _Limit | None = None
        self._previous: Any = None
        #: An alarm of somebody else's, which goes on when ours is done: seconds left, interval, since when.
        self._theirs = (0.0, 0.0, 0.0)

    def start(self, secs: float) -> _Limit:
        """Begin the time of one call."""
        limit = _Limit(secs)
        theirs = signal.setitimer(signal.ITIMER_REAL, 0)
        self._theirs = (*theirs, time.monotonic())
        self._previous = _set_handler(_ALARM, self._ring)
        self._arm(limit)
        return limit

    def stop(self) -> None:
        """End it. May be called again."""
        self._disarm()
        if self._previous is not None:
            _set_handler(_ALARM, self._previous)
            self._previous = None
            left, interval, since = self._theirs
            if left:
                signal.setitimer(signal.ITIMER_REAL, max(1e-6, left - (time.monotonic() - since)), interval)

    def pause(self) -> _Outer | None:
        """Let time stand still for the call that runs, if one does."""
        limit = self._running
        if limit is None:
            return None
        limit.left_secs = self._disarm()
        outer = (limit, self._previous, self._theirs)
        self._previous = None
        return outer

    def resume(self, outer: _Outer | None) -> None:
        """Go on with what ``pause`` returned."""
        if outer is not None:
            limit, self._previous, self._theirs = outer
            _set_handler(_ALARM, self._ring)
            self._arm(limit)

    def _arm(self, limit: _Limit) -> None:
        if sys.__stderr__ is not None:  # else its number may be that of any file by now
            patience = max(_MIN_PATIENCE_SECS, _PATIENCE * limit.total_secs)
            faulthandler.dump_traceback_later(patience, exit=True, file=_STDERR)
        self._running = limit
        signal.setitimer(signal.ITIMER_REAL, max(1e-6, limit.left_secs), _AGAIN_SECS)

    def _disarm(self) -> float:
        """Returns the seconds that were left. From the first line on nothing is interrupted."""
        was_running, self._running = self._running, None
        if was_running is None:
            return 0.0
        left, _ = signal.setitimer(signal.ITIMER_REAL, 0)
        faulthandler.cancel_dump_traceback_later()
        return left

    def _ring(self, _number: int, _frame: object) -> None:
        limit = self._running
        if limit is not None:  # else it rang on the way out
            limit.is_over = True
            raise _Overtime


_Outer = tuple[_Limit, Any, tuple[float, float, float]]

#: The one thing here that is the process's: so is the timer.
_CLOCK = _Clock()


def _may_interrupt() -> bool:
    return _CAN_INTERRUPT and threading.get_ident() == threading.main_thread().ident


def _apply(function: Callable[..., object], args: tuple[object, ...], kwargs: dict[str, object]) -> object:
    return function(*args, **kwargs)


@lru_cache(maxsize=1024)
def _called_as(who: str) -> Callable[..., object]:
    """A function that calls another, and has the plugin's name: the stack that the watchdog prints shows it."""
    return FunctionType(_apply.__code__.replace(co_name=who), globals(), who)


def _too_long(who: str, limit_secs: float | None) -> PluginTimeoutError:
    return PluginTimeoutError(
        f"did not return within {limit_secs:g} seconds",
        who=who,
        remedy="Report it to the plugin's author, or block the plugin.",
    )
