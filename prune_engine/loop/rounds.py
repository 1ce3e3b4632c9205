"""One batch of one task: propose, prune, measure, store, learn."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from prune_engine.config import EngineConfig
from prune_engine.lifecycle import PruneSummary
from prune_engine.loop.auditing import Auditor
from prune_engine.loop.outcome import round_verdicts
from prune_engine.loop.own_picks import OwnPicks
from prune_engine.loop.recording import Recorder
from prune_engine.loop.round_decisions import RoundStart
from prune_engine.loop.sources import Sources
from prune_engine.loop.task_state import TaskState
from prune_engine.loop.teaching import Teacher
from prune_engine.loop.transferring import Transferring
from prune_engine.loop.undisturbed import undisturbed
from prune_engine.loop.whitelisted import Whitelisting
from prune_engine.measurement import MeasuredCandidate, Workbench
from prune_engine.pipeline import Pipeline, PruneResult
from prune_engine.plugins import PluginHost
from prune_engine.store.base import Store
from prune_engine.verdicts import Verdict


class Rounds:
    """Runs rounds. ``record`` is given each measurement at once, ``tell`` the verdicts of a round."""

    def __init__(
        self,
        config: EngineConfig,
        workbench: Workbench,
        store: Store,
        host: PluginHost,
        pipeline: Pipeline,
        sources: Sources,
        whitelisting: Whitelisting,
        transferring: Transferring,
        own_picks: OwnPicks,
        auditor: Auditor,
        teacher: Teacher,
        rng: np.random.Generator,
        *,
        recorder: Recorder,
        record: Callable[[TaskState, MeasuredCandidate], None],
        tell: Callable[[TaskState, Sequence[Verdict]], None],
    ) -> None:
        self._config, self._workbench, self._store, self._host = config, workbench, store, host
        self._pipeline, self._sources = pipeline, sources
        self._whitelisting, self._transferring, self._own_picks = whitelisting, transferring, own_picks
        self._auditor, self._teacher, self._rng = auditor, teacher, rng
        self._recorder, self._record, self._tell = recorder, record, tell

    def run(self, state: TaskState, *, k: int) -> None:
        """Measure at most ``k`` candidates of an open task."""
        result = self.choose(state, k)
        if result is None:
            return
        measured: list[MeasuredCandidate] = []
        before, incumbent = RoundStart.of(state), state.best_secs
        why_not = "measuring broke down"
        try:
            if result.candidates:
                known = self._known_ids(state)
                for one in self._workbench.measure(state.bench_space, result.candidates, incumbent, known):
                    self._record(state, one)
                    measured.append(one)
            why_not = "the compiler repaired its decisions into another candidate"
        finally:
            self._tell(state, round_verdicts(result, measured, why_not))
            self._recorder.note(state, result, measured, before, why_not)
        self.mark_seen(state, result)
        state.n_barren_rounds = 0 if measured else state.n_barren_rounds + 1
        self.learn(state, result, measured, incumbent)

    def choose(self, state: TaskState, k: int) -> PruneResult | None:
        """What to measure of an open task, at most ``k``; None where nothing else may be measured."""
        with undisturbed():
            result = self._chosen(state, k)
        if result is not None:
            self._host.notify(
                "batch_pruned",
                task=state.task,
                summary=PruneSummary(result.n_proposed, len(result.candidates), result.verdicts, result.seconds),
            )
        return result

    def mark_seen(self, state: TaskState, result: PruneResult) -> None:
        """Never choose these candidates again, those included that the compiler refused or repaired into others."""
        for candidate in (*result.candidates, *result.refused):
            state.mark_seen(candidate)

    def learn(
        self,
        state: TaskState,
        result: PruneResult,
        measured: Sequence[MeasuredCandidate],
        incumbent_secs: float | None,
    ) -> None:
        """Take in what was measured of a choice. ``incumbent_secs`` was the best latency when it was made."""
        self._host.notify("batch_measured", task=state.task, measured=tuple(measured))
        self._transferring.note(state, measured)
        self._auditor.note(state, result, measured)
        if result.is_hopeless:
            state.note_hopeless(len(measured), incumbent_secs, self._config.plateau_gain)
        else:
            state.n_hopeless_trials = 0
        pairs = [(m.candidate, m.measurement) for m in measured if m.candidate]
        self._teacher.teach(state.batches_of(pairs))

    def _chosen(self, state: TaskState, k: int) -> PruneResult | None:
        """What to measure: what is whitelisted, then transferred seeds, then what the search chooses.

        None where nothing else may be measured.
        """
        space = state.space
        assert space is not None, "only open tasks get here"
        if (listed := self._whitelisting.batch(state, k)) is not None:
            return listed
        was_open = not state.stop_reason
        seeds = self._transferring.batch(state, k) if was_open else None
        if seeds is not None or (was_open and state.stop_reason):
            return seeds
        if self._config.transfer_only:
            own = None if state.stop_reason else self._own_picks.batch(state, k)
            if own is None:
                state.stop_reason = state.stop_reason or self._own_picks.why_closed
            return own
        return self._pipeline.run(
            self._sources.proposals(state),
            self._sources.probes(state, k),
            k,
            state.seen,
            self._rng,
            partial(self._workbench.refusal, space),
            max_audits=self._auditor.max_audits(state),
            may_overrule=self._auditor.may_overrule(state),
        )

    def _known_ids(self, state: TaskState) -> frozenset[str]:
        """What need not run again, another tuner's work on the same store included."""
        elsewhere = self._store.measured_ids(
            state.task.task_id, self._workbench.device_name(), self._workbench.n_threads()
        )
        return elsewhere | state.known_ids
