"""The whitelist: schedules that were proven correct and fast, which no guess may drop, as plain data.

It is a list of events that only grows (add, check, remove), each with a revision number one higher than the last,
so what held at any revision can be told. `whitelist_events.whitelist_of` makes the entries of it that hold now.
"""

from __future__ import annotations

import hashlib
import json
import statistics
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from prune_engine.library.entries import Choice, KernelClass
from prune_engine.numeric_safety import SafetyCase
from prune_engine.task import TuningTask

#: The strategy that verdicts on whitelisted schedules are filed under.
WHITELIST = "whitelist"


@dataclass(frozen=True, slots=True)
class Check:
    """One examination of an entry on one machine.

    ``run_secs`` and ``default_secs`` are repeats of the schedule and of the untuned kernel, timed in turns, seconds
    per call; empty where something was wrong before that. ``problems`` says in clauses what was wrong; without any
    the check is passed. ``checked_at`` is seconds since the epoch (UTC).
    """

    device_name: str
    n_threads: int
    tvm_version: str
    prune_engine_version: str
    symbols_version: int
    checked_at: float
    numeric: tuple[SafetyCase, ...] = ()
    run_secs: tuple[float, ...] = ()
    default_secs: tuple[float, ...] = ()
    problems: tuple[str, ...] = ()

    @property
    def is_passed(self) -> bool:
        """Whether the schedule was found to be legal, correct and fast."""
        return not self.problems

    @property
    def speedup(self) -> float | None:
        """Untuned over tuned seconds, by medians; None where it was not timed."""
        if not self.run_secs or not self.default_secs:
            return None
        return statistics.median(self.default_secs) / statistics.median(self.run_secs)


@dataclass(frozen=True, slots=True)
class WhitelistEntry:
    """A schedule of one kernel, with the evidence for it.

    ``kernel_class``, ``arg_shapes`` and ``arg_dtypes`` say for which kernels it is. ``workload`` is the kernel as
    the adapter writes it, ``trace_json`` the schedule without post-processing. ``checks`` are in the order of
    their making; the first led to the entry. ``source`` says where the schedule comes from.
    """

    kernel_class: KernelClass
    task_name: str
    target: str
    arg_shapes: tuple[tuple[int, ...], ...]
    arg_dtypes: tuple[str, ...]
    flop_count: int
    sketch_id: str
    choices: tuple[Choice, ...]
    added_by: str
    added_at: float
    note: str
    source: str
    checks: tuple[Check, ...]
    trace_json: str
    workload: str
    #: A hash of the kernel and the schedule; filled in.
    entry_id: str = field(default="", compare=False)

    def __post_init__(self) -> None:
        if not self.checks:
            raise ValueError(f"entry of {self.task_name}: an entry has a check that led to it")
        object.__setattr__(self, "entry_id", self._digest())

    def is_for(self, task: TuningTask) -> bool:
        """Whether it is a schedule of this very kernel: class, extents, shapes and types."""
        known = task.kernel_class
        return (
            known is not None
            and known.strict == self.kernel_class.strict
            and known.axes == self.kernel_class.axes
            and task.arg_shapes == self.arg_shapes
            and task.arg_dtypes == self.arg_dtypes
        )

    def last_check(self, device_name: str, tvm_version: str) -> Check | None:
        """The last check on a device under a version of the compiler, None if there was none."""
        here = (c for c in reversed(self.checks) if (c.device_name, c.tvm_version) == (device_name, tvm_version))
        return next(here, None)

    def _digest(self) -> str:
        """The same schedule of the same kernel is the same entry, whoever found it."""
        known_by = [
            self.kernel_class.strict,
            [list(axis) for axis in self.kernel_class.axes],
            [list(shape) for shape in self.arg_shapes],
            list(self.arg_dtypes),
            self.sketch_id,
            [[choice.name, list(choice.values)] for choice in self.choices],
        ]
        return hashlib.sha256(json.dumps(known_by).encode()).hexdigest()[:16]


class WhitelistAction(Enum):
    """What an event did."""

    ADD = "add"
    CHECK = "check"
    REMOVE = "remove"


@dataclass(frozen=True, slots=True)
class WhitelistEvent:
    """One change of the whitelist. ``revision`` is given by the store that keeps it.

    ``content`` is the entry as JSON text for ADD, the check for CHECK, empty for REMOVE. ``at`` is seconds since
    the epoch (UTC).
    """

    entry_id: str
    action: WhitelistAction
    at: float
    by: str
    reason: str
    strict_class: str
    content: str = ""
    revision: int = 0


@dataclass(frozen=True, slots=True)
class Removal:
    """An entry that was removed, when, by whom and why."""

    entry: WhitelistEntry
    at: float
    by: str
    reason: str
    revision: int


@dataclass(frozen=True, slots=True)
class Whitelist:
    """What holds after all events: entries and removals by id, and what cannot be read, with the reason.

    ``revision`` is that of the last event, 0 without any.
    """

    entries: Mapping[str, WhitelistEntry] = field(default_factory=dict)
    removed: Mapping[str, Removal] = field(default_factory=dict)
    broken: Mapping[str, str] = field(default_factory=dict)
    revision: int = 0

    def of(self, task: TuningTask) -> list[WhitelistEntry]:
        """The entries for this very kernel, the one with the greatest speedup first."""
        found = [entry for entry in self.entries.values() if entry.is_for(task)]
        return sorted(found, key=lambda entry: (-_best_speedup(entry), entry.entry_id))


def _best_speedup(entry: WhitelistEntry) -> float:
    return max((check.speedup or 0.0 for check in entry.checks if check.is_passed), default=0.0)
