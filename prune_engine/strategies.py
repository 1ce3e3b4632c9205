"""The strategy kinds a plugin can provide. Batch in, array out; the engine checks every return value.

Randomness comes only from the ``numpy.random.Generator`` that is passed in. A strategy may be called for
many tasks in turn; what it keeps about one it keys by ``task_id``.
"""

from __future__ import annotations

import abc
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from prune_engine.candidates import CandidateBatch
from prune_engine.measurement import Measurement
from prune_engine.space import DesignSpace, Int32Array, SpaceRestriction
from prune_engine.task import TuningTask
from prune_engine.verdicts import BoolArray, DraftScores, Float64Array, RuleKind, Selection, VerifyScores

if TYPE_CHECKING:
    from prune_engine.hardware.schema import HardwareProfile
    from prune_engine.library.entries import LibraryEntry, LibraryQuery

#: Fitness of a batch, float64 (n,), >= 0, higher is better: what an explorer may climb on.
Fitness = Callable[[CandidateBatch], Float64Array]


class Strategy:
    """What all kinds share: a unique dotted name (``plugin.strategy``)."""

    name: ClassVar[str]


class Rule(Strategy):
    """Cuts a space or masks batches. Override ``restrict``, ``mask`` or both.

    ``order`` sorts rules of one kind (lower first). ``hardware_basis`` names the profile fields it reads, as
    dotted paths. A field of a profile is None where nobody knows it, else it has ``value`` and ``source``;
    ``profile.value(path)`` gives the number or None. What a rule cannot judge, it keeps.
    """

    kind: ClassVar[RuleKind] = RuleKind.HEURISTIC
    order: ClassVar[int] = 100
    hardware_basis: ClassVar[tuple[str, ...]] = ()

    def restrict(self, space: DesignSpace, profile: HardwareProfile) -> SpaceRestriction | None:
        """Cut rows of choice tables, once per task; None cuts nothing.

        What is kept is bool (m,) over a variable's whole table, by (sketch index, variable index).
        """
        return None

    def mask(self, batch: CandidateBatch, profile: HardwareProfile) -> BoolArray:
        """Say which candidates to keep: bool (n,).

        Where ``batch.is_opaque``, symbols of the loop nest do not exist: asking for one raises SpaceError.
        """
        return np.ones(len(batch), dtype=np.bool_)

    def reason(self, symbols: Mapping[str, float], profile: HardwareProfile) -> str:
        """Say in one clause why a candidate with these symbols was dropped.

        ``symbols`` computes what is read of it and keeps that as evidence. It is empty for rows that
        ``restrict`` cut, as there is no candidate then: a rule that restricts reads it by ``get``.
        """
        return self.name


class Explorer(Strategy, abc.ABC):
    """Proposes candidates of a space."""

    @abc.abstractmethod
    def propose(
        self, space: DesignSpace, n: int, fitness: Fitness | None, rng: np.random.Generator
    ) -> Sequence[CandidateBatch]:
        """Return about ``n`` distinct candidates, at most one batch per sketch, fewer in a small space.

        ``fitness`` is None as long as nothing can judge a candidate.
        """

    def update(self, batch: CandidateBatch, measurements: Sequence[Measurement]) -> None:
        """Learn what was measured. ``measurements[i]`` belongs to row i."""


class DraftScorer(Strategy, abc.ABC):
    """Ranks candidates from symbols and the hardware profile; it works without samples.

    ``hardware_basis`` names the profile fields it reads, as a rule's does.
    """

    hardware_basis: ClassVar[tuple[str, ...]] = ()

    @abc.abstractmethod
    def score(self, batch: CandidateBatch, profile: HardwareProfile) -> DraftScores:
        """Score a batch; arrays of length n."""

    def update(self, batch: CandidateBatch, measurements: Sequence[Measurement], profile: HardwareProfile) -> None:
        """Calibrate on measurements. ``measurements[i]`` belongs to row i."""


@dataclass(frozen=True, slots=True)
class ScoreContext:
    """What a verifier may look at besides the batch.

    ``draft`` gives the active draft's scores of any batch of the same task, as calibrated at the time of the
    call; None without a draft or where it failed. Rows learnt earlier can so be drafted again. Where not
    ``wants_kinship``, nobody looks at `VerifyScores.kinship`: an explorer climbs on the scores alone.
    """

    profile: HardwareProfile
    draft: Callable[[CandidateBatch], DraftScores | None]
    wants_kinship: bool = True


