"""From how a child ended to a typed error."""

from __future__ import annotations

import re
import signal

from prune_engine.measurement import MeasureError, MeasureErrorKind
from prune_engine.metaschedule.measure.children import MESSAGE_CHARS, Child

_NO_MEMORY = re.compile(
    r"bad_alloc|out of memory|cannot allocate memory|allocation failed|MemoryError", re.IGNORECASE
)
_NO_SPACE = re.compile(r"no space left on device", re.IGNORECASE)
#: A process that got this close to its limit and then failed, failed for lack of memory.
_NEAR_LIMIT = 0.8


def error_of(
    child: Child, wait_status: int, grown_bytes: int, memory_limit_bytes: int, general: MeasureErrorKind
) -> MeasureError:
    """Say why a child that did not finish its job ended.

    ``grown_bytes`` is its peak of resident memory over the server's; ``general`` is its phase's kind for
    what it raised.
    """
    if child.overdue is not None:
        return child.overdue
    for message in child.messages:
        if message["event"] == "failed":
            return MeasureError(MeasureErrorKind(str(message["kind"])), str(message["message"]))
    raised = [str(message["message"]) for message in child.messages if message["event"] == "raised"]
    printed = child.last_lines()
    said = " / ".join([*raised, *([printed] if printed else [])])
    died_of = signal_name(wait_status)
    text = (f"killed by {died_of}" if died_of else "") + (": " if died_of and said else "") + said
    text = text[:MESSAGE_CHARS] or f"ended without a result, exit status {wait_status >> 8}"
    if _NO_SPACE.search(said):
        return MeasureError(general, text)
    is_near_limit = grown_bytes > _NEAR_LIMIT * memory_limit_bytes
    # Nobody but the kernel, short of memory, sends SIGKILL here: our own kills are in ``overdue``.
    if _NO_MEMORY.search(said) or died_of == "SIGKILL" or is_near_limit:
        limit = f"; the limit is {memory_limit_bytes / 2**20:.0f} MiB"
        return MeasureError(MeasureErrorKind.OUT_OF_MEMORY, text[: MESSAGE_CHARS - len(limit)] + limit)
    if died_of is not None or not raised:
        return MeasureError(MeasureErrorKind.CRASH, text)
    return MeasureError(general, text)


def signal_name(wait_status: int) -> str | None:
    """Name of the signal in a wait status, or None for a process that exited."""
    number = wait_status & 0x7F
    if not number:
        return None
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
