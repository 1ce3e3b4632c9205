"""The engine: owns strategies, store and budget, and runs the loop from tasks to winners."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import overload

import numpy as np

from prune_engine import __version__
from prune_engine.candidates import CandidateBatch, SeenRows
from prune_engine.config import EngineConfig
from prune_engine.decisions.files import DecisionWriter
from prune_engine.errors import ConfigError, SpaceError
from prune_engine.explain.tasks import explain_measurement, explain_verdicts
from prune_engine.funnel import Funnel
from prune_engine.hardware.schema import HardwareProfile
from prune_engine.lifecycle import EngineInfo, Observer, RunResult, SilentObserver
from prune_engine.loop.auditing import Auditor
from prune_engine.loop.budget import Budget
from prune_engine.loop.finals import Finals
from prune_engine.loop.harvest import HarvestContext, harvest
from prune_engine.loop.opening import Opener
from prune_engine.loop.outcome import run_result
from prune_engine.loop.own_picks import OwnPicks
from prune_engine.loop.recording import Recorder
from prune_engine.loop.retiring import retire
from prune_engine.loop.rounds import Rounds
from prune_engine.loop.safety_gate import SafetyGate, keep_legal
from prune_engine.loop.scheduler import GradientScheduler
from prune_engine.loop.sources import Sources
from prune_engine.loop.steps import Bench, Steps
from prune_engine.loop.task_state import TaskState
from prune_engine.loop.teaching import Teacher
from prune_engine.loop.transferring import Transferring
from prune_engine.loop.whitelisted import Whitelisting
from prune_engine.measurement import MeasuredCandidate, Workbench
from prune_engine.own_kernels.pruning import Pruned, batch_in, pruned
from prune_engine.pipeline import Pipeline, PruneResult
from prune_engine.plugins import PluginHost
from prune_engine.provenance.machine_state import load_state
from prune_engine.provenance.manifest import manifest_of
from prune_engine.provenance.policy import Policy, policy_of
from prune_engine.space import DesignSpace
from prune_engine.stages.standing import as_contract_error, problem_of
from prune_engine.store.base import Store
from prune_engine.strategies import Library, Strategy, Verifier
from prune_engine.strategy_set import Strategies, load_strategies
from prune_engine.task import TuningTask
from prune_engine.transfers.joined_library import library_of
from prune_engine.verdicts import Verdict


class Engine:
    """Tunes tasks on a workbench. One engine per run; the store outlives it.

    Args:
        config: the options.
        workbench: compiler and device.
        store: durable memory; earlier measurements in it are never repeated.
        profile: the device's capabilities.
        host: loaded plugins; made from ``config`` if None.
        observer: told of progress.
        should_stop: polled between batches; True ends the run in order.
        library: what transfers start from; by default the store's, and what plugins ship.
        model_name: what the tasks are parts of, for the library.
        manifest: recorded with the run beside versions and options.
        clock: seconds from anywhere, never backwards: what ``budget_secs`` is held against.
        decisions: where the fate of each candidate that is looked at closely is written; nowhere if None.
    """

    def __init__(
        self,
        config: EngineConfig,
        workbench: Workbench,
        store: Store,
        profile: HardwareProfile,
        *,
        host: PluginHost | None = None,
        observer: Observer | None = None,
        should_stop: Callable[[], bool] = lambda: False,
        library: Library | None = None,
        model_name: str = "",
        manifest: Mapping[str, object] | None = None,
        clock: Callable[[], float] = time.monotonic,
        decisions: DecisionWriter | None = None,
    ) -> None:
        """Load the plugins and choose the strategies. Raises ConfigError, or PluginError if strict."""
        self._config, self._workbench, self._store, self._profile = config, workbench, store, profile
        if host is None:
            host = PluginHost(config)
            host.load()
        self._host = host
        self._strategies: Strategies = load_strategies(host, config)
        self._pipeline = Pipeline(
            rules=self._strategies.rules,
            draft_scorer=self._strategies.draft_scorer,
            verifier=self._strategies.verifier,
            selector=self._strategies.selector,
            profile=profile,
            config=config,
            on_failure=self._strategy_failed,
        )
        self._observer: Observer = observer or SilentObserver()
        self._should_stop, self._clock = should_stop, clock
        self._manifest, self._model_name = dict(manifest or {}), model_name
        #: What is recorded of the run, once it has begun.
        self.manifest: Mapping[str, object] = {}
        self._scheduler = GradientScheduler()
        self._rng = np.random.default_rng(config.seed)
        self._budget = Budget(config, should_stop, clock)
        #: Failures already told of, by strategy and message.
        self._told: set[tuple[str, str]] = set()
        self._teacher = Teacher(self._strategies, self._pipeline, profile, self._strategy_failed)
        sources = Sources(self._strategies, self._pipeline, config, self._rng, self._strategy_failed)
        self._auditor = Auditor(self._pipeline, config, store, self._observer.on_status, self._tell_cuts)
        self._whitelisting = Whitelisting(
            store, config, workbench, self._pipeline, self._tell_cuts, self._observer.on_status
        )
        own_picks = OwnPicks(sources, self._pipeline, config, workbench, self._rng)
        self._transferring = Transferring(
            self._strategies.transfers,
            self._pipeline,
            config,
            workbench,
            library or library_of(store, config, host.collect),
            profile,
            own_picks,
            self._strategy_failed,
            self._tell,
        )
        self._recorder = Recorder(decisions, self._pipeline, profile, self._observer.on_status)
        self._opener = Opener(config, workbench, self._pipeline, self._strategies.symbols, self._tell_cuts)
        self._rounds = Rounds(
            config,
            workbench,
            store,
            host,
            self._pipeline,
            sources,
            self._whitelisting,
            self._transferring,
            own_picks,
            self._auditor,
            self._teacher,
            self._rng,
            recorder=self._recorder,
            record=self._record,
            tell=self._tell,
        )
        self._run_id = ""

    @cached_property
    def policy(self) -> Policy:
        """What decides here which candidates are dropped. Raises ConfigError for a prior that cannot be read."""
        return policy_of(self._host, self._strategies, self._config, self._profile)

    def run(self, tasks: Sequence[TuningTask]) -> RunResult:
        """Tune until the budget, a plateau, the spaces' end or ``should_stop``; then choose the winners.

        Raises NothingMeasuredError, after everything was saved, if not one schedule of any task could be
        measured, and ConfigError for a prior that the verifier cannot use.
        """
        self._budget = Budget(self._config, self._should_stop, self._clock)
        self._start_run(tasks)
        states = [TaskState(task) for task in tasks]
        self._open_tasks(states)
        reason = self._measure_defaults(states)
        if told := self._transferring.choose_source(states):
            self._observer.on_status(told)
        reason = reason or self._tune(states)
        for state in states:
            state.stop_reason = state.stop_reason or reason
        self._observer.on_status("re-timing the best schedules")
        finals = Finals(self._workbench, self._store, self._config, self._run_id)
        say, note = self._observer.on_status, self._recorder.note_checks
        gate = SafetyGate(self._workbench, self._store, self._config, self._run_id, say, note)
        for state in sorted(states, key=lambda s: -(s.task.weight * (s.default_secs or 0))):
            if self._config.strict_fp:
                keep_legal(state, self._pipeline.judge)
            finals.decide(state, measure=not self._budget.is_spent)
            gate.settle(state)
            self._harvest(state)
            self._report(states)
            self._host.notify("task_finished", task=state.task, summary=state.summary())
        self._finish_run()
        result = run_result(states, reason, self._run_id, self._budget.elapsed_secs)
        return replace(result, sources=self._transferring.sources)

    def steps(self, task: TuningTask) -> Steps:
        """Open a task whose candidates are measured elsewhere, and take in what the store has of it.

        Raises SpaceError for a task without a space, ConfigError for a prior that the verifier cannot use.
        """
        self._start_run([task])
        state = TaskState(task)
        self._open_tasks([state])
        if state.stop_reason == "no_space":
            raise SpaceError("has no design space", who=task.name, got=state.failure_examples.get("space"))
        bench = Bench(self._workbench.device_name(), self._workbench.n_threads(), self._profile.digest())
        return Steps(
            state,
            self._rounds,
            self._pipeline,
            bench,
            record=self._record,
            tell=self._tell,
            retire=lambda one: retire(one, self._config, self._auditor),
            finish=self._finish_run,
        )

    def save_verifier(self, path: Path) -> bool:
        """Write what the verifier learnt to a file that ``prior`` takes. Returns whether there is one.

        There is none without a verifier that takes priors, or if it was taught nothing, or failed. Raises OSError.
        """
        return self._teacher.save(path)

    @overload
    def prune(self, space: DesignSpace, batches: CandidateBatch) -> Pruned: ...

    @overload
    def prune(self, space: DesignSpace, batches: Sequence[CandidateBatch], k: int) -> PruneResult: ...

    def prune(
        self, space: DesignSpace, batches: CandidateBatch | Sequence[CandidateBatch], k: int | None = None
    ) -> Pruned | PruneResult:
        """Judge anyone's candidates of a space. Nothing is measured or stored.

        Of one batch, all that is said of each of its rows: what is kept, why the rest is not, and in which order to
        try it (`prune_engine.own_kernels.pruner.Pruner` does that without an engine). Of several, stages 1 to 5: at
        most ``k`` candidates worth measuring, and every verdict. What lies outside of what rules leave of the space
        is dropped. The funnel begins with the rules that cut the space, whose counts are its sizes.
        """
        if isinstance(batches, CandidateBatch):
            own = batch_in(space, batches)
            return pruned(self._pipeline, self._strategies.symbols, own, dict(self._told))
        if k is None:
            raise TypeError("prune needs k, the number of candidates, for a sequence of batches")
        funnel = Funnel()
        restricted, verdicts = self._pipeline.restrict(replace(space, symbols=self._strategies.symbols), funnel)
        inside = [CandidateBatch(restricted, restricted.sketches[b.sketch.index], b.indices) for b in batches]
        inside = [batch.take(batch.is_allowed()) for batch in inside]
        result = self._pipeline.run(inside, [], k, SeenRows(), self._rng, may_add_audits=False)
        return replace(result, verdicts=(*verdicts, *result.verdicts), funnel=(*funnel.steps, *result.funnel))

    def explain(self, task: TuningTask, candidate_id: str | None = None) -> list[str]:
        """What became of a candidate, or with None of all of a task's, in sentences; plugins may add some."""
        trail = self._store.verdicts(task.task_id, candidate_id)
        sentences = explain_verdicts(task, trail)
        if candidate_id is not None:
            stored = self._store.candidates(
                task.task_id, self._workbench.device_name(), self._workbench.n_threads()
            )
            sentences += [explain_measurement(row) for row in stored if row.candidate_id == candidate_id]
        added = self._host.collect("explain_candidate", task=task, trail=trail)
        return sentences + [str(sentence) for _, sentence in added]

    def _start_run(self, tasks: Sequence[TuningTask]) -> None:
        added = self._manifest
        self.manifest = manifest_of(self._config, self._workbench, self._profile, self.policy, added)
        self._run_id = self._store.start_run(self.manifest)
        self._recorder.start(self._run_id)
        self._store.add_tasks(self._run_id, tasks)
        self._host.notify(
            "engine_started",
            info=EngineInfo(
                version=__version__,
                run_id=self._run_id,
                device_name=self._workbench.device_name(),
                n_threads=self._workbench.n_threads(),
                profile_name=self._profile.name,
                seed=self._config.seed,
            ),
        )

    def _finish_run(self) -> None:
        self._store.add_to_manifest(self._run_id, {"load_after": load_state()})
        self._store.finish_run(self._run_id)

    def _open_tasks(self, states: Sequence[TaskState]) -> None:
        """Generate the spaces and take in what the store has, of every task: budgets count all of it.

        After an interruption only tasks that have something in the store are opened: it may ship.
        """
        self._observer.on_status("reading the design spaces")
        for state in states:
            stored = self._store.candidates(
                state.task.task_id, self._workbench.device_name(), self._workbench.n_threads()
            )
            if self._should_stop() and not stored:
                continue
            self._opener.open(state)
            self._transferring.restore(state, stored)
            self._teacher.teach(state.batches_of(state.restore(stored)))
            if stored:
                self._auditor.restore(state, stored)
            self._whitelisting.open(state)
            if not self._whitelisting.is_waiting(state):
                retire(state, self._config, self._auditor)
            self._report(states)
        self._opener.try_prior(states)

    def _measure_defaults(self, states: Sequence[TaskState]) -> str | None:
        """Measure the untuned schedule of each task, the most expensive first. Returns why to stop, or None.

        One that failed in an earlier run is tried again: without its default a task cannot be tuned, and
        the time limit may be another one now.
        """
        self._observer.on_status("measuring the untuned kernels")
        by_id = {s.task.task_id: s for s in states if s.default_secs is None}
        by_cost = sorted(by_id.values(), key=lambda s: -s.task.weight * s.task.flop_count)
        reason = self._budget.interruption(states)
        if reason or not by_cost:
            return reason
        with closing(self._workbench.measure_defaults([state.task for state in by_cost])) as measuring:
            for task, measured in measuring:
                state = by_id[task.task_id]
                self._record(state, measured)
                if state.default is not None and state.default.error is not None:
                    state.stop_reason = "default_failed"
                    message = f"{state.default.error.kind.value}: {state.default.error.message}"
                    state.failure_examples["default"] = message
                self._report(states)
                if reason := self._budget.interruption(states):
                    return reason
        return None

    def _tune(self, states: Sequence[TaskState]) -> str:
        """The loop. Returns why it ended."""
        self._observer.on_status("tuning")
        started: set[str] = set()
        while True:
            if reason := self._budget.stop_reason(states):
                return reason
            state = self._scheduler.next_task(states)
            if state is None:
                reasons = Counter(s.stop_reason for s in states if s.space is not None)
                return str(reasons.most_common(1)[0][0]) if reasons else "nothing_to_tune"
            if state.task.task_id not in started:
                started.add(state.task.task_id)
                self._host.notify("task_started", task=state.task)
            begun = self._clock()
            n_before = state.n_trials
            self._rounds.run(state, k=self._budget.batch_size(state, states))
            self._budget.timed(state.n_trials - n_before, self._clock() - begun)
            retire(state, self._config, self._auditor)
            self._report(states)

    def _record(self, state: TaskState, measured: MeasuredCandidate) -> None:
        """Store first, then believe."""
        sketch_ids = [s.sketch_id for s in state.bench_space.sketches] if state.space else []
        self._store.add_measured(self._run_id, state.task.task_id, sketch_ids, [measured])
        state.add(measured)

    def _tell(self, state: TaskState, verdicts: Sequence[Verdict]) -> None:
        self._store.add_verdicts(self._run_id, state.task.task_id, verdicts)

    def _tell_cuts(self, state: TaskState, verdicts: Sequence[Verdict]) -> None:
        self._tell(state, verdicts)
        self._recorder.note_cuts(state, verdicts)

    def _harvest(self, state: TaskState) -> None:
        """Add a finished task's best schedules to the library."""
        if self._config.harvest and state.ranking:
            bench = self._workbench
            context = HarvestContext(bench.device_name(), bench.n_threads(), self._profile, self._model_name)
            self._store.add_entries(harvest(state, state.comparison, context, measured_at=time.time()))

    def _report(self, states: Sequence[TaskState]) -> None:
        summaries = [state.summary() for state in states]
        budget = self._budget
        self._observer.on_tasks(summaries, budget.elapsed_secs, budget.left_secs, budget.left_trials(states))

    def _strategy_failed(self, strategy: Strategy, error: BaseException) -> None:
        """Record it, once, and go on without it. Raises PluginContractError with ``strict``.

        A verifier's ConfigError is about the prior, which is the user's to mend: it ends the run.
        """
        if isinstance(strategy, Verifier) and isinstance(error, ConfigError):
            raise error
        if self._config.strict:
            strict_error = as_contract_error(strategy, error)
            raise strict_error from (None if strict_error is error else error)
        owner, why = self._strategies.owners.get(strategy.name, strategy.name), problem_of(strategy, error)
        if (strategy.name, why) not in self._told:
            self._told.add((strategy.name, why))
            self._host.fail(owner, why)
