"""Forked children as the server holds them: pausing, deadlines, messages, bounded output."""

from __future__ import annotations

import os
import time
from contextlib import contextmanager

import pytest

from prune_engine.measurement import MeasureErrorKind
from prune_engine.metaschedule.measure import children
from prune_engine.metaschedule.measure.children import JobFailedError, spawn
from prune_engine.metaschedule.measure.linux import is_stopped
from prune_engine.metaschedule.measure.verdict import error_of


@contextmanager
def child_running(body, tmp_path, limit_secs=30.0, memory_limit_bytes=1 << 30):
    child = spawn(body, limit_secs=limit_secs, memory_limit_bytes=memory_limit_bytes, folder=tmp_path)
    try:
        yield child
    finally:
        child.kill()
        os.waitpid(child.pid, 0)
        child.release()


def sleep_long(_link):
    time.sleep(60)


def test_pause_stops_and_resume_continues(tmp_path):
    with child_running(sleep_long, tmp_path) as child:
        child.pause()
        child.wait_until_paused(time.monotonic() + 5)
        assert is_stopped(child.pid)
        child.resume()
        time.sleep(0.05)
        assert not is_stopped(child.pid)


def test_deadline_moves_by_the_time_paused(tmp_path):
    with child_running(sleep_long, tmp_path, limit_secs=0.3) as child:
        child.pause()
        time.sleep(0.5)
        assert not child.is_overdue(time.monotonic())
        child.resume()
        assert not child.is_overdue(time.monotonic())
        assert child.is_overdue(time.monotonic() + 0.4)
        assert child.ran_secs() < 0.4


def wait_for_end(child):
    return os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)


def verdict(child, general=MeasureErrorKind.RUN_ERROR):
    wait_for_end(child)
    child.read()
    return error_of(child, 1 << 8, 0, 1 << 30, general)


def fail_with_a_kind(_link):
    raise JobFailedError(MeasureErrorKind.WRONG_RESULT, "42 is not 43")


def run_out_of_memory(_link):
    bytearray(1 << 40)


def raise_something(_link):
    raise LookupError("no such thing")


@pytest.mark.parametrize(
    ("body", "kind", "text"),
    [
        (fail_with_a_kind, MeasureErrorKind.WRONG_RESULT, "42 is not 43"),
        (run_out_of_memory, MeasureErrorKind.OUT_OF_MEMORY, "allocation"),
        (raise_something, MeasureErrorKind.RUN_ERROR, "LookupError: no such thing"),
    ],
)
def test_what_a_body_raises_becomes_an_error(tmp_path, body, kind, text):
    with child_running(body, tmp_path) as child:
        error = verdict(child)
    assert error.kind is kind
    assert text in error.message


def test_a_child_that_exits_without_a_word_crashed(tmp_path):
    with child_running(lambda _link: os._exit(1), tmp_path) as child:
        assert verdict(child).kind is MeasureErrorKind.CRASH


def test_a_full_disk_is_the_phase_s_error(tmp_path):
    def abort_like_llvm(_link):
        os.write(2, b"LLVM ERROR: IO failure on output stream: No space left on device\n")
        os.abort()

    with child_running(abort_like_llvm, tmp_path) as child:
        assert verdict(child, MeasureErrorKind.BUILD_ERROR).kind is MeasureErrorKind.BUILD_ERROR


def test_output_is_bounded(tmp_path):
    refused = []

    def flood(link):
        os.write(1, b"first words\n")
        for _ in range(100):
            try:
                os.write(1, b"x" * 10_000)
            except OSError as error:
                refused.append(error)
        link.send("refused", n=len(refused))

    with child_running(flood, tmp_path) as child:
        wait_for_end(child)
        (message,) = child.read()
        assert message["n"] > 80
        assert os.fstat(child._log_fd).st_size == children._LOG_BYTES


def test_garbage_on_the_line_is_dropped(tmp_path):
    def babble(link):
        link._sock.send(b"\xff\x00 not json")
        link._sock.send(b"[1]")
        link.send("report", n=1)

    with child_running(babble, tmp_path) as child:
        wait_for_end(child)
        assert child.read() == [{"event": "report", "n": 1}]
