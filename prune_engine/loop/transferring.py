"""Seeds: schedules that were good for kernels like a task's, asked for once and measured before anything else."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Sequence

import numpy as np

from prune_engine import contracts
from prune_engine.candidates import CandidateBatch
from prune_engine.config import EngineConfig
from prune_engine.contracts import STRATEGY_FAILURES
from prune_engine.errors import SpaceError
from prune_engine.funnel import Funnel
from prune_engine.hardware.schema import HardwareProfile
from prune_engine.library.entries import LibraryEntry, LibraryQuery
from prune_engine.loop.own_picks import OwnPicks
from prune_engine.loop.task_state import TaskState, Unmeasured
from prune_engine.measurement import FixesSchedules, MeasuredCandidate, Workbench, WritesSchedules
from prune_engine.pipeline import Pipeline, PruneResult
from prune_engine.plugin_host.call_guard import called_back, suspended
from prune_engine.stages.standing import OnFailure
from prune_engine.store.base import StoredCandidate
from prune_engine.strategies import Library, RewrittenTrace, ScheduleTransfer, TransferContext, TransferProposal
from prune_engine.transfers.log import Seed
from prune_engine.transfers.source_choice import (
    BEST_MODEL,
    WHOLE_LIBRARY,
    OnlyModel,
    SourceScore,
    kernels_by_model,
    rank_sources,
)
from prune_engine.verdicts import Outcome, RuleKind, SelectionReason, Stage, Verdict

#: Seeds asked for where one is to ship unmeasured: the compiler may refuse the first.
_N_RANKED = 8
#: Where an own pick comes from, for people.
_OWN = "the search's own guess"
#: Writes verdicts on a task's candidates.
Tell = Callable[[TaskState, Sequence[Verdict]], None]


class Transferring:
    """Asks the transfers, and hands out what they propose batch by batch.

    A transfer that fails is asked no more. ``tell`` is given the verdicts on what is not handed out.
    """

    def __init__(
        self,
        transfers: Sequence[ScheduleTransfer],
        pipeline: Pipeline,
        config: EngineConfig,
        workbench: Workbench,
        library: Library,
        profile: HardwareProfile,
        own_picks: OwnPicks,
        on_failure: OnFailure,
        tell: Tell,
    ) -> None:
        self._transfers, self._pipeline, self._config = transfers, pipeline, config
        self._workbench, self._library, self._profile = workbench, library, profile
        self._own_picks = own_picks
        self._on_failure, self._tell = on_failure, tell
        self._failed: set[str] = set()
        #: Models of the library, the best source first, where one was to be chosen.
        self.sources: tuple[SourceScore, ...] = ()

    def choose_source(self, states: Sequence[TaskState]) -> str:
        """Take the model to transfer from, once untuned kernels were timed. Says which, in a sentence."""
        wanted = self._config.transfer_source
        if not self._config.transfer or wanted == WHOLE_LIBRARY:
            return ""
        if wanted != BEST_MODEL:
            self._library = OnlyModel(self._library, wanted)
            return f"transferring from {wanted}"
        secs: dict[str, float] = defaultdict(float)
        anchors: dict[str, str] = {}
        for state in states:
            if (kind := state.task.kernel_class) and state.default_secs:
                secs[kind.strict] += state.task.weight * state.default_secs
                anchors[kind.strict] = kind.anchor
        self.sources = tuple(rank_sources(secs, kernels_by_model(self._library, anchors), self._config.source_form))
        if not self.sources:
            return "no model of the library has kernels like these"
        best = self.sources[0]
        self._library = OnlyModel(self._library, best.model)
        by_anchor = (
            f", and the main statement of those that take another {best.covered_by_anchor:.0%}"
            if best.covered_by_anchor
            else ""
        )
        return (
            f"transferring from {best.model}, which has kernels like those that take {best.covered:.0%} of the "
            f"time{by_anchor}"
        )

    def batch(self, state: TaskState, k: int) -> PruneResult | None:
        """At most ``k`` seeds of an open task to measure now, best first; None when none is left.

        Where one is to ship unmeasured it is chosen now.
        """
        # Without transfers there is nothing to ask, but something may have to ship unmeasured.
        if not self._config.transfer or not (self._transfers or self._config.transfer_only):
            return None
        if not state.transfer.is_asked:
            if self._config.transfer_only and not self._config.transfer_trials:
                self._ask(state, _N_RANKED)
                self._choose_unmeasured(state)
            elif state.n_trials < self._config.transfer_trials:
                self._ask(state, self._own_picks.n_seeds)
        if state.stop_reason:
            return None
        pending = state.transfer.pending
        while pending:
            chunk, pending[:] = pending[:k], pending[k:]
            started = time.perf_counter()
            fit = self._fit(state, chunk)
            if fit:
                return _as_result(state, fit, time.perf_counter() - started)
        return None

    def note(self, state: TaskState, measured: Sequence[MeasuredCandidate]) -> None:
        """Take in what was measured of a task: a seed as good as the library promises ends its search."""
        for one in measured:
            state.transfer.measured(one.measurement)
        self._end_at_goal(state)

    def _end_at_goal(self, state: TaskState) -> None:
        log, n_flop = state.transfer, state.task.flop_count
        goal = log.goal_flop_per_sec
        if goal and log.best and n_flop / log.best[1] >= goal * (1 - self._config.transfer_margin):
            log.is_goal_reached = True
            state.stop_reason = state.stop_reason or "transferred"

    def restore(self, state: TaskState, stored: Sequence[StoredCandidate]) -> None:
        """Make the sketches again that rewritten schedules of earlier runs had; what does not fit now is left."""
        if state.space is None or not isinstance(self._workbench, FixesSchedules):
            return
        n_generated, known = len(state.space.sketches), {sketch.sketch_id for sketch in state.space.sketches}
        for row in stored:
            if row.sketch_index is None or row.sketch_index < n_generated or row.trace_json is None:
                continue
            if row.sketch_id in known:
                continue
            try:
                sketch = self._workbench.fixed_sketch(state.bench_space, row.trace_json)
            except SpaceError:
                continue
            if sketch.sketch_id == row.sketch_id:
                known.add(sketch.sketch_id)
                state.fixed.append(sketch)

    def _ask(self, state: TaskState, limit: int) -> None:
        """Fill the task's queue with at most ``limit`` seeds, those of earlier transfers first."""
        space, log = state.space, state.transfer
        assert space is not None, "only open tasks get here"
        log.is_asked = True
        seeds: list[Seed] = []
        for transfer in self._transfers:
            if transfer.name in self._failed:
                continue
            library = _Reading(self._library)
            context = TransferContext(
                library,
                self._workbench.device_name(),
                self._workbench.n_threads(),
                self._profile,
                called_back(self._pipeline.fitness),
            )
            try:
                proposal = self._pipeline.ask(transfer, transfer.propose, state.task, space, context, limit)
                proposal = contracts.check_transfer(transfer.name, proposal, space, limit)
            except STRATEGY_FAILURES as error:  # the plugin boundary: recorded, not swallowed
                self._failed.add(transfer.name)
                self._on_failure(transfer, error)
                continue
            found = [*_candidates(transfer.name, proposal), *self._fixed(state, transfer.name, proposal.rewritten)]
            seeds += sorted(found, key=lambda seed: -seed.preference)
            log.n_sources.update(proposal.n_sources)
            goals = [goal for goal in (log.goal_flop_per_sec, proposal.goal_flop_per_sec) if goal]
            log.goal_flop_per_sec = max(goals, default=None)
            log.entries.update({s.source: library.read[s.source] for s in found if s.source in library.read})
            for (policy, reason), n in proposal.misses.items():
                self._missed(state, transfer.name, policy, reason, n)
        known_secs = {one.candidate.candidate_id: one.latency_secs for one in state.ranking}
        for seed in seeds:
            if len(log.pending) < limit and log.propose(seed) and seed.candidate.candidate_id in state.known_ids:
                log.known(log.pending.pop(), known_secs.get(seed.candidate.candidate_id))
        self._end_at_goal(state)  # an earlier run may have reached it

    def _fixed(self, state: TaskState, name: str, rewritten: Sequence[RewrittenTrace]) -> list[Seed]:
        """Schedules that no sketch holds, each as the only candidate of a sketch of its own."""
        seeds: list[Seed] = []
        for one in rewritten:
            if not isinstance(self._workbench, FixesSchedules):
                self._missed(state, name, one.policy, "this workbench takes no rewritten schedules", 1)
                continue
            space = state.bench_space
            try:
                sketch = self._workbench.fixed_sketch(space, one.trace_json)
            except SpaceError as error:
                self._missed(state, name, one.policy, error.problem, 1)
                continue
            same = next((s for s in state.fixed if s.sketch_id == sketch.sketch_id), None)
            if same is None:
                state.fixed.append(sketch)
            sketch = same or sketch
            row = np.array([variable.rows[0] for variable in sketch.variables], dtype=np.int32)
            candidate = CandidateBatch(state.bench_space, sketch, row[None, :]).candidate(0)
            seeds.append(Seed(candidate, row, name, one.policy, one.source, one.preference))
        return seeds

    def _missed(self, state: TaskState, name: str, policy: str, reason: str, n: int) -> None:
        state.transfer.misses[policy, reason] += n
        self._tell(state, [Verdict(Stage.TRANSFER, name, Outcome.SKIPPED, f"{policy}: {reason}", n)])

    def _fit(self, state: TaskState, chunk: Sequence[Seed]) -> list[Seed]:
        """Those of some seeds that no LEGALITY rule drops and that the compiler takes."""
        refused = self._illegal(state, chunk)
        for seed in chunk:
            identity = seed.candidate.candidate_id
            if identity not in refused and (why := self._workbench.refusal(state.bench_space, seed.candidate)):
                refused[identity] = why
        for seed in chunk:
            if why := refused.get(seed.candidate.candidate_id):
                state.transfer.refused(seed)
                state.mark_seen(seed.candidate)
                reason = f"{seed.policy}: {why}"
                self._tell(state, [Verdict(Stage.TRANSFER, seed.transfer, Outcome.DROPPED, reason)])
        return [seed for seed in chunk if seed.candidate.candidate_id not in refused]

    def _illegal(self, state: TaskState, chunk: Sequence[Seed]) -> dict[str, str]:
        """Which seeds LEGALITY rules drop, by candidate, and the names of the rules that dropped any."""
        space = state.space
        assert space is not None, "only open tasks get here"
        refused: dict[str, str] = {}
        for sketch in space.sketches:
            mine = [seed for seed in chunk if seed.candidate.sketch_index == sketch.index]
            if not mine:
                continue
            funnel = Funnel()
            legal, _ = self._pipeline.judge(CandidateBatch(space, sketch, np.stack([s.row for s in mine])), funnel)
            rules = [s.strategy for s in funnel.steps if s.kind is RuleKind.LEGALITY and s.n_out < s.n_in]
            why = "dropped by " + ", ".join(rules)
            refused |= {s.candidate.candidate_id: why for s, keep in zip(mine, legal, strict=True) if not keep}
        return refused

    def _choose_unmeasured(self, state: TaskState) -> None:
        """Let a schedule ship that the compiler takes: the first seed, unless an own pick promises much more."""
        queue, state.transfer.pending = state.transfer.pending, []
        if not isinstance(self._workbench, WritesSchedules):
            return
        seed = next((one for one in queue if self._fit(state, [one])), None)
        for candidate in self._own_picks.ranked_with(state, seed.candidate if seed else None):
            text = self._workbench.schedule_text(state.bench_space, candidate)
            if text is not None:
                state.transfer.unmeasured = seed if seed and seed.candidate is candidate else None
                source = state.transfer.source_of(seed) if state.transfer.unmeasured and seed else _OWN
                state.unmeasured = Unmeasured(candidate, text, source)
                state.stop_reason = "ranked"
                return


