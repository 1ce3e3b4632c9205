"""The engine: owns strategies, store and budget, and runs the loop from tasks to winners."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from prune_engine import __version__, contracts
from prune_engine.candidates import Candidate, CandidateBatch
from prune_engine.config import EngineConfig
from prune_engine.errors import NothingMeasuredError, SpaceError
from prune_engine.finals import Finals
from prune_engine.hardware.schema import HardwareProfile
from prune_engine.lifecycle import EngineInfo, Observer, PruneSummary, RunResult, SilentObserver, TaskResult
from prune_engine.measurement import MeasuredCandidate, Measurement, Workbench
from prune_engine.pipeline import Pipeline, PruneResult
from prune_engine.plugins import PluginHost
from prune_engine.scheduler import GradientScheduler
from prune_engine.store.base import Store
from prune_engine.strategies import Strategy
from prune_engine.strategy_set import Strategies, load_strategies
from prune_engine.task import TuningTask
from prune_engine.task_state import TaskState
from prune_engine.verdicts import Outcome, Stage, Verdict

#: Share of a seconds budget that is kept for re-timing the winners, at most so many seconds per task.
_FINALS_SHARE, _FINALS_SECS_PER_TASK = 0.2, 1.0
#: Rounds in a row without a new candidate after which a space counts as exhausted.
_MAX_BARREN_ROUNDS = 3


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
        manifest: recorded with the run beside versions and options.
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
        manifest: Mapping[str, object] | None = None,
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
        self._should_stop = should_stop
        self._manifest = dict(manifest or {})
        self._scheduler = GradientScheduler()
        self._rng = np.random.default_rng(config.seed)
        self._started = time.monotonic()
        self._run_id = ""

    def run(self, tasks: Sequence[TuningTask]) -> RunResult:
        """Tune until the budget, a plateau, the spaces' end or ``should_stop``; then choose the winners.

        Raises NothingMeasuredError, after everything was saved, if not one schedule of any task could be
        measured.
        """
        self._started = time.monotonic()
        self._start_run(tasks)
        states = [TaskState(task) for task in tasks]
        reason = self._open_tasks(states) or self._tune(states)
        for state in states:
            if state.is_open:
                state.stop_reason = reason
        self._observer.on_status("re-timing the best schedules")
        finals = Finals(self._workbench, self._store, self._config, self._run_id)
        for state in sorted(states, key=lambda s: -(s.task.weight * (s.default_secs or 0))):
            out_of_time = self._should_stop() or (self._left_secs() or 1) <= 0
            finals.decide(state, measure=not out_of_time)
            self._report(states)
            self._host.notify("task_finished", task=state.task, summary=state.summary())
        self._store.finish_run(self._run_id)
        return self._result(states, reason)

    def _start_run(self, tasks: Sequence[TuningTask]) -> None:
        manifest = {
            "prune_engine": __version__,
            "device": self._workbench.device_name(),
            "n_threads": self._workbench.n_threads(),
            "profile": self._profile.name,
            "config": self._config.model_dump(mode="json"),
            **self._manifest,
        }
        self._run_id = self._store.start_run(manifest)
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

    def _open_tasks(self, states: Sequence[TaskState]) -> str | None:
        """Generate spaces, take in what the store has, measure each default. Returns why to stop, or None."""
        self._observer.on_status("reading the design spaces and measuring the untuned kernels")
        for state in sorted(states, key=lambda s: -s.task.weight * s.task.flop_count):
            self._open_space(state)
            state.restore(
                self._store.candidates(
                    state.task.task_id, self._workbench.device_name(), self._workbench.n_threads()
                )
            )
            if reason := self._stop_reason(states):
                return reason
            if state.default is None:
                self._record(state, [self._workbench.measure_default(state.task)])
            if state.default is not None and state.default.error is not None:
                state.stop_reason = "default_failed"
                message = f"{state.default.error.kind.value}: {state.default.error.message}"
                state.failure_examples["default"] = message
            self._learn(state, self._stored_pairs(state))
            self._report(states)
        return None

    def _open_space(self, state: TaskState) -> None:
        try:
            space = self._workbench.design_space(state.task)
        except SpaceError as error:
            state.stop_reason = "no_space"
            state.failure_examples["space"] = str(error)
            return
        state.full_size = space.size
        if not space.has_choices:
            state.stop_reason = "nothing_to_tune"
            return
        space, verdicts = self._pipeline.restrict(space)
        state.space = space
        if verdicts:
            self._store.add_verdicts(self._run_id, state.task.task_id, verdicts)

    def _tune(self, states: Sequence[TaskState]) -> str:
        """The loop. Returns why it ended."""
        self._observer.on_status("tuning")
        started: set[str] = set()
        while True:
            if reason := self._stop_reason(states):
                return reason
            state = self._scheduler.next_task(states)
            if state is None:
                reasons = Counter(s.stop_reason for s in states if s.space is not None)
                return str(reasons.most_common(1)[0][0]) if reasons else "nothing_to_tune"
            if state.task.task_id not in started:
                started.add(state.task.task_id)
                self._host.notify("task_started", task=state.task)
            self._round(state, first=not state.n_trials, k=self._batch_size(states))
            self._retire(state)
            self._report(states)

    def _batch_size(self, states: Sequence[TaskState]) -> int:
        if self._config.n_trials is None:
            return self._config.batch_size
        left = self._config.n_trials - sum(state.n_trials for state in states)
        return max(1, min(self._config.batch_size, left))

    def _round(self, state: TaskState, *, first: bool, k: int) -> None:
        """One batch of one task: propose, prune, measure, store, learn."""
        space = state.space
        assert space is not None, "only open tasks get here"
        seeds = self._seeds(state, k) if first else []
        result = self._pipeline.run(self._proposals(state), seeds, k, state.seen, self._rng)
        self._host.notify(
            "batch_pruned",
            task=state.task,
            summary=PruneSummary(result.n_proposed, len(result.candidates), result.verdicts, result.seconds),
        )
        measured: list[MeasuredCandidate] = []
        incumbent = state.best_secs
        known = self._known_ids(state)
        for one in self._workbench.measure(space, result.candidates, incumbent, known):
            measured.append(one)
            self._record(state, [one])
        for candidate in result.candidates:  # those that were repaired into others, too
            state.mark_seen(candidate)
        state.n_barren_rounds = 0 if measured else state.n_barren_rounds + 1
        self._store.add_verdicts(self._run_id, state.task.task_id, self._verdicts(result, measured))
        self._host.notify("batch_measured", task=state.task, measured=tuple(measured))
        self._learn(state, [(m.candidate, m.measurement) for m in measured if m.candidate])

    def _known_ids(self, state: TaskState) -> frozenset[str]:
        """What need not run again, another tuner's work on the same store included."""
        elsewhere = self._store.measured_ids(
            state.task.task_id, self._workbench.device_name(), self._workbench.n_threads()
        )
        return elsewhere | state.known_ids

    def _proposals(self, state: TaskState) -> Sequence[CandidateBatch]:
        explorer = self._strategies.explorer
        space = state.space
        assert space is not None, "only open tasks get here"

        def fitness(batch: CandidateBatch) -> np.ndarray:
            scores = self._pipeline.fitness(batch)
            return np.ones(len(batch)) if scores is None else scores

        try:
            batches = explorer.propose(space, self._config.explore_size, fitness, self._rng)
            return contracts.check_batches(explorer.name, batches, space)
        except Exception as error:  # noqa: BLE001 - the plugin boundary; without an explorer nothing can go on
            self._strategy_failed(explorer, error)
            state.stop_reason = "explorer_failed"
            return []

    def _seeds(self, state: TaskState, limit: int) -> list[CandidateBatch]:
        seeds: list[CandidateBatch] = []
        space = state.space
        assert space is not None, "only open tasks get here"
        for transfer in self._strategies.transfers:
            try:
                batches = transfer.propose(state.task, space, self._store, limit)
                seeds += contracts.check_batches(transfer.name, batches, space)
            except Exception as error:  # noqa: BLE001 - the plugin boundary
                self._strategy_failed(transfer, error)
        return seeds

    def _record(self, state: TaskState, measured: Sequence[MeasuredCandidate]) -> None:
        """Store first, then believe."""
        sketch_ids = [s.sketch_id for s in state.space.sketches] if state.space else []
        self._store.add_measured(self._run_id, state.task.task_id, sketch_ids, measured)
        for one in measured:
            state.add(one)

    def _verdicts(self, result: PruneResult, measured: Sequence[MeasuredCandidate]) -> list[Verdict]:
        verdicts = list(result.verdicts)
        for one in measured:
            error = one.measurement.error
            if error is not None:
                reason = f"{error.kind.value}: {error.message}"
                verdicts.append(
                    Verdict(Stage.MEASURE, "workbench", Outcome.FAILED, reason, 1, one.measurement.candidate_id)
                )
        ran = {one.measurement.candidate_id for one in measured}
        repaired = sum(c.candidate_id not in ran for c in result.candidates)
        if repaired:
            reason = "the compiler repaired its decisions into another candidate"
            verdicts.append(Verdict(Stage.MEASURE, "workbench", Outcome.SKIPPED, reason, repaired))
        return verdicts

    def _learn(self, state: TaskState, pairs: Sequence[tuple[Candidate, Measurement]]) -> None:
        learners: list[Strategy] = [self._strategies.explorer]
        if self._strategies.verifier:
            learners.append(self._strategies.verifier)
        for batch, measurements in state.batches_of(pairs):
            for learner in learners:
                try:
                    learner.update(batch, measurements)  # type: ignore[attr-defined]
                except Exception as error:  # noqa: BLE001 - the plugin boundary
                    self._strategy_failed(learner, error)

    def _stored_pairs(self, state: TaskState) -> list[tuple[Candidate, Measurement]]:
        rows = self._store.candidates(
            state.task.task_id, self._workbench.device_name(), self._workbench.n_threads()
        )
        sketch_ids = [s.sketch_id for s in state.space.sketches] if state.space else []
        return [
            (Candidate(row.candidate_id, row.sketch_index, row.decisions), row.measurement)
            for row in rows
            if row.sketch_index is not None
            and row.sketch_index < len(sketch_ids)
            and sketch_ids[row.sketch_index] == row.sketch_id
        ]

    def _retire(self, state: TaskState) -> None:
        """Close a task that cannot or need not go on."""
        config = self._config
        if state.n_barren_rounds >= _MAX_BARREN_ROUNDS:
            state.stop_reason = "exhausted"
        elif len(state.history) > config.plateau_trials:
            before, now = state.history[-config.plateau_trials - 1], state.history[-1]
            if now > before * (1 - config.plateau_gain):
                state.stop_reason = "plateau"
        elif state.n_trials >= config.plateau_trials and not state.history:
            state.stop_reason = "all_failed"

    def _stop_reason(self, states: Sequence[TaskState]) -> str | None:
        if self._should_stop():
            return "interrupted"
        if self._config.n_trials is not None and sum(s.n_trials for s in states) >= self._config.n_trials:
            return "trials"
        left = self._left_secs()
        if left is not None:
            n_open = sum(bool(s.ranking) for s in states)
            reserve = min(_FINALS_SHARE * (self._config.budget_secs or 0), _FINALS_SECS_PER_TASK * n_open)
            if left <= reserve:
                return "seconds"
        return None

    def _left_secs(self) -> float | None:
        if self._config.budget_secs is None:
            return None
        return self._config.budget_secs - (time.monotonic() - self._started)

    def _report(self, states: Sequence[TaskState]) -> None:
        n_left = None
        if self._config.n_trials is not None:
            n_left = max(0, self._config.n_trials - sum(s.n_trials for s in states))
        summaries = [state.summary() for state in states]
        self._observer.on_tasks(summaries, time.monotonic() - self._started, self._left_secs(), n_left)

    def _result(self, states: Sequence[TaskState], reason: str) -> RunResult:
        census: Counter[str] = Counter()
        for state in states:
            census.update(state.failures)
            if state.default is not None and state.default.error is not None:
                census[f"default {state.default.error.kind.value}"] += 1
        measured_any = any(s.default_secs is not None or s.ranking for s in states)
        if states and not measured_any and reason != "interrupted":
            listed = ", ".join(f"{kind}: {n}" for kind, n in census.most_common()) or "no attempt was finished"
            examples = [e for s in states for e in s.failure_examples.values()][:3]
            raise NothingMeasuredError(
                f"not one schedule of {len(states)} tasks could be measured ({listed})",
                who="tuning",
                got="; ".join(examples) or None,
                remedy="Everything tried is in the store; raise the budget or the time limits.",
            )
        return RunResult(
            run_id=self._run_id,
            tasks=tuple(
                TaskResult(s.summary(), s.winner.trace_json if s.winner else None, dict(s.failure_examples))
                for s in states
            ),
            stop_reason=reason,
            n_new=sum(s.n_new for s in states),
            elapsed_secs=time.monotonic() - self._started,
            census=dict(census),
        )

    def _strategy_failed(self, strategy: Strategy, error: Exception) -> None:
        """Record it and go on without it; with ``strict`` the error is raised."""
        if self._config.strict:
            raise error
        self._host.fail(self._strategies.owners.get(strategy.name, strategy.name), f"{strategy.name}: {error}")
