"""What the attribution of the gap to onnxruntime remembers, and its file: one JSON object per line.

Seconds are of one call of the model where they come from a profile, and of one call of the kernel elsewhere.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import journal
from pydantic import TypeAdapter


@dataclass(frozen=True)
class Node:
    """A node of onnxruntime's optimised graph: its typical seconds. ``flop_count`` is None where it is not counted.

    ``kind`` and ``sizes`` are as in `Kernel`.
    """

    name: str
    operator: str
    kind: str
    sizes: tuple[int, ...]
    flop_count: int | None
    secs: float


@dataclass(frozen=True)
class Kernel:
    """A kernel of the tuned model inside the model: ``secs`` of all its ``weight`` calls in one call of the model.

    ``sizes`` tell it from others of its ``kind``, see `gap_groups`. ``flop_count`` is that of one call: of the
    convolution or product alone where there is one, as for onnxruntime's nodes. ``n_trials`` were measured.
    """

    task_id: str
    name: str
    label: str
    kind: str
    sizes: tuple[int, ...]
    weight: int
    flop_count: int
    secs: float
    n_trials: int

    @property
    def call_secs(self) -> float:
        """Seconds of one call, between its neighbours."""
        return self.secs / self.weight


@dataclass(frozen=True)
class Profile:
    """A tuned model beside onnxruntime. ``is_last`` says that it was made in turns with the experiments.

    ``whole_secs`` are whole calls of both, on one thread in seconds of the processor. ``peak_flop_per_sec`` is what
    this machine does with as many threads, None where the compiler has no kernel that measures it.
    """

    model: str
    n_threads: int
    kernels: tuple[Kernel, ...]
    nodes: tuple[Node, ...]
    whole_secs: dict[str, tuple[float, ...]]
    peak_flop_per_sec: float | None
    load: tuple[float, float]
    machine: dict[str, Any] = field(default_factory=dict)
    is_last: bool = False


@dataclass(frozen=True)
class HotBlock:
    """The straight piece of a kernel's machine code that has most of its multiply-adds, or else calls, or vectors.

    ``n_vector`` counts instructions on vector registers, the multiply-adds (``n_fma``) among them; ``n_spills``
    those that load from or store to the stack. ``vector_bits`` is the widest register of a multiply-add, without
    those of any vector instruction. ``n_calls`` are calls of functions, which keep loops from being vectors.
    """

    n_fma: int
    n_vector: int
    n_spills: int
    vector_bits: int
    is_loop: bool
    n_calls: int = 0


@dataclass(frozen=True)
class Experiment:
    """What other schedules and another layout make of a kernel by itself: of one call, in turns.

    Seconds are with weights that come from further away than the core's caches, as inside a model; ``cached_secs``,
    by the same names (first, long, packed), with weights in the cache, which is how kernels are tuned.

    ``first_secs`` is of what the tuning found, ``long_secs`` of what ``n_trials`` in all found, ``packed_secs`` of
    as many in the packed layout: None where there is none, ``packing`` says which or why not. ``relayout_secs`` is
    what bringing activations into that layout and back would take. ``packed_block`` is the packed kernel's.
    ``spread`` is the range of a figure over the turns by its median, of the schedule where that is widest.
    """

    model: str
    n_threads: int
    task_id: str
    first_secs: float
    long_secs: float
    packed_secs: float | None
    relayout_secs: float | None
    cached_secs: dict[str, float]
    packing: str
    n_first_trials: int
    n_trials: int
    n_packed_trials: int
    block: HotBlock | None
    packed_block: HotBlock | None
    spread: float
    load: tuple[float, float]


@dataclass(frozen=True)
class Search:
    """What was searched of a kernel, in stores of its own: trials in all of its space, and in the packed layout."""

    model: str
    n_threads: int
    task_id: str
    n_trials: int
    n_packed_trials: int
    secs: float
    load: tuple[float, float]


Record = Profile | Experiment | Search
_KINDS: dict[str, TypeAdapter[Any]] = {
    "profile": TypeAdapter(Profile),
    "search": TypeAdapter(Search),
    "experiment": TypeAdapter(Experiment),
}


class State:
    """A file of records. Of several of the same model, threads and kernel the last counts."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._read()

    def _read(self) -> None:
        #: By model and threads: by which kernels were chosen, and those made in turns with the experiments.
        self.profiles: dict[tuple[str, int], Profile] = {}
        self.last_profiles: dict[tuple[str, int], Profile] = {}
        self.searches: dict[tuple[str, int, str], Search] = {}
        self.experiments: dict[tuple[str, int, str], Experiment] = {}
        for kind, content in journal.entries(self.path):
            if kind in _KINDS:
                self._take(_KINDS[kind].validate_python(content))

    def add(self, record: Record) -> None:
        """Remember a record; an earlier one of the same is replaced."""
        self._take(record)
        kind = type(record).__name__.lower()
        journal.append(self.path, kind, _KINDS[kind].dump_python(record, mode="json"))

    def experiments_of(self, profile: Profile) -> dict[str, Experiment]:
        """The experiments on a profile's kernels, by task."""
        found = {}
        for (model, n_threads, task_id), experiment in self.experiments.items():
            if (model, n_threads) == (profile.model, profile.n_threads):
                found[task_id] = experiment
        return found

    def is_timed(self, model: str, n_threads: int, task_id: str) -> bool:
        """Whether what the last search of a kernel found was timed."""
        key = (model, n_threads, task_id)
        timed, searched = self.experiments.get(key), self.searches.get(key)
        return timed is not None and searched is not None and timed.n_trials == searched.n_trials

    def forget(self, models: set[str]) -> None:
        """Drop all that is known of these models, for good."""
        kept = [(kind, content) for kind, content in journal.entries(self.path) if content["model"] not in models]
        journal.rewrite(self.path, kept)
        self._read()

    def _take(self, record: Record) -> None:
        if isinstance(record, Profile):
            known = self.last_profiles if record.is_last else self.profiles
            known[record.model, record.n_threads] = record
        elif isinstance(record, Search):
            self.searches[record.model, record.n_threads, record.task_id] = record
        else:
            self.experiments[record.model, record.n_threads, record.task_id] = record
