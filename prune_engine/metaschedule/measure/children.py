"""Forked children: isolation on their side, stopping, killing and reading them on the server's."""

from __future__ import annotations

import contextlib
import fcntl
import gc
import json
import os
import resource
import signal
import socket
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

from prune_engine.measurement import MeasureError, MeasureErrorKind
from prune_engine.metaschedule.measure.linux import die_with_parent, is_stopped, kill_group, status_bytes

Message = Mapping[str, object]
#: Largest message and longest error text of a child, far below what its socket buffers.
_MESSAGE_BYTES = 65536
MESSAGE_CHARS = 2000
#: What a child may print, both streams together; more is refused by the kernel, which the child may ignore.
_LOG_BYTES = 65536
#: What TVM's handler of SIGSEGV prints before the stack, which is as long as threads are deep in calls.
_STACK_BANNER = "!!!!!!! Segfault encountered !!!!!!!"
#: Address space on top of the memory limit: thread stacks and the allocator's reserve, touched or not.
_ADDRESS_SLACK_BYTES = 2 << 30


class JobFailedError(Exception):
    """Raised inside a child to end it with a typed error."""

    def __init__(self, kind: MeasureErrorKind, message: str) -> None:
        super().__init__(message)
        self.kind = kind


class Link:
    """A child's line to the server: one JSON object per packet, so that half a message cannot exist."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock

    def send(self, event: str, **fields: object) -> None:
        """Send an event."""
        self._sock.send(json.dumps({"event": event, **fields}).encode())

    def receive(self) -> Message:
        """Wait for the server's next message; ends the process when the server is gone."""
        packet = self._sock.recv(_MESSAGE_BYTES)
        if not packet:
            os._exit(1)
        message: Message = json.loads(packet)
        return message


@dataclass(slots=True)
class Child:
    """A forked process as the server sees it. ``deadline`` (monotonic) is None while no limit applies."""

    pid: int
    sock: socket.socket
    started_at: float
    deadline: float | None
    _log_fd: int
    overdue: MeasureError | None = None
    paused_at: float | None = None
    paused_secs: float = 0.0
    messages: list[Message] = field(default_factory=list)

    def pause(self) -> None:
        """Stop the whole process group; the deadline moves along."""
        if self.paused_at is None:
            self.paused_at = time.monotonic()
            kill_group(self.pid, signal.SIGSTOP)

    def wait_until_paused(self, give_up_at: float) -> None:
        """Return when the kernel has taken the process off its processor (a matter of microseconds)."""
        while not is_stopped(self.pid) and time.monotonic() < give_up_at:
            time.sleep(0.0002)

    def resume(self) -> None:
        """Let the process group go on."""
        if self.paused_at is None:
            return
        paused_secs = time.monotonic() - self.paused_at
        self.paused_secs += paused_secs
        self.paused_at = None
        if self.deadline is not None:
            self.deadline += paused_secs
        kill_group(self.pid, signal.SIGCONT)

    def limit(self, secs: float | None) -> None:
        """Give the process that much more time from now on, or any amount."""
        self.deadline = None if secs is None else time.monotonic() + secs

    def is_overdue(self, now: float) -> bool:
        """Whether the deadline has passed; never while paused."""
        return self.deadline is not None and self.paused_at is None and now > self.deadline

    def kill(self) -> None:
        """Kill the whole process group, which works on stopped processes too."""
        kill_group(self.pid, signal.SIGKILL)

    def read(self) -> list[Message]:
        """New messages of the child; what is not a message is dropped."""
        new: list[Message] = []
        while True:
            try:
                packet = self.sock.recv(_MESSAGE_BYTES, socket.MSG_DONTWAIT)
            except (BlockingIOError, ConnectionError):
                break
            if not packet:
                break
            try:
                message = json.loads(packet)
            except ValueError:
                continue
            if isinstance(message, dict):
                new.append(message)
        self.messages += new
        return new

    def ran_secs(self) -> float:
        """Seconds since the start, pauses excluded."""
        return time.monotonic() - self.started_at - self.paused_secs

    def last_lines(self, n_chars: int = 400) -> str:
        """The end of what the child printed, before the stack if it crashed: a kernel's own words say more."""
        text = os.pread(self._log_fd, _LOG_BYTES, 0).rstrip(b"\0").decode(errors="replace")
        words, _, stack = text.partition(_STACK_BANNER)
        return _in_one_line(words)[-n_chars:] or _in_one_line(stack)[:n_chars]

    def release(self) -> None:
        """Close the server's files of a child that has been waited for."""
        self.sock.close()
        os.close(self._log_fd)


def _in_one_line(text: str) -> str:
    return " / ".join(line.strip() for line in text.splitlines() if line.strip())


def spawn(body: Callable[[Link], None], *, limit_secs: float, memory_limit_bytes: int, folder: Path) -> Child:
    """Fork a child that runs ``body`` in ``folder`` and exits; whatever body raises becomes its last message."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    log_fd = _bounded_log()
    server_pid = os.getpid()
    pid = os.fork()
    if pid == 0:
        try:
            _isolate(server_pid, theirs.fileno(), log_fd, memory_limit_bytes, folder)
        except BaseException:  # noqa: BLE001  # this copy of the server must end here, not run on
            os._exit(1)
        _run(body, Link(theirs))
    theirs.close()
    # Both sides do this, so that the group exists before either needs it.
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.setpgid(pid, pid)
    now = time.monotonic()
    return Child(pid, ours, now, now + limit_secs, log_fd)


def _bounded_log() -> int:
    fd = os.memfd_create("prune-engine-log", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.ftruncate(fd, _LOG_BYTES)
    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK)
    return fd


def _isolate(server_pid: int, socket_fd: int, log_fd: int, memory_limit_bytes: int, folder: Path) -> None:
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.setpgid(0, 0)
    die_with_parent()
    if os.getppid() != server_pid:  # it died before we asked
        os._exit(1)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.dup2(log_fd, 1)
    os.dup2(log_fd, 2)
    os.closerange(3, socket_fd)
    os.closerange(socket_fd + 1, 1 << 16)
    # The kernel should sacrifice a candidate before anything else when memory runs out.
    with contextlib.suppress(OSError):  # a read-only /proc
        Path("/proc/self/oom_score_adj").write_text("1000")
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    limit_memory(memory_limit_bytes)
    os.chdir(folder)


def limit_memory(limit_bytes: int) -> None:
    """Bound what this process allocates from now on."""
    data = status_bytes("VmData") + limit_bytes
    # Shared mappings do not count as data, hence the second limit.
    space = status_bytes("VmSize") + limit_bytes + _ADDRESS_SLACK_BYTES
    for kind, wanted in ((resource.RLIMIT_DATA, data), (resource.RLIMIT_AS, space)):
        _, hard = resource.getrlimit(kind)
        value = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(kind, (value, hard))


def _run(body: Callable[[Link], None], link: Link) -> NoReturn:
    gc.disable()  # a collection would copy the server's pages, and this process ends soon
    code = 0
    try:
        body(link)
    except JobFailedError as error:
        link.send("failed", kind=error.kind.value, message=str(error)[:MESSAGE_CHARS])
    except MemoryError:
        link.send("failed", kind=MeasureErrorKind.OUT_OF_MEMORY.value, message="an allocation failed")
    except BaseException as error:  # noqa: BLE001  # process boundary: it becomes the job's error
        link.send("raised", message=f"{type(error).__name__}: {error}"[:MESSAGE_CHARS])
        code = 1
    os._exit(code)
