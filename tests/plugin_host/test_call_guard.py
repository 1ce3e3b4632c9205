"""One call of a plugin: interrupted in time, named, and nothing of ours is cut in the middle."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from prune_engine.errors import PluginContractError, PluginTimeoutError
from prune_engine.plugin_host.call_guard import call, called_back


def sleeps() -> None:
    time.sleep(60)


def spins() -> None:
    while True:
        pass


def swallows_and_sleeps() -> str:
    try:
        time.sleep(60)
    except BaseException:  # noqa: BLE001
        return "as if nothing had been"
    return "slept"


def swallows_for_ever() -> None:
    for _ in range(3):
        try:
            time.sleep(60)
        except BaseException:  # noqa: BLE001
            continue
    time.sleep(60)


def sleeps_on_the_way_out() -> None:
    try:
        raise ValueError("planted")
    finally:
        time.sleep(60)


@pytest.mark.parametrize("function", [sleeps, spins, swallows_and_sleeps, swallows_for_ever, sleeps_on_the_way_out])
def test_what_takes_too_long_is_interrupted_and_named(function: Callable[[], object]) -> None:
    with pytest.raises(PluginTimeoutError, match=r"strategy acme\.slow: did not return within 0\.05 seconds"):
        call("strategy acme.slow", 0.05, function)


def test_quick_calls_give_what_they_return_and_raise() -> None:
    assert call("x", 5.0, divmod, 7, 2) == (3, 1)
    assert call("x", None, divmod, 7, 2) == (3, 1)
    with pytest.raises(ZeroDivisionError):
        call("x", 5.0, divmod, 7, 0)


class OwnKind(BaseException):
    pass


@pytest.mark.parametrize("kind", [OwnKind, GeneratorExit])
@pytest.mark.parametrize("limit_secs", [None, 5.0])
def test_other_base_exceptions_are_failures(kind: type[BaseException], limit_secs: float | None) -> None:
    def raises() -> None:
        raise kind("planted")

    with pytest.raises(
        PluginContractError, match=f"acme: raised what is no Exception; got {kind.__name__}: planted"
    ):
        call("acme", limit_secs, raises)


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit])
def test_an_interrupt_is_the_users(kind: type[BaseException]) -> None:
    def raises() -> None:
        raise kind

    with pytest.raises(kind):
        call("acme", 5.0, raises)


def test_the_engines_own_code_is_never_interrupted() -> None:
    """A plugin asks back; what it asks takes longer than the plugin may, and comes to its end."""
    done = []

    @called_back
    def ours() -> str:
        begun = time.monotonic()
        while time.monotonic() - begun < 0.3:
            pass
        done.append("committed")
        return "answer"

    assert call("acme", 0.2, ours) == "answer"
    assert done == ["committed"]

    def asks_and_sleeps() -> None:
        ours()
        time.sleep(60)

    with pytest.raises(PluginTimeoutError, match="acme"):
        call("acme", 0.2, asks_and_sleeps)
    assert len(done) == 2


def test_a_strategy_asked_from_within_another_has_its_own_time() -> None:
    def outer() -> str:
        with pytest.raises(PluginTimeoutError, match=r"inner: did not return within 0\.05"):
            call("inner", 0.05, sleeps)
        return "outer went on"

    assert call("outer", 5.0, outer) == "outer went on"

    def slow_outer() -> None:
        assert call("inner", 5.0, int, "3") == 3
        sleeps()

    with pytest.raises(PluginTimeoutError, match=r"outer: did not return within 0\.05"):
        call("outer", 0.05, slow_outer)


@pytest.fixture
def alarms() -> Iterator[list[int]]:
    """An alarm of somebody else's."""
    rung: list[int] = []
    before = signal.signal(signal.SIGALRM, lambda number, _: rung.append(number))
    timer = signal.setitimer(signal.ITIMER_REAL, 0.3)
    yield rung
    signal.signal(signal.SIGALRM, before)
    signal.setitimer(signal.ITIMER_REAL, *timer)


def test_an_alarm_of_somebody_elses_still_rings(alarms: list[int]) -> None:
    with pytest.raises(PluginTimeoutError):
        call("acme", 0.05, sleeps)
    call("acme", 5.0, int)
    assert not alarms
    deadline = time.monotonic() + 20
    while not alarms and time.monotonic() < deadline:
        time.sleep(0.05)
    assert alarms == [signal.SIGALRM]


def test_nothing_is_left_armed() -> None:
    before = signal.getsignal(signal.SIGALRM)
    left, _ = signal.getitimer(signal.ITIMER_REAL)
    for function in (sleeps, swallows_and_sleeps):
        with pytest.raises(PluginTimeoutError):
            call("acme", 0.05, function)
    call("acme", 5.0, int)
    assert signal.getsignal(signal.SIGALRM) is before
    after, _ = signal.getitimer(signal.ITIMER_REAL)
    assert (after > 0) == (left > 0)


def test_off_the_main_thread_a_call_is_made_without_a_limit() -> None:
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(call("acme", 0.01, lambda: time.sleep(0.1) or 7)))
    thread.start()
    thread.join()
    assert found == [7]


def test_what_is_printed_is_named_and_goes_to_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    def prints() -> None:
        print("one\ntwo", end="")
        print(" and the rest")

    call("strategy acme.loud", None, prints)
    print("ours")
    out, err = capsys.readouterr()
    assert out == "ours\n"
    assert err == "strategy acme.loud printed: one\nstrategy acme.loud printed: two and the rest\n"


def test_a_flood_of_prints_ends(capsys: pytest.CaptureFixture[str]) -> None:
    def floods() -> None:
        for _ in range(5000):
            print("x" * 5000)
        print("y" * 10_000_000, end="")

    call("strategy acme.flood", None, floods)
    out, err = capsys.readouterr()
    assert not out
    assert len(err.splitlines()) == 101
    assert len(err) < 100_000
    assert err.endswith("strategy acme.flood printed more, which is not shown\n")


_HANGS_IN_C = """
import itertools, collections
from prune_engine.plugin_host import call_guard
call_guard._MIN_PATIENCE_SECS = 0.5
print("before", flush=True)
call_guard.call("strategy acme.loop", 0.1, collections.deque, itertools.repeat(0), 0)
print("after")
"""


def test_a_loop_in_c_ends_the_process_and_is_named() -> None:
    run = subprocess.run([sys.executable, "-c", _HANGS_IN_C], capture_output=True, text=True, timeout=120)
    assert run.returncode == 1
    assert run.stdout == "before\n"
    assert "Timeout" in run.stderr
    assert "in strategy acme.loop" in run.stderr
