"""What the engine knows of one task while it runs: what was measured, the incumbent, and what is left."""

from __future__ import annotations

import bisect
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from prune_engine.audits.rates import AuditLog
from prune_engine.candidates import Candidate, CandidateBatch, SeenRows, rows_of
from prune_engine.lifecycle import TaskSummary
from prune_engine.measurement import DEFAULT_CANDIDATE, Comparison, MeasuredCandidate, Measurement
from prune_engine.space import DesignSpace, Sketch
from prune_engine.store.base import StoredCandidate
from prune_engine.task import TuningTask
from prune_engine.transfers.log import TransferLog


@dataclass(frozen=True, slots=True)
class Incumbent:
    """A measured schedule that may ship."""

    candidate: Candidate
    latency_secs: float
    trace_json: str | None


@dataclass(frozen=True, slots=True)
class Unmeasured:
    """A schedule that ships without having been measured; ``source`` says where it comes from."""

    candidate: Candidate
    trace_json: str
    source: str


@dataclass(slots=True)
class TaskState:
    """Mutable state of one task; ``space`` is None when there is nothing to tune or no space could be made."""

    task: TuningTask
    space: DesignSpace | None = None
    #: The space before any rule cut it, and its size.
    full_space: DesignSpace | None = None
    full_size: int = 1
    #: Sketches of transferred schedules that none of the space holds, one candidate each, numbered after its own.
    fixed: list[Sketch] = field(default_factory=list)
    transfer: TransferLog = field(default_factory=TransferLog)
    default: Measurement | None = None
    seen: SeenRows = field(default_factory=SeenRows)
    known_ids: set[str] = field(default_factory=set)
    #: Comparable (not censored) schedules, best first.
    ranking: list[Incumbent] = field(default_factory=list)
    failures: Counter[str] = field(default_factory=Counter)
    #: An example message of each kind of failure.
    failure_examples: dict[str, str] = field(default_factory=dict)
    #: Best latency after each trial, for the scheduler and the plateau rule.
    history: list[float] = field(default_factory=list)
    n_trials: int = 0
    n_new: int = 0
    #: Rounds in a row that proposed nothing new.
    n_barren_rounds: int = 0
    #: Trials in a row that the verifier thought not worth it and that were no gain.
    n_hopeless_trials: int = 0
    audits: AuditLog = field(default_factory=AuditLog)
    stop_reason: str | None = None
    #: What ships, once that is decided: None is the default schedule.
    winner: Incumbent | None = None
    #: Schedules that beat the default in the finals, the winner first.
    contenders: tuple[Incumbent, ...] = ()
    unmeasured: Unmeasured | None = None
    #: Why schedules that would have shipped do not: they compute something else on hard inputs.
    unsafe: tuple[str, ...] = ()
    #: Of the finals, where they were timed.
    comparison: Comparison | None = None
    is_decided: bool = False
    final_secs: float | None = None
    final_default_secs: float | None = None

    @property
    def default_secs(self) -> float | None:
        """Latency of the untuned schedule; None if it is not known or failed."""
        return self.default.latency_secs if self.default else None

    @property
    def best_secs(self) -> float | None:
        """Latency of the best schedule so far, the default included."""
        known = [s for s in (self.default_secs, self.ranking[0].latency_secs if self.ranking else None) if s]
        return min(known) if known else None

    @property
    def latencies(self) -> list[tuple[str, float]]:
        """Id and seconds of each comparable schedule, best first; without the default."""
        return [(incumbent.candidate.candidate_id, incumbent.latency_secs) for incumbent in self.ranking]

    @property
    def bench_space(self) -> DesignSpace:
        """What the workbench measures in: the space and the fixed sketches. There must be a space."""
        assert self.space is not None, "a task without a space has no candidates"
        return replace(self.space, sketches=(*self.space.sketches, *self.fixed)) if self.fixed else self.space

    @property
    def is_open(self) -> bool:
        """Whether the task can still use trials."""
        return self.space is not None and self.stop_reason is None

    def restore(self, stored: Sequence[StoredCandidate]) -> list[tuple[Candidate, Measurement]]:
        """Take in what earlier runs measured; return what there is to learn from."""
        lessons: list[tuple[Candidate, Measurement]] = []
        for row in stored:
            if row.candidate_id == DEFAULT_CANDIDATE:
                self.default = row.measurement
                continue
            if row.sketch_index is None:
                continue
            index = self._index_of(row.sketch_index, row.sketch_id)
            known_sketch = index is not None
            candidate = Candidate(row.candidate_id, row.sketch_index if index is None else index, row.decisions)
            self._take(candidate, row.measurement, row.trace_json, known_sketch)
            if known_sketch:
                lessons.append((candidate, row.measurement))
        return lessons

    def add(self, measured: MeasuredCandidate) -> None:
        """Take in a new measurement."""
        if measured.candidate is None:
            self.default = measured.measurement
            return
        self.n_new += 1
        self._take(measured.candidate, measured.measurement, measured.trace_json, self.space is not None)

    def batches_of(
        self, measured: Sequence[tuple[Candidate, Measurement]]
    ) -> list[tuple[CandidateBatch, tuple[Measurement, ...]]]:
        """Measurements as one batch per sketch, for learners; candidates outside the tables are left out."""
        if self.space is None:
            return []
        groups: dict[int, tuple[list[np.ndarray], list[Measurement]]] = {}
        for candidate, measurement in measured:
            if candidate.sketch_index >= len(self.space.sketches):  # a fixed sketch teaches nothing about others
                continue
            rows = rows_of(self.space.sketches[candidate.sketch_index], candidate.decisions)
            if rows is None:
                continue
            indices, measurements = groups.setdefault(candidate.sketch_index, ([], []))
            indices.append(rows)
            measurements.append(measurement)
        return [
            (CandidateBatch(self.space, self.space.sketches[s], np.stack(indices)), tuple(measurements))
            for s, (indices, measurements) in sorted(groups.items())
        ]

    def mark_seen(self, candidate: Candidate) -> None:
        """Never propose this candidate again, whatever became of it."""
        if self.space is None or candidate.sketch_index >= len(self.space.sketches):
            return
        rows = rows_of(self.space.sketches[candidate.sketch_index], candidate.decisions)
        if rows is not None:
            self.seen.add(candidate.sketch_index, rows[None, :])

    def note_hopeless(self, n_trials: int, before_secs: float | None, min_gain: float) -> None:
        """Count trials of a round that the verifier expected nothing of; a gain on ``before_secs`` starts anew."""
        is_gain = before_secs is not None and (self.best_secs or before_secs) < before_secs * (1 - min_gain)
        self.n_hopeless_trials = 0 if is_gain else self.n_hopeless_trials + n_trials

    def summary(self) -> TaskSummary:
        """The task for people and observers."""
        ships = self.winner or (self.unmeasured if self.is_decided else None)
        shipped = ships.candidate.candidate_id if ships else DEFAULT_CANDIDATE
        best_secs = self.final_secs if self.is_decided else self.best_secs
        default_secs = self.final_default_secs or self.default_secs
        return TaskSummary(
            task_id=self.task.task_id,
            name=self.task.name,
            weight=self.task.weight,
            space_size=self.full_size,
            n_trials=self.n_trials,
            n_valid=self.n_trials - sum(self.failures.values()),
            n_new=self.n_new,
            failures=dict(self.failures),
            default_secs=default_secs,
            best_secs=None if isinstance(ships, Unmeasured) else best_secs,
            best_candidate_id=shipped,
            stop_reason=self.stop_reason or "",
        )

    def _index_of(self, index: int, sketch_id: str | None) -> int | None:
        """The number of a stored sketch now, None if there is none like it. Fixed ones may have had another."""
        sketches = self.space.sketches if self.space else ()
        if 0 <= index < len(sketches) and sketches[index].sketch_id == sketch_id:
            return index
        return next((sketch.index for sketch in self.fixed if sketch.sketch_id == sketch_id), None)

    def _take(
        self, candidate: Candidate, measurement: Measurement, trace_json: str | None, known_sketch: bool
    ) -> None:
        self.n_trials += 1
        self.known_ids.add(candidate.candidate_id)
        if known_sketch:  # else it was measured under a structure that is not generated any more
            self.mark_seen(candidate)
        latency = measurement.latency_secs
        if measurement.error is not None:
            kind = measurement.error.kind.value
            self.failures[kind] += 1
            self.failure_examples.setdefault(kind, measurement.error.message)
        elif latency is not None and not measurement.is_censored and known_sketch:
            bisect.insort(self.ranking, Incumbent(candidate, latency, trace_json), key=lambda i: i.latency_secs)
        if self.best_secs is not None:
            self.history.append(self.best_secs)