class Verifier(Strategy, abc.ABC):
    """Predicts throughput from what was measured.

    One that ``takes_prior`` starts from the file that the option ``prior`` names, if it names one. For the others
    such a file is refused, as it would change nothing.
    """

    takes_prior: ClassVar[bool] = False

    @abc.abstractmethod
    def score(self, batch: CandidateBatch, context: ScoreContext) -> VerifyScores:
        """Score a batch; before the first training ``is_trained`` is False and all scores are equal."""

    @abc.abstractmethod
    def update(self, batch: CandidateBatch, measurements: Sequence[Measurement], context: ScoreContext) -> None:
        """Learn from measurements, failures and censored ones included; row i has ``measurements[i]``."""

    @abc.abstractmethod
    def save(self, path: Path) -> None:
        """Write the model to a file."""

    @abc.abstractmethod
    def load(self, path: Path) -> None:
        """Read a model. Raises ConfigError for a file that is not one of this verifier's."""


@dataclass(frozen=True, slots=True)
class SelectionPool:
    """What a selector chooses from: n candidates on which all earlier stages agreed.

    ``scores`` float64 (n,), >= 0; ``degradation_prob`` float64 (n,) in [0, 1]; ``is_audit`` bool (n,) marks
    candidates that a heuristic dropped and that are measured only to audit it; ``is_probe`` bool (n,) marks
    those to be measured whatever the scores say: probes, drawn for what they teach. ``is_trained`` says whether the
    scores mean anything. ``kinship`` int32 (n, t) are classes of each candidate: those of the verifier (the leaves
    of t trees), if it gives any, or the decisions as long as no verifier is trained. Candidates that share many are
    alike, so measuring both tells little.
    """

    scores: Float64Array
    degradation_prob: Float64Array
    is_audit: BoolArray
    is_probe: BoolArray
    is_trained: bool
    kinship: Int32Array | None = None

    def __len__(self) -> int:
        return len(self.scores)


class Selector(Strategy, abc.ABC):
    """Chooses what to measure."""

    @abc.abstractmethod
    def select(self, pool: SelectionPool, k: int, rng: np.random.Generator) -> Selection:
        """Choose at most ``k`` distinct positions of the pool, best first."""


@runtime_checkable
class Library(Protocol):
    """Tuned kernels that a transfer may start from."""

    def find(self, query: LibraryQuery) -> Sequence[LibraryEntry]:
        """The entries asked for, fastest (flop/s) first."""


@dataclass(frozen=True, slots=True)
class TransferContext:
    """What a transfer may look at besides the task and its space.

    ``device_name`` and ``n_threads`` are what the seeds will be measured on. ``fitness`` is what the pipeline makes
    of a batch: 0 where a rule drops the candidate, else the trained verifier's score or the draft's.
    """

    library: Library
    device_name: str
    n_threads: int
    profile: HardwareProfile
    fitness: Fitness


@dataclass(frozen=True, slots=True, eq=False)
class Seeds:
    """Transferred candidates of one sketch. Row i comes of the entry ``sources[i]`` by the policy ``policies[i]``.

    ``preference`` float64 (n,) orders the seeds of all sketches: higher is measured earlier.
    """

    batch: CandidateBatch
    sources: tuple[str, ...]
    policies: tuple[str, ...]
    preference: Float64Array


@dataclass(frozen=True, slots=True)
class RewrittenTrace:
    """A transferred schedule that no sketch of the space holds, as the compiler's text without post-processing."""

    trace_json: str
    source: str
    policy: str
    preference: float


@dataclass(frozen=True, slots=True)
class TransferProposal:
    """What a transfer found for a task.

    ``seeds`` hold at most one item per sketch. ``misses`` counts what could not be carried over, by (policy,
    reason). ``n_sources`` is the number of entries of the task's class that were looked at, by how they match
    ("strict" or "anchor"). ``goal_flop_per_sec`` is what the library itself reaches with such kernels, None if
    it does not say: a seed that comes close to it ends the search.
    """

    seeds: tuple[Seeds, ...] = ()
    rewritten: tuple[RewrittenTrace, ...] = ()
    misses: Mapping[tuple[str, str], int] = field(default_factory=dict)
    n_sources: Mapping[str, int] = field(default_factory=dict)
    goal_flop_per_sec: float | None = None


class ScheduleTransfer(Strategy, abc.ABC):
    """Proposes schedules that were good elsewhere, re-fitted to this task."""

    order: ClassVar[int] = 100

    @abc.abstractmethod
    def propose(
        self, task: TuningTask, space: DesignSpace, context: TransferContext, limit: int
    ) -> TransferProposal:
        """Return at most ``limit`` seeds and rewritten traces together. A library without a match is no error."""


#: Positions in a batch or pool.
Positions = NDArray[np.int64]
