"""One server process at a time, from the pool's side: start, talk, notice its death, replace, end."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import site
import socket
import subprocess
import sys
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path

from prune_engine.errors import MeasureServerError
from prune_engine.metaschedule.measure.jobs import JobResult
from prune_engine.metaschedule.measure.linux import COOKIE_VARIABLE, kill_marked
from prune_engine.metaschedule.measure.protocol import (
    JOBS_FOLDER,
    Cancel,
    Configure,
    Done,
    Order,
    Ready,
    ToServer,
    Wait,
)
from prune_engine.metaschedule.measure.settings import MeasureSettings
from prune_engine.metaschedule.threads import thread_variables

_MODULE = "prune_engine.metaschedule.measure.server"
_LOG = "server.log"


class ServerDiedError(Exception):
    """The server's process ended while it was needed; the text is what is known about why.

    ``was_working`` says that it had its orders; otherwise it was found dead before it got them all.
    """

    def __init__(self, how: str, *, was_working: bool = False) -> None:
        super().__init__(how)
        self.was_working = was_working


@dataclass(frozen=True, slots=True)
class ServerProcess:
    """A server that loads the compiler and waits to be configured; ``socket`` is our end of the line to it."""

    process: subprocess.Popen[bytes]
    socket: socket.socket

    def end(self, folder: Path) -> None:
        """End it with everything it started."""
        with contextlib.suppress(OSError):
            # Not only closed: a process forked from ours may hold a copy of this end.
            self.socket.shutdown(socket.SHUT_RDWR)
        self.socket.close()
        try:
            self.process.wait(timeout=3)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        kill_marked(str(folder))


def launch(folder: Path, n_threads: int, *, pin_cpus: bool) -> ServerProcess:
    """Start a server that works in ``folder``; return at once. Raises MeasureServerError."""
    ours, theirs = socket.socketpair()
    try:
        with (folder / _LOG).open("wb") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", _MODULE, str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=[theirs.fileno()],
                # Out of the terminal's reach: Ctrl-C must reach the engine alone, which then decides.
                start_new_session=True,
                # An empty folder: modules that lie in the user's folder must not shadow others.
                cwd=folder,
                env=_environment(folder, n_threads, pin_cpus=pin_cpus),
            )
    except OSError as error:
        ours.close()
        raise MeasureServerError(
            "the measurement server cannot be started", who=sys.executable, got=str(error)
        ) from error
    finally:
        theirs.close()
    return ServerProcess(process, ours)


class ServerClient:
    """The connection to the current server process."""

    def __init__(self, settings: MeasureSettings, folder: Path, started: ServerProcess | None = None) -> None:
        """Configure ``started``, or start a server. Raises MeasureServerError."""
        self._settings = settings
        self._folder = folder
        self._is_ready = False
        self._start(started)

    def _start(self, started: ServerProcess | None = None) -> None:
        settings = self._settings
        self._server = started or launch(self._folder, settings.n_threads, pin_cpus=settings.pin_cpus)
        self._process = self._server.process
        self._connection = Connection(os.dup(self._server.socket.fileno()))
        self._is_ready = False
        with contextlib.suppress(ServerDiedError):  # the first use reports it
            self._send(Configure(self._settings, str(self._folder)))

    def submit(self, order: Order) -> None:
        """Give the server an order. Raises ServerDiedError."""
        self._await_ready()
        self._send(order)

    def wait_for_result(self, batch: int) -> JobResult:
        """Sleep until one order of a batch is through. Raises ServerDiedError."""
        self._await_ready()
        self._send(Wait())
        while True:
            message = self._receive()
            if isinstance(message, Done) and message.batch == batch:
                return message.result
            self._send(Wait())  # a leftover of an earlier batch took our turn

    def cancel(self) -> None:
        """Drop all orders of the server."""
        with contextlib.suppress(ServerDiedError):  # then they are dropped too
            self._send(Cancel())

    def restart(self) -> None:
        """Clear up after the old server and start a new one. Raises MeasureServerError."""
        self._end()
        shutil.rmtree(self._folder / JOBS_FOLDER, ignore_errors=True)
        self._start()

    def close(self) -> None:
        """End the server and everything it started."""
        self._end()

    def _await_ready(self) -> None:
        if self._is_ready:
            return
        if not self._poll(self._settings.start_timeout_secs):
            raise MeasureServerError(
                "the measurement server did not get ready",
                who="measurement",
                expected=f"within {self._settings.start_timeout_secs:g} s",
                got=self._last_words(),
            )
        message = self._receive()
        if isinstance(message, Ready) and message.problem is not None:
            raise MeasureServerError("the measurement server cannot work", who="measurement", got=message.problem)
        self._is_ready = True

    def _poll(self, secs: float) -> bool:
        try:
            return self._connection.poll(secs)
        except OSError as error:
            raise ServerDiedError(self._last_words()) from error

    def _send(self, message: ToServer) -> None:
        try:
            self._connection.send(message)
        except OSError as error:
            raise ServerDiedError(self._last_words()) from error
        except BaseException:
            # Interrupted in the middle of a message: nothing sensible can follow on this line.
            self._process.kill()
            raise

    def _receive(self) -> object:
        try:
            return self._connection.recv()
        except (OSError, EOFError) as error:
            raise ServerDiedError(self._last_words(), was_working=self._is_ready) from error
        except BaseException:
            self._process.kill()
            raise

    def _end(self) -> None:
        self._connection.close()
        self._server.end(self._folder)

    def _last_words(self) -> str:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=1)
        code = self._process.returncode
        if code is None:
            how = "still running"
        elif code < 0:
            how = f"killed by {signal.Signals(-code).name}"
        else:
            how = f"exit status {code}"
        with contextlib.suppress(OSError):
            lines = (self._folder / _LOG).read_text(errors="replace").strip().splitlines()
            if lines:
                how += f", said: {lines[-1][:500]}"
        return how


def _environment(folder: Path, n_threads: int, *, pin_cpus: bool) -> dict[str, str]:
    environment = dict(os.environ)
    environment[COOKIE_VARIABLE] = str(folder)
    # TVM reads this when its thread pool starts, which happens in each run child.
    environment.update(thread_variables(n_threads))
    if pin_cpus:
        # TVM would bind its workers to processors counted from 0, whether we may use those or not.
        environment["TVM_BIND_THREADS"] = "0"
    # A process with threads cannot be forked safely, and numpy's would start at import.
    for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        environment[name] = "1"
    package_parent = str(Path(__file__).resolve().parents[3])
    if package_parent not in (*site.getsitepackages(), site.getusersitepackages()):
        paths = [str(Path(p).resolve()) for p in environment.get("PYTHONPATH", "").split(os.pathsep) if p]
        environment["PYTHONPATH"] = os.pathsep.join([*paths, package_parent])
    return environment