class _Reading:
    """A library that remembers which entries it gave."""

    def __init__(self, library: Library) -> None:
        self._library = library
        self.read: dict[str, LibraryEntry] = {}

    def find(self, query: LibraryQuery) -> Sequence[LibraryEntry]:
        with suspended():  # it may read a database
            found = self._library.find(query)
        self.read.update({entry.entry_id: entry for entry in found})
        return found


def _candidates(name: str, proposal: TransferProposal) -> list[Seed]:
    """The candidates of a proposal's batches."""
    return [
        Seed(seeds.batch.candidate(i), seeds.batch.indices[i], name, policy, source, float(seeds.preference[i]))
        for seeds in proposal.seeds
        for i, (policy, source) in enumerate(zip(seeds.policies, seeds.sources, strict=True))
    ]


def _as_result(state: TaskState, seeds: Sequence[Seed], secs: float) -> PruneResult:
    """Seeds as a round's choice."""
    verdicts = [
        Verdict(
            Stage.SELECT,
            seed.transfer,
            Outcome.KEPT,
            f"{SelectionReason.SEED.value}: {seed.policy} of {state.transfer.source_of(seed)}",
            1,
            seed.candidate.candidate_id,
        )
        for seed in seeds
    ]
    return PruneResult.of_choice([seed.candidate for seed in seeds], SelectionReason.SEED, verdicts, secs)
