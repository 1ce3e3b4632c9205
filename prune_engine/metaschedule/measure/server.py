"""The measuring server: imports TVM once, then forks a child per build and per run.

Started as ``python -m prune_engine.metaschedule.measure.server FD`` with one end of a socket pair. It stays
single-threaded, never starts TVM's thread pool and never runs a kernel, so that forking it is safe and
children start in milliseconds. It ends when the pool's process ends, however that happens, and takes
everything with it: its children (which would also die by themselves), what they left behind, and the files.
"""

from __future__ import annotations

import gc
import os
import selectors
import shutil
import signal
import socket
import sys
from collections.abc import Callable
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from prune_engine.metaschedule._compat import import_tvm
from prune_engine.metaschedule.measure.conductor import Conductor
from prune_engine.metaschedule.measure.linux import adopt_orphans, kill_marked
from prune_engine.metaschedule.measure.protocol import Cancel, Configure, Order, Ready, Wait

#: How often the server looks whether it still has its parent, should the end of the socket be held open.
_PARENT_CHECK_SECS = 2.0


class _PoolGoneError(Exception):
    """The pool closed its end, or its process ended."""


def main(fd: int) -> None:
    """Serve one pool until it is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the pool's business
    adopt_orphans()
    connection = Connection(fd)
    parent_pid = os.getppid()
    folder = Path.cwd()
    try:
        problem = _problem_of(_load_compiler)  # before it is known for what
        configure = connection.recv()
        assert isinstance(configure, Configure)
        folder = Path(configure.folder)
        target: Any = None

        def preload() -> None:
            nonlocal target
            target = _preload(configure.settings.target, folder)

        problem = problem or _problem_of(preload)
        if problem is not None:
            connection.send(Ready(problem=problem))
            return
        connection.send(Ready())
        selector = selectors.DefaultSelector()
        conductor = Conductor(configure.settings, target, folder, selector, connection.send)
        try:
            _serve(connection, conductor, selector, parent_pid)
        finally:
            conductor.cancel()
    except (_PoolGoneError, EOFError, BrokenPipeError, ConnectionResetError):
        kill_marked(str(folder))
        shutil.rmtree(folder, ignore_errors=True)


def _problem_of(step: Callable[[], None]) -> str | None:
    """Do something that may fail in any way; say how it did."""
    try:
        step()
    except Exception as error:  # noqa: BLE001  # process boundary: the pool raises it
        return f"{type(error).__name__}: {error}"
    return None


def _load_compiler() -> None:
    import_tvm()
    from tvm.script import tirx as T  # noqa: N812, F401  # what printed modules are parsed with


def _preload(target_json: str, folder: Path) -> Any:
    """Compile something small, so that no child pays for what is imported on first use."""
    tvm = import_tvm()
    target = tvm.target.Target(target_json)
    te = tvm.te
    a = te.placeholder((16,), name="a")
    b = te.compute((16,), lambda i: a[i] + 1.0, name="b")
    module = tvm.IRModule({"main": te.create_prim_func([a, b])})
    from prune_engine.metaschedule.measure.builder import compile_module

    object_file = folder / f"preload-{os.getpid()}.o"
    compile_module(tvm.ir.save_json(module), target, checks_arguments=True).write_to_file(str(object_file))
    object_file.unlink()
    # Collected once and for all: children share these pages as long as nobody touches them.
    gc.collect()
    gc.freeze()
    return target


def _serve(connection: Connection, conductor: Conductor, selector: selectors.BaseSelector, parent_pid: int) -> None:
    selector.register(connection, selectors.EVENT_READ, partial(_receive, connection, conductor))
    wakeup, wakeup_writer = socket.socketpair()
    for end in (wakeup, wakeup_writer):
        end.setblocking(False)
    # The end of a child must interrupt the select; the handler only has to exist.
    signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
    signal.set_wakeup_fd(wakeup_writer.fileno(), warn_on_full_buffer=False)
    selector.register(wakeup, selectors.EVENT_READ, partial(_drain, wakeup))
    while os.getppid() == parent_pid:
        conductor.advance()
        secs = conductor.secs_to_next_deadline()
        for key, _ in selector.select(_PARENT_CHECK_SECS if secs is None else min(secs, _PARENT_CHECK_SECS)):
            key.data()
    raise _PoolGoneError


def _receive(connection: Connection, conductor: Conductor) -> None:
    message = connection.recv()
    if isinstance(message, Order):
        conductor.submit(message)
    elif isinstance(message, Wait):
        conductor.is_pool_asleep = True
    elif isinstance(message, Cancel):
        conductor.cancel()


def _drain(sock: socket.socket) -> None:
    try:
        sock.recv(4096)
    except BlockingIOError:
        return


if __name__ == "__main__":
    main(int(sys.argv[1]))
