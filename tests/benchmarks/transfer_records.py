"""What the evaluation of schedule transfer remembers, and its file: one JSON object per line.

A record is written once, when it is complete, so an evaluation that is stopped anywhere goes on where it was.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import journal
from pydantic import TypeAdapter

#: Whose schedule of a kernel is meant: the compiler's own, the best of the full tuning, the one of a tuning that
#: started from the library, or the best of the first so many transferred ones (0: the first, unmeasured).
UNTUNED, FULL, SEEDED = "untuned", "full", "seeded"
#: The library that is not a single source but all that a subject may be given.
ALL = "all"
#: What is left of a run with that library without its search, and without the library: what each of them is worth.
SEEDS_ONLY, SEARCH_ONLY = "all, transferred only", "nothing, search only"
_NAMES = {SEEDS_ONLY: "seeds-at", SEARCH_ONLY: "search-at"}


def at(limit: int, library: str = ALL) -> str:
    """The contender that was given ``limit`` measurements per kernel."""
    return f"{_NAMES.get(library, 'at')}-{limit}"


@dataclass(frozen=True)
class Trial:
    """A measured candidate: seconds since the tuning began, and how it went (None: it failed)."""

    secs: float
    latency_secs: float | None
    is_censored: bool = False


@dataclass(frozen=True)
class TunedTask:
    """A kernel of a tuned model; ``trace`` is the packed schedule that was best, None where none beat the default.

    ``strict`` and ``anchor`` are its classes, None where the adapter could not tell. One that is not ``is_tunable``
    has nothing to choose.
    """

    task_id: str
    name: str
    weight: int
    flop_count: int
    strict: str | None
    anchor: str | None
    label: str
    default_secs: float | None
    trials: tuple[Trial, ...] = ()
    trace: str | None = None
    is_tunable: bool = True


@dataclass(frozen=True)
class Tuned:
    """A run of ``tune`` on a subject with a budget of ``seconds``.

    ``ready_secs`` is when the tuning began and ``wall_secs`` when the process ended, from its start.
    """

    subject: str
    seconds: float
    n_threads: int
    ready_secs: float
    wall_secs: float
    tasks: tuple[TunedTask, ...]
    load: tuple[float, float]
    machine: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Policy:
    """How one policy's seeds for a kernel fared, as in prune_engine.transfers.log.PolicyReport."""

    policy: str
    n_seeds: int
    n_refused: int
    n_failed: int
    n_ran: int
    misses: dict[str, int]


@dataclass(frozen=True)
class MovedResult:
    """What so many measurements made of a kernel.

    ``policy`` and ``source`` say where the best seed comes from, None where the untuned kernel ships. ``trace`` is
    the packed schedule that ships. Seconds are those of the finals; ``best_secs`` of what was not measured is None.
    """

    n_sources: dict[str, int]
    policies: tuple[Policy, ...]
    policy: str | None
    source: str | None
    n_measured: int
    failures: dict[str, int]
    default_secs: float | None
    best_secs: float | None
    trace: str | None
    stop_reason: str


@dataclass(frozen=True)
class MovedTask:
    """What a library was worth to a kernel, by number of measurements."""

    task_id: str
    results: dict[int, MovedResult]


@dataclass(frozen=True)
class Moved:
    """A subject's kernels from a library: ``library`` is the name of one source, or ``all`` others together.

    Of `SEEDS_ONLY` and `SEARCH_ONLY` half of what a run does is left out.

    ``secs`` are those of proposing and measuring, by number of measurements.
    """

    subject: str
    library: str
    n_entries: int
    tasks: tuple[MovedTask, ...]
    secs: dict[int, float]
    load: tuple[float, float]

    @property
    def limits(self) -> list[int]:
        """The numbers of measurements per kernel."""
        return sorted(self.secs)


@dataclass(frozen=True)
class Timed:
    """A subject's kernels timed in turns, seconds by task and contender, and why some failed."""

    subject: str
    library: str
    latency_secs: dict[str, dict[str, float]]
    failures: dict[str, dict[str, str]]
    load: tuple[float, float]


@dataclass(frozen=True)
class Whole:
    """The whole model timed in turns, seconds of each round by contender, onnxruntime too if it could run."""

    subject: str
    latency_secs: dict[str, tuple[float, ...]]
    is_correct: bool
    load: tuple[float, float]


@dataclass(frozen=True)
class Command:
    """What `prune-engine transfer` did for a subject with the library of all others.

    ``latency_secs`` are medians of whole calls, ``network_changes`` say what was decided inside the model.
    """

    subject: str
    library: str
    measurements: int
    wall_secs: float
    n_measured: int
    is_tuned: bool
    is_correct: bool
    latency_secs: dict[str, float]
    network_changes: tuple[str, ...]
    load: tuple[float, float]


Record = Tuned | Moved | Timed | Whole | Command
_KINDS: dict[str, TypeAdapter[Any]] = {
    "tuned": TypeAdapter(Tuned),
    "seeded": TypeAdapter(Tuned),
    "moved": TypeAdapter(Moved),
    "timed": TypeAdapter(Timed),
    "whole": TypeAdapter(Whole),
    "command": TypeAdapter(Command),
}


class NeverBeganError(Exception):
    """The seconds were over before a tuning could begin: too few for so many kernels."""


class State:
    """A file of records. Of several of one kind, subject and library the last counts."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._read()

    def _read(self) -> None:
        self.tuned: dict[str, Tuned] = {}
        self.seeded: dict[str, Tuned] = {}
        self.moved: dict[tuple[str, str], Moved] = {}
        self.timed: dict[tuple[str, str], Timed] = {}
        self.whole: dict[str, Whole] = {}
        self.command: dict[tuple[str, str, int], Command] = {}
        for kind, content in journal.entries(self.path):
            if kind in _KINDS:
                self._take(kind, _KINDS[kind].validate_python(content))

    def _take(self, kind: str, record: Any) -> None:
        names = (getattr(record, name, None) for name in ("subject", "library", "measurements"))
        key = tuple(name for name in names if name is not None)
        getattr(self, kind)[key[0] if len(key) == 1 else key] = record

    def add(self, kind: str, record: Record) -> None:
        """Remember a record; an earlier one of the same is replaced."""
        self._take(kind, record)
        journal.append(self.path, kind, _KINDS[kind].dump_python(record, mode="json"))

    def forget(self, is_unwanted: Callable[[str, str, str | None], bool]) -> None:
        """Drop records for good, by their kind, subject and, where they have one, library."""
        kept = [
            (kind, content)
            for kind, content in journal.entries(self.path)
            if kind in _KINDS and not is_unwanted(kind, content["subject"], content.get("library"))
        ]
        journal.rewrite(self.path, kept)
        self._read()
