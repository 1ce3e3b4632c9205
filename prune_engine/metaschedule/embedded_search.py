"""The search in one kernel's design spaces that somebody else generated: what to measure, told what came of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from prune_engine.candidates import CandidateBatch
from prune_engine.engine import Engine
from prune_engine.errors import PruneEngineError, SpaceError
from prune_engine.loop.harvest import HarvestContext, harvest
from prune_engine.loop.steps import Steps
from prune_engine.measurement import MeasuredCandidate, MeasureError, MeasureErrorKind, Measurement
from prune_engine.metaschedule.database_records import RecordedRun, records_of
from prune_engine.metaschedule.embedded_bench import ContextBench, structural_hash
from prune_engine.metaschedule.embedded_device import EmbeddedOptions, Remarks, device_of, task_in
from prune_engine.metaschedule.materialise import Materialiser
from prune_engine.metaschedule.record_rows import run_secs_of
from prune_engine.metaschedule.replaying import Predict, RandomReplay
from prune_engine.metaschedule.study_device import StudyDevice
from prune_engine.metaschedule.targets import threads_of
from prune_engine.metaschedule.trace_book import TraceBook
from prune_engine.metaschedule.traces import trace_to_json
from prune_engine.plugins import PluginHost
from prune_engine.space import DesignSpace, Sketch
from prune_engine.store.base import Store
from prune_engine.strategy_set import load_strategies
from prune_engine.task import TuningTask
from prune_engine.verdicts import RuleKind

#: Candidates in a row that the context's post-processors refuse after which the search ends.
_MAX_REFUSED = 128
#: Where the search is done with what guesses leave, they are asked no more: once.
_GUESSES_OFF = "all that the heuristic rules leave was measured: the rest is searched without them"


@dataclass(frozen=True, slots=True)
class Setting:
    """What a TuneContext says of a task: its module, target, name, seed and post-processors."""

    mod: Any
    target: Any
    name: str
    seed: int
    postprocs: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Found:
    """A schedule to measure. ``candidate_id`` is None for one that was drawn where nothing can be read."""

    schedule: Any
    candidate_id: str | None


class EmbeddedSearch:
    """Searches one task. What cannot be read is drawn at random, in proportion to its design spaces."""

    def __init__(
        self,
        setting: Setting,
        traces: Sequence[Any],
        options: EmbeddedOptions,
        open_store: Callable[[], Store],
        database: Any,
        remarks: Remarks,
        predict: Predict | None,
    ) -> None:
        """Read the design spaces, and the database for what was measured before.

        ``predict`` ranks what is drawn at random. Raises ConfigError for a profile that does not suit the target,
        or a prior that cannot be read, and StoreError.
        """
        self._setting, self._remarks = setting, remarks
        self._options = options
        self._config = options.seeded(setting.seed)
        self._rng = np.random.default_rng(self._config.seed)
        self._modules: set[int] = set()
        self._book = TraceBook()
        self._steps: Steps | None = None
        self._with_guesses = True
        self._store: Store | None = None
        host = self._host()
        self._device: StudyDevice = device_of(setting.target, options, host, remarks)
        task = task_in(setting.mod, setting.name, self._device.target, remarks)
        unread = list(traces)
        self._task: TuningTask | None = task
        self._materialiser: Materialiser | None = None
        self._space: DesignSpace | None = None
        if task is not None:
            self._materialiser = Materialiser(task, self._config.seed, setting.postprocs)
            space, unread = self._read(task, traces)
            if space.has_choices:
                self._space = space
            else:  # nothing to choose between: what there is is drawn
                unread = list(traces)
        try:
            if self._space is not None:
                self._store = open_store()
            self._take_in(database)
            if self._store is not None:
                self._steps = self._opened(host)
        except BaseException:
            self.close()
            raise
        mod = task.mod if task is not None else setting.mod
        self._replay = RandomReplay(mod, unread, setting.postprocs, self._is_new, self._rng, predict)

    def next(self, k: int) -> list[Found]:
        """At most ``k`` schedules that were never given before; none where there are no more."""
        n_spaces = self._replay.n_traces + (len(self._space.sketches) if self._space else 0)
        n_drawn = round(k * self._replay.n_traces / max(1, n_spaces))
        found = self._chosen(k - n_drawn)
        found += [Found(schedule, None) for schedule in self._replay.draw(k - len(found))]
        return found if len(found) == k else found + self._chosen(k - len(found))

    def tell(self, found: Found, run_secs: Sequence[float], error: str | None) -> str | None:
        """Take in what came of a schedule: seconds of each repeat, or how it failed. Raises StoreError.

        Returns how it failed, None if it did not: latencies that are none are a failure, too, as is TVM's 1e10.
        """
        secs = run_secs_of(run_secs)
        if error is None and not secs:
            error = f"the runner's latencies are no seconds: {[float(one) for one in run_secs][:3]}"
        if self._steps is None or found.candidate_id is None:
            return error
        if error is not None:
            failure = MeasureError(MeasureErrorKind.RUN_ERROR, error)
            self._steps.tell(found.candidate_id, error=failure)
        else:
            trace_json = trace_to_json(found.schedule.trace)
            self._steps.tell(found.candidate_id, run_secs=secs, trace_json=trace_json)
        return error

    def close(self) -> None:
        """Learn what is left, add the best schedules to the store's library, and let go of the store."""
        store, self._store = self._store, None
        steps, self._steps = self._steps, None
        if store is None:
            return
        try:
            if steps is not None:
                steps.close()
                if self._config.harvest and steps.state.ranking:
                    profile = self._device.profile
                    context = HarvestContext(self._device_name, self._n_threads, profile, self._setting.name)
                    store.add_entries(harvest(steps.state, None, context, measured_at=time.time()))
        finally:
            store.close()

    @property
    def _device_name(self) -> str:
        from prune_engine.hardware.host import cpu_model

        is_host = threads_of(self._device.target) is not None
        return self._options.device_name or (cpu_model() if is_host else self._device.profile.name)

    @property
    def _n_threads(self) -> int:
        return threads_of(self._device.target) or 1

    def _host(self) -> PluginHost:
        host = PluginHost(self._config)
        host.load()
        for record in host.failed:
            self._remarks.say(f"plugin {record.name} {record.summary}")
        return host

    def _read(self, task: TuningTask, traces: Sequence[Any]) -> tuple[DesignSpace, list[Any]]:
        """The traces that can be sketches, and those that cannot."""
        assert self._materialiser is not None, "made beside the task"
        sketches: list[Sketch] = []
        unread: list[Any] = []
        for number, trace in enumerate(traces):
            try:
                sketch = self._materialiser.sketch(len(sketches), trace)
            except PruneEngineError as error:
                unread.append(trace)
                self._remarks.say(f"{task.name}, design space {number}: {error} It is drawn from at random.")
                continue
            if sketch.nests is None:
                reason = sketch.opaque_reason
                self._remarks.say(f"{task.name}, design space {number} is judged by its decisions alone: {reason}")
            sketches.append(sketch)
            self._book.add(sketch, trace)
        return DesignSpace(task, tuple(sketches)), unread

    def _opened(self, host: PluginHost) -> Steps | None:
        """The engine's rounds on the readable sketches; None where there is nothing to choose between them."""
        assert self._task is not None, "there are sketches"
        assert self._space is not None, "there are sketches"
        assert self._materialiser is not None, "there are sketches"
        assert self._store is not None, "opened before"
        config = self._config
        if not self._with_guesses:
            strategies = load_strategies(host, config)
            guesses = [rule.name for rule in strategies.rules if rule.kind is RuleKind.HEURISTIC]
            config = config.model_copy(update={"disabled_rules": (*config.disabled_rules, *guesses)})
        self._bench = ContextBench(self._space, self._materialiser, self._device_name, self._n_threads)
        engine = Engine(config, self._bench, self._store, self._device.profile, host=host)
        try:
            return engine.steps(self._task)
        except SpaceError as error:
            self._remarks.say(str(error))
            return None

    def _chosen(self, k: int) -> list[Found]:
        """At most ``k`` of the engine's choice that the post-processors take."""
        found: list[Found] = []
        n_refused = 0
        while len(found) < k and self._steps is not None and n_refused < _MAX_REFUSED:
            # Where much is refused more is asked for at once: a choice takes longer than to make schedules of it.
            proposals = self._steps.ask(min(64, k - len(found) + n_refused))
            if not proposals:
                if not self._lift_guesses():
                    break
                continue
            for proposal in proposals:
                if len(found) == k:
                    break
                made = self._bench.scheduled(self._steps.state.bench_space, proposal.candidate)
                identity = proposal.candidate.candidate_id
                if isinstance(made, MeasureError):
                    n_refused += 1
                    self._steps.tell(identity, error=made)
                elif self._is_new(made.schedule.mod):
                    found.append(Found(made.schedule, identity))
        if not found and n_refused >= _MAX_REFUSED:
            self._remarks.say(f"{self._setting.name}: the post-processors refused {n_refused} candidates in a row")
        return found

    def _lift_guesses(self) -> bool:
        """Go on without heuristic rules. Returns False where that was done before."""
        if not self._with_guesses or self._store is None:
            return False
        self._with_guesses = False
        assert self._steps is not None, "it is exhausted"
        self._steps.close()
        self._remarks.say(f"{self._setting.name}: {_GUESSES_OFF}")
        self._steps = self._opened(self._host())
        return self._steps is not None

    def _is_new(self, mod: Any) -> bool:
        """Whether a program was never met before; it is from now on."""
        identity = structural_hash(mod)
        is_new = identity not in self._modules
        self._modules.add(identity)
        return is_new

    def _take_in(self, database: Any) -> None:
        """What the database has of this kernel and target is learnt, and never measured again."""
        if database is None:
            return
        run_id = None
        for record in records_of(database, self._setting.mod, self._setting.target, self._remarks):
            measured = self._measured(record)
            if measured is None:
                if record.mod is not None:
                    self._modules.add(structural_hash(record.mod))
                continue
            assert self._store is not None, "there is a candidate"
            assert self._task is not None, "there is a candidate"
            assert self._space is not None, "there is a candidate"
            if run_id is None:
                run_id = self._store.start_run({"source": "MetaSchedule database"})
                self._store.add_tasks(run_id, [self._task])
            sketch_ids = [sketch.sketch_id for sketch in self._space.sketches]
            self._store.add_measured(run_id, self._task.task_id, sketch_ids, [measured])
        if run_id is not None and self._store is not None:
            self._store.finish_run(run_id)

    def _measured(self, record: RecordedRun) -> MeasuredCandidate | None:
        """A record as a candidate of the space; None for what is in none of its sketches."""
        place = self._book.find(record.trace)
        if place is None or self._space is None or self._store is None:
            return None
        batch = CandidateBatch(self._space, self._space.sketches[place[0]], place[1][None, :])
        candidate = batch.candidate(0)
        error = None if record.run_secs else MeasureError(MeasureErrorKind.RUN_ERROR, "failed, by the database")
        measurement = Measurement(
            candidate_id=candidate.candidate_id,
            run_secs=record.run_secs,
            error=error,
            build_secs=0.0,
            device_name=self._device_name,
            n_threads=self._n_threads,
            profile_digest=self._device.profile.digest(),
            measured_at=time.time(),
        )
        return MeasuredCandidate(candidate, measurement, trace_to_json(record.trace))
