"""What the engine asks of a store: remember tasks, candidates, measurements, comparisons and verdict counts."""

from __future__ import annotations

import abc
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from prune_engine.candidates import Decision
from prune_engine.errors import StoreError
from prune_engine.library.entries import LibraryEntry, LibraryQuery
from prune_engine.measurement import Comparison, MeasuredCandidate, Measurement
from prune_engine.task import TuningTask
from prune_engine.verdicts import Verdict
from prune_engine.whitelist.entries import WhitelistEvent


@dataclass(frozen=True, slots=True)
class StoredCandidate:
    """A measured candidate as read back. The default schedule has no sketch and no decisions."""

    candidate_id: str
    sketch_id: str | None
    sketch_index: int | None
    decisions: tuple[Decision, ...]
    trace_json: str | None
    measurement: Measurement


@dataclass(frozen=True, slots=True)
class RunRecord:
    """One invocation of the engine. ``manifest`` holds versions, device, load, seed and options (JSON values)."""

    run_id: str
    started_at: float
    finished_at: float | None
    manifest: Mapping[str, object]


class Store(abc.ABC):
    """Durable memory, shared by concurrent tuners.

    Every method that writes is one transaction: after it returns the data survives ``kill -9``; if it
    raises nothing of it was written. A measurement is keyed by (task, candidate, device, threads): writing
    the same key again changes nothing, so a race between two tuners cannot store a candidate twice. Not
    thread-safe: one Store per thread. Raises StoreError and its kinds, nothing else.
    """

    url: str

    @abc.abstractmethod
    def start_run(self, manifest: Mapping[str, object]) -> str:
        """Record the start of a run; return its id."""

    @abc.abstractmethod
    def finish_run(self, run_id: str) -> None:
        """Record that a run ended in order."""

    @abc.abstractmethod
    def add_tasks(self, run_id: str, tasks: Sequence[TuningTask]) -> None:
        """Remember tasks (their description, not their module) and that this run tuned them."""

    @abc.abstractmethod
    def tasks(self, run_id: str) -> Sequence[TuningTask]:
        """The tasks of a run as it knew them, without their modules, by id; none of an unknown run."""

    @abc.abstractmethod
    def add_measured(
        self, run_id: str, task_id: str, sketch_ids: Sequence[str], measured: Sequence[MeasuredCandidate]
    ) -> None:
        """Write measurements. ``sketch_ids[i]`` is the structure hash of the task's sketch number i.

        The run was started and the task added before.
        """

    @abc.abstractmethod
    def measured_ids(self, task_id: str, device_name: str, n_threads: int) -> frozenset[str]:
        """Ids of all candidates of a task ever measured on this device with this many threads, failures too."""

    @abc.abstractmethod
    def candidates(self, task_id: str, device_name: str, n_threads: int) -> Sequence[StoredCandidate]:
        """Everything measured for a task on this device with this many threads, in the order of writing."""

    @abc.abstractmethod
    def add_comparison(
        self, run_id: str, task_id: str, device_name: str, n_threads: int, comparison: Comparison
    ) -> None:
        """Write the interleaved re-timing of a task's finalists."""

    @abc.abstractmethod
    def last_comparison(self, task_id: str, device_name: str, n_threads: int) -> Comparison | None:
        """The comparison of a task that was written last, or None."""

    @abc.abstractmethod
    def add_verdicts(self, run_id: str, task_id: str, verdicts: Sequence[Verdict]) -> None:
        """Write verdicts; those equal in stage, strategy, outcome, reason and candidate (or none) add up.

        Of their evidence the newest stays.
        """

    @abc.abstractmethod
    def verdicts(self, task_id: str, candidate_id: str | None = None) -> Sequence[Verdict]:
        """A task's verdicts: all of them, or those on one candidate, in the order in which each was first reached.

        Counts are summed over all runs.
        """

    @abc.abstractmethod
    def add_entries(self, entries: Sequence[LibraryEntry]) -> int:
        """Write entries of the library; of those already there the faster stays. Returns how many were new."""

    @abc.abstractmethod
    def find(self, query: LibraryQuery) -> Sequence[LibraryEntry]:
        """The entries of the library asked for, fastest (flop/s) first.

        One that cannot be read is passed over; a warning names it.
        """

    @abc.abstractmethod
    def remove_entries(self, entry_ids: Sequence[str]) -> int:
        """Remove entries of the library. Returns how many there were."""

    def whitelist_events(self, strict_class: str | None = None) -> Sequence[WhitelistEvent]:  # noqa: ARG002
        """The changes of the whitelist in their order: all, or those on entries of one class of kernels.

        A store that keeps no whitelist has none.
        """
        return ()

    def add_whitelist_events(
        self,
        events: Sequence[WhitelistEvent],  # noqa: ARG002
        *,
        after: int | None = None,  # noqa: ARG002
    ) -> int:
        """Write changes of the whitelist in one transaction; return the revision of the last.

        With ``after`` nothing is written, and StoreError raised, unless that is the whitelist's revision now: what
        was decided by an older one may not hold.
        """
        raise StoreError("keeps no whitelist", who=self.url, remedy="Name a store in a file by --store.")

    def add_to_manifest(self, run_id: str, added: Mapping[str, object]) -> None:  # noqa: B027
        """Note in a run's manifest what is known at its end; what it has already stays. Raises StoreError.

        A store need not: without it the manifest is that of the start.
        """

    @abc.abstractmethod
    def runs(self) -> Sequence[RunRecord]:
        """All runs, newest first."""

    @abc.abstractmethod
    def close(self) -> None:
        """Release the store. Further calls raise StoreError."""
