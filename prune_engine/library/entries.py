"""The library of tuned kernels: what schedule transfer starts from, as plain data.

An entry holds one measured schedule of one kernel: the class of the kernel, the decisions with what each of them
decides, the run times. Nothing in it needs a compiler, so finding and re-fitting entries is arithmetic.
"""

from __future__ import annotations

import hashlib
import json
import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

from prune_engine.candidates import Decision
from prune_engine.space import Subject, VariableKind


@dataclass(frozen=True, slots=True)
class KernelClass:
    """Which kernels can exchange schedules.

    ``strict`` is a hash of all that a kernel is apart from its extents: its statements in order, the kinds of their
    iterators, what they access with extents erased, the data types. ``anchor`` is the same of the statement alone
    that does most of the work, so that kernels which differ only in what is fused to it share it. ``label`` names
    the class for people, ``axes`` gives the extent of each iterator as ``(statement.iterator, extent)``.
    """

    strict: str
    anchor: str
    label: str
    axes: tuple[tuple[str, int], ...] = ()

    def extents(self) -> Mapping[str, int]:
        """Extent of each iterator by ``statement.iterator``."""
        return dict(self.axes)


class Origin(Enum):
    """How an entry came into the library."""

    TUNED = "tuned"  #: a run of ours measured it
    IMPORTED = "imported"  #: from a database of somebody else
    BUILTIN = "builtin"  #: shipped with the product
    WHITELIST = "whitelist"  #: proven correct and fast; only a run's view of the whitelist has such entries


@dataclass(frozen=True, slots=True)
class Choice:
    """One decision of an entry, in the order of the sketch's variables, and what it decides of.

    ``values`` are the factors of a tile, the *value* of a categorical (not its number), or a loop's position.
    """

    name: str
    kind: VariableKind
    values: Decision
    subject: Subject | None = None


@dataclass(frozen=True, slots=True)
class LibraryEntry:
    """One tuned kernel. ``rank`` counts the schedules of one kernel from one run, 0 the best of them.

    ``trace_json`` is the schedule as the compiler writes it, without post-processing. ``peak_flop_per_sec`` is what
    the profile of the run says the device can do, None if it does not say. ``n_trials`` is how many schedules were
    measured to find this one. ``model`` names what the kernel was a part of.
    """

    kernel_class: KernelClass
    target: str
    device_name: str
    n_threads: int
    sketch_id: str
    choices: tuple[Choice, ...]
    trace_json: str
    run_secs: tuple[float, ...]
    default_secs: float | None
    flop_count: int
    peak_flop_per_sec: float | None
    n_trials: int
    model: str
    task_name: str
    origin: Origin
    tvm_version: str
    symbols_version: int
    measured_at: float
    rank: int = 0
    #: Filled in by the library.
    entry_id: str = field(default="", compare=False)

    def __post_init__(self) -> None:
        if not self.run_secs or not all(0 < secs < math.inf for secs in self.run_secs):
            raise ValueError(f"entry of {self.task_name}: run times are seconds > 0, got {self.run_secs}")
        if not self.entry_id:
            object.__setattr__(self, "entry_id", self._digest())

    @property
    def latency_secs(self) -> float:
        """Median seconds of one call."""
        return statistics.median(self.run_secs)

    @property
    def noise(self) -> float:
        """Spread of the run times over their median, 0 for a single one."""
        return (max(self.run_secs) - min(self.run_secs)) / self.latency_secs

    @property
    def flop_per_sec(self) -> float:
        """What the schedule achieved."""
        return self.flop_count / self.latency_secs

    @property
    def efficiency(self) -> float | None:
        """Share of the device's peak, None where that is not known."""
        return self.flop_per_sec / self.peak_flop_per_sec if self.peak_flop_per_sec else None

    @property
    def speedup(self) -> float | None:
        """Untuned over tuned seconds, None where the untuned kernel was not measured."""
        return self.default_secs / self.latency_secs if self.default_secs else None

    def _digest(self) -> str:
        """The same schedule of the same kernel on the same device is the same entry, however often it is added."""
        known_by = [
            self.kernel_class.strict,
            [list(axis) for axis in self.kernel_class.axes],
            self.target,
            self.device_name,
            self.n_threads,
            self.sketch_id,
            [[choice.name, list(choice.values)] for choice in self.choices],
        ]
        return hashlib.sha256(json.dumps(known_by).encode()).hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class LibraryQuery:
    """Which entries are wanted; what is None may be anything. Entries come best speed first."""

    strict: str | None = None
    anchor: str | None = None
    device_name: str | None = None
    n_threads: int | None = None
    model: str | None = None
    limit: int | None = None

    def matches(self, entry: LibraryEntry) -> bool:
        """Whether an entry is one of those wanted."""
        pairs = (
            (self.strict, entry.kernel_class.strict),
            (self.anchor, entry.kernel_class.anchor),
            (self.device_name, entry.device_name),
            (self.n_threads, entry.n_threads),
            (self.model, entry.model),
        )
        return all(wanted is None or wanted == found for wanted, found in pairs)


Entries = Sequence[LibraryEntry]
