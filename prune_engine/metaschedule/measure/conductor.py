"""The server's schedule: which builds and runs are alive, and who may have the machine to itself.

Builds and runs overlap so that all processors have work, but timings must not be disturbed. A run child
that wants to time asks for a *window*. It gets one when no other has it and the pool's process is asleep
(it said ``Wait``, and is sent nothing during a window). Before the window opens, every other child is
stopped with SIGSTOP, process group and all, and seen to be stopped; nothing is forked while it is open.
When it closes, by the child's word or by its death, all are continued. Deadlines move by the time stopped.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import shutil
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from prune_engine.measurement import MeasureError, MeasureErrorKind
from prune_engine.metaschedule.measure import builder, runner, stress
from prune_engine.metaschedule.measure.children import Child, Link, Message, spawn
from prune_engine.metaschedule.measure.jobs import BuildJob, JobResult
from prune_engine.metaschedule.measure.linux import children_of_this_process, kill_all, status_bytes
from prune_engine.metaschedule.measure.pace import Pace
from prune_engine.metaschedule.measure.protocol import JOBS_FOLDER, Done, Order, RunMode, kept_library
from prune_engine.metaschedule.measure.settings import MeasureSettings
from prune_engine.metaschedule.measure.verdict import error_of

#: Run children alive at once: one has the window or checks, one gets ready.
_N_RUNNERS = 2
#: A stop is a matter of microseconds unless the process sits in the kernel, where it disturbs nobody.
_PAUSE_PATIENCE_SECS = 0.05


@dataclass(slots=True)
class Work:
    """An order on its way: the child that works on it now, if any, and its private folder."""

    order: Order
    folder: Path
    child: Child | None = None
    is_built: bool = False
    wants_window: bool = False
    n_windows: int = 0
    build_secs: float = 0.0
    report: Message | None = None


@dataclass(slots=True)
class Conductor:
    """All orders of one pool, from submission to result. Every method returns at once."""

    settings: MeasureSettings
    target: Any
    folder: Path
    selector: selectors.BaseSelector
    send: Callable[[Done], None]
    is_pool_asleep: bool = False
    _to_build: deque[Work] = field(default_factory=deque)
    _to_run: deque[Work] = field(default_factory=deque)
    _alive: list[Work] = field(default_factory=list)
    _finished: deque[Done] = field(default_factory=deque)
    _window: Work | None = None
    _n_orders: int = 0
    _pace: Pace = field(default_factory=Pace)

    def submit(self, order: Order) -> None:
        """Queue an order."""
        self._n_orders += 1
        self._to_build.append(Work(order, self.folder / JOBS_FOLDER / str(self._n_orders)))

    def advance(self) -> None:
        """Reap, enforce deadlines, then start and grant whatever can be."""
        self._reap()
        self._enforce_deadlines()
        if self._window is not None:
            return
        self._start_builds()
        self._start_runs()
        if self.is_pool_asleep:
            if self._finished:
                self.is_pool_asleep = False
                self.send(self._finished.popleft())
            else:
                self._open_window()

    def secs_to_next_deadline(self) -> float | None:
        """How long nothing needs to be done unless something happens."""
        deadlines = [
            work.child.deadline
            for work in self._alive
            if work.child is not None and work.child.deadline is not None and work.child.paused_at is None
        ]
        return max(0.0, min(deadlines) - time.monotonic()) if deadlines else None

    def cancel(self) -> None:
        """Forget everything and kill whatever is alive."""
        self._to_build.clear()
        self._to_run.clear()
        self._finished.clear()
        self.is_pool_asleep = False
        for work in self._alive:
            assert work.child is not None
            work.child.kill()
        for work in self._alive:
            assert work.child is not None
            os.waitpid(work.child.pid, 0)
            self._forget_child(work)
            self._remove_files(work)
        self._alive.clear()
        self._window = None
        self._kill_orphans()

    def _start_builds(self) -> None:
        n_building = sum(not work.is_built for work in self._alive)
        while self._to_build and n_building < self.settings.n_builders:
            work = self._to_build.popleft()
            try:
                work.folder.mkdir(parents=True)
                body = partial(_build_body, work.order, self.target, work.folder)
                self._adopt(work, self._spawn(work, body, work.order.build_timeout_secs))
            except OSError as error:
                self._finish(
                    work, MeasureError(MeasureErrorKind.BUILD_ERROR, f"could not start the build: {error}")
                )
            else:
                n_building += 1

    def _start_runs(self) -> None:
        n_running = sum(work.is_built for work in self._alive)
        while self._to_run:
            is_paired = self._to_run[0].order.mode is RunMode.PAIRED
            if is_paired and (self._to_build or any(not work.is_built for work in self._alive)):
                return  # kernels that take turns start together
            if not is_paired and n_running >= _N_RUNNERS:
                return
            work = self._to_run.popleft()
            library = work.folder / builder.KERNEL_FILE
            body = partial(runner.run, work.order, self.settings, library, self._pace)
            try:
                self._adopt(work, self._spawn(work, body, work.order.run_timeout_secs))
            except OSError as error:
                self._finish(work, MeasureError(MeasureErrorKind.RUN_ERROR, f"could not start the run: {error}"))
            else:
                n_running += 1

    def _spawn(self, work: Work, body: Callable[[Link], None], limit_secs: float) -> Child:
        limit_bytes = self.settings.memory_limit_bytes
        return spawn(body, limit_secs=limit_secs, memory_limit_bytes=limit_bytes, folder=work.folder)

    def _adopt(self, work: Work, child: Child) -> None:
        work.child = child
        self._alive.append(work)
        self.selector.register(child.sock, selectors.EVENT_READ, partial(self._read, work))

    def _read(self, work: Work) -> None:
        assert work.child is not None
        for message in work.child.read():
            if message.get("event") == "window":
                work.wants_window = True
                work.child.limit(None)  # waiting for the machine is not its own time
            elif message.get("event") == "window_done" and self._window is work:
                self._close_window()
                work.child.limit(work.order.run_timeout_secs)
            elif message.get("event") == "report":
                work.report = message

    def _open_window(self) -> None:
        work = self._next_for_window()
        if work is None or work.child is None:
            return
        others = [other.child for other in self._alive if other is not work and other.child is not None]
        for child in others:
            child.pause()
        give_up_at = time.monotonic() + _PAUSE_PATIENCE_SECS
        for child in others:
            child.wait_until_paused(give_up_at)
        self._window = work
        work.wants_window = False
        work.n_windows += 1
        work.child.limit(work.order.run_timeout_secs)
        with contextlib.suppress(OSError):  # it just died, which the next reaping sees
            work.child.sock.send(b'{"event": "go"}')

    def _next_for_window(self) -> Work | None:
        waiting = [work for work in self._alive if work.wants_window]
        running = [work for work in self._alive if work.is_built]
        paired = [work for work in running if work.order.mode is RunMode.PAIRED]
        if paired and (len(waiting) < len(paired) or self._to_run):
            return None  # a round starts when all are ready for it
        if not paired:
            return waiting[0] if waiting else None
        # Fewest turns first; within a round the order rotates, so that nobody always follows the same.
        n_rounds = min(work.n_windows for work in paired)
        turn = {id(work): (place - n_rounds) % len(paired) for place, work in enumerate(paired)}
        return min(paired, key=lambda work: (work.n_windows, turn[id(work)]))

    def _close_window(self) -> None:
        self._window = None
        for work in self._alive:
            if work.child is not None:
                work.child.resume()

    def _enforce_deadlines(self) -> None:
        now = time.monotonic()
        for work in self._alive:
            child = work.child
            if child is None or child.overdue is not None or not child.is_overdue(now):
                continue
            kind = MeasureErrorKind.RUN_TIMEOUT if work.is_built else MeasureErrorKind.BUILD_TIMEOUT
            limit_secs = work.order.run_timeout_secs if work.is_built else work.order.build_timeout_secs
            what = "run" if work.is_built else "build"
            child.overdue = MeasureError(kind, f"the {what} took longer than {limit_secs:g} s and was killed")
            child.limit(None)
            child.kill()

    def _reap(self) -> None:
        for work in list(self._alive):
            assert work.child is not None
            pid, status, usage = os.wait4(work.child.pid, os.WNOHANG)
            if pid:
                # A child starts with a copy of this process's own memory; mapped files are not copied.
                self._end_of_child(work, status, usage.ru_maxrss * 1024 - status_bytes("RssAnon"))

    def _end_of_child(self, work: Work, status: int, grown_bytes: int) -> None:
        child = work.child
        assert child is not None
        self._read(work)
        if self._window is work:
            self._close_window()
        self._alive.remove(work)
        is_ok = status == 0 and child.overdue is None
        if work.is_built:
            if is_ok and work.report is not None:
                self._finish(work, None)
            else:
                self._finish(work, self._error(child, status, grown_bytes, MeasureErrorKind.RUN_ERROR))
        else:
            work.build_secs = child.ran_secs()
            if is_ok and (work.folder / builder.KERNEL_FILE).exists():
                work.is_built = True
                self._to_run.append(work)
            else:
                self._finish(work, self._error(child, status, grown_bytes, MeasureErrorKind.BUILD_ERROR))
        self._forget_child(work)
        self._kill_orphans()

    def _error(self, child: Child, status: int, grown_bytes: int, general: MeasureErrorKind) -> MeasureError:
        return error_of(child, status, grown_bytes, self.settings.memory_limit_bytes, general)

    def _forget_child(self, work: Work) -> None:
        child = work.child
        assert child is not None
        child.kill()  # what it started and left behind
        self.selector.unregister(child.sock)
        child.release()
        work.child = None
        work.wants_window = False

    def _kill_orphans(self) -> None:
        """Kill adopted processes: descendants that left their group and outlived their parent."""
        for _ in range(100):
            known = {work.child.pid for work in self._alive if work.child is not None}
            orphans = [pid for pid in children_of_this_process() if pid not in known]
            if not orphans:
                return
            kill_all(orphans)
            for pid in orphans:
                try:
                    os.waitpid(pid, 0)
                except ChildProcessError:
                    continue

    def _finish(self, work: Work, error: MeasureError | None) -> None:
        report = work.report if error is None and work.report is not None else {}
        if report.get("stage") == 2 and not report.get("is_censored"):
            self._keep_library(work)
        self._remove_files(work)
        result = JobResult(
            job_id=work.order.job.job_id,
            run_secs=tuple(report.get("run_secs", ())),  # type: ignore[arg-type]  # from our own child's JSON
            error=error,
            build_secs=work.build_secs,
            stage=int(report.get("stage", 0)),  # type: ignore[call-overload]  # as above
            is_censored=bool(report.get("is_censored", False)),
            is_noisy=bool(report.get("is_noisy", False)),
            load_average=os.getloadavg()[0],
            cases=tuple(stress.results_of(report.get("cases", ()))),  # type: ignore[arg-type]  # as above
        )
        self._finished.append(Done(work.order.batch, result))

    def _keep_library(self, work: Work) -> None:
        order = work.order
        if order.mode is RunMode.STAGED and isinstance(order.job, BuildJob):
            with contextlib.suppress(OSError):  # a kernel may have removed its own library
                (work.folder / builder.KERNEL_FILE).replace(kept_library(order.task_folder, order.job))

    def _remove_files(self, work: Work) -> None:
        shutil.rmtree(work.folder, ignore_errors=True)


def _build_body(order: Order, target: Any, folder: Path, _link: Link) -> None:
    builder.build(order.job, target, folder, checks_arguments=order.mode is RunMode.REFERENCE)
    if order.mode is RunMode.STRESS_REFERENCE:
        builder.build_wide(order.job, target, folder)
