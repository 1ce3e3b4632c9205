"""What became of a task's transferred schedules: what waits, what ran, what could not be carried over."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from prune_engine.candidates import Candidate
from prune_engine.library.entries import LibraryEntry
from prune_engine.measurement import Measurement
from prune_engine.space import Int32Array


@dataclass(frozen=True, slots=True, eq=False)
class Seed:
    """A transferred schedule of a task: row ``row``, int32 (v,), of its sketch's choice tables.

    ``source`` is the id of the library's entry, ``policy`` how it was re-fitted.
    """

    candidate: Candidate
    row: Int32Array
    transfer: str
    policy: str
    source: str
    preference: float


@dataclass(frozen=True, slots=True)
class PolicyReport:
    """How the schedules of one policy fared.

    Of ``n_seeds`` that it proposed, ``n_known`` were measured before, ``n_refused`` were dropped by a rule or
    refused by the compiler, ``n_failed`` were measured and failed, ``n_ran`` ran; the others had no turn, or the
    compiler made another candidate of them. ``misses`` counts schedules that it could not carry over, by reason.
    """

    policy: str
    n_seeds: int
    n_known: int
    n_refused: int
    n_failed: int
    n_ran: int
    misses: Mapping[str, int]

    @property
    def n_missed(self) -> int:
        """Schedules that could not be carried over."""
        return sum(self.misses.values())

    @property
    def invalid_share(self) -> float | None:
        """Share of those tried that could not run, None where none was tried."""
        n_invalid = self.n_refused + self.n_failed
        n_tried = n_invalid + self.n_ran
        return n_invalid / n_tried if n_tried else None


@dataclass(frozen=True, slots=True)
class TransferReport:
    """What the library did for one task.

    ``n_sources`` counts the entries looked at by how they match. ``best_secs`` is the best transferred schedule's
    latency, None if none ran; ``source`` and ``policy`` say where it, or the one that ships unmeasured, comes from
    (``model, kernel``; one name for a kernel tuned by itself). ``is_winner``: a transferred schedule is what ships,
    not one that the search found. ``goal_secs`` is what the kernel
    takes at the library's own efficiency. ``n_saved`` is how many measurements the source's search took beyond
    what was measured here, 0 unless that ended the search.
    """

    label: str
    n_sources: Mapping[str, int]
    policies: tuple[PolicyReport, ...]
    best_secs: float | None
    source: str | None
    policy: str | None
    goal_secs: float | None
    n_saved: int
    is_winner: bool


@dataclass(slots=True)
class TransferLog:
    """Mutable: one task's transfers while the engine runs. ``is_asked`` says whether the transfers were asked."""

    pending: list[Seed] = field(default_factory=list)
    origins: dict[str, Seed] = field(default_factory=dict)
    #: The entries that seeds come of.
    entries: dict[str, LibraryEntry] = field(default_factory=dict)
    misses: Counter[tuple[str, str]] = field(default_factory=Counter)
    n_sources: Counter[str] = field(default_factory=Counter)
    goal_flop_per_sec: float | None = None
    is_asked: bool = False
    #: Whether a seed ended the task's search.
    is_goal_reached: bool = False
    #: The best comparable seed and its seconds.
    best: tuple[Seed, float] | None = None
    #: What ships unmeasured.
    unmeasured: Seed | None = None
    _counts: Counter[tuple[str, str]] = field(default_factory=Counter)

    def propose(self, seed: Seed) -> bool:
        """Let a seed wait for its turn; False if there is one of the same candidate already."""
        if seed.candidate.candidate_id in self.origins:
            return False
        self.origins[seed.candidate.candidate_id] = seed
        self.pending.append(seed)
        self._counts[seed.policy, "seeds"] += 1
        return True

    def known(self, seed: Seed, secs: float | None) -> None:
        """A seed was measured before; ``secs`` is its latency if it ran to its end."""
        self._counts[seed.policy, "known"] += 1
        self._note(seed, secs)

    def refused(self, seed: Seed) -> None:
        """A seed cannot be measured."""
        self._counts[seed.policy, "refused"] += 1

    def measured(self, measurement: Measurement) -> None:
        """Take in a measurement, which may be of a seed."""
        seed = self.origins.get(measurement.candidate_id)
        if seed is None:
            return
        self._counts[seed.policy, "failed" if measurement.error else "ran"] += 1
        self._note(seed, None if measurement.is_censored else measurement.latency_secs)

    def source_of(self, seed: Seed) -> str:
        """Where a seed comes from, for people."""
        entry = self.entries.get(seed.source)
        if entry is None:
            return seed.source
        # A kernel that was tuned by itself has one name.
        return entry.model if entry.model == entry.task_name else f"{entry.model}, {entry.task_name}"

    def report(self, label: str, flop_count: int, n_trials: int, shipped_id: str | None) -> TransferReport | None:
        """The task's transfers in numbers, ``shipped_id`` being the winner; None if none was asked."""
        if not self.is_asked:
            return None
        best = self.best[0] if self.best else self.unmeasured
        entry = self.entries.get(best.source) if best else None
        goal = self.goal_flop_per_sec
        n_saved = max(0, entry.n_trials - n_trials) if entry and self.is_goal_reached else 0
        return TransferReport(
            label=label,
            n_sources=dict(self.n_sources),
            policies=self._policies(),
            best_secs=self.best[1] if self.best else None,
            source=self.source_of(best) if best else None,
            policy=best.policy if best else None,
            goal_secs=flop_count / goal if goal and flop_count else None,
            n_saved=n_saved,
            is_winner=shipped_id in self.origins,
        )

    def _note(self, seed: Seed, secs: float | None) -> None:
        if secs is not None and (self.best is None or secs < self.best[1]):
            self.best = seed, secs

    def _policies(self) -> tuple[PolicyReport, ...]:
        named = sorted({policy for policy, _ in (*self._counts, *self.misses)})
        count = self._counts
        return tuple(
            PolicyReport(
                policy=name,
                n_seeds=count[name, "seeds"],
                n_known=count[name, "known"],
                n_refused=count[name, "refused"],
                n_failed=count[name, "failed"],
                n_ran=count[name, "ran"],
                misses={reason: n for (policy, reason), n in sorted(self.misses.items()) if policy == name},
            )
            for name in named
        )
