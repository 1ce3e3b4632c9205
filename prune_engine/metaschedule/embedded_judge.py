"""Rules, draft and verifier for candidates of somebody else: traces become sketches as they come."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from prune_engine.candidates import CandidateBatch
from prune_engine.errors import PruneEngineError
from prune_engine.loop.teaching import Teacher
from prune_engine.metaschedule.embedded_bench import structural_hash
from prune_engine.metaschedule.embedded_device import EmbeddedOptions, Remarks, device_of, task_in
from prune_engine.metaschedule.materialise import SCHEDULE_ERRORS, Materialiser, last_line
from prune_engine.metaschedule.trace_book import TraceBook
from prune_engine.pipeline import Pipeline
from prune_engine.plugins import PluginHost
from prune_engine.space import DesignSpace, Int32Array, Sketch
from prune_engine.stages.standing import problem_of
from prune_engine.strategies import Positions, Rule, Strategy
from prune_engine.strategy_set import load_strategies
from prune_engine.task import TuningTask

#: Structures of one kernel that are read; its mutators make a few out of each design space.
_MAX_SKETCHES = 256
#: Kernels whose spaces are kept.
_MAX_TASKS = 1024


class _Reading(threading.local):
    """Whether this thread is about to see what TVM makes of a structure."""

    is_on = False


_READING = _Reading()


def is_reading() -> bool:
    """Whether post-processors are called by us, to compare a reading with what they do, and not by TVM's search."""
    return _READING.is_on


class Judge:
    """The strategies of one target. ``lock`` is to be held by whoever asks: TVM calls from several threads."""

    def __init__(
        self,
        target: Any,
        options: EmbeddedOptions,
        remarks: Remarks,
        *,
        wants: Callable[[Rule], bool] = lambda _: True,
        on_sketch: Callable[[JudgedTask, Sketch], None] = lambda _task, _sketch: None,
    ) -> None:
        """Load the plugins. ``wants`` says which rules; ``on_sketch`` is told of each sketch that is met.

        Raises ConfigError for a profile that does not suit the target.
        """
        self.lock = threading.RLock()
        self._options, self._remarks, self._on_sketch = options, remarks, on_sketch
        host = PluginHost(options.config)
        host.load()
        for record in host.failed:
            remarks.say(f"plugin {record.name} {record.summary}")
        self.device = device_of(target, options, host, remarks)
        self._strategies = load_strategies(host, options.config)
        self.pipeline = Pipeline(
            rules=[rule for rule in self._strategies.rules if wants(rule)],
            draft_scorer=self._strategies.draft_scorer,
            verifier=self._strategies.verifier,
            selector=self._strategies.selector,
            profile=self.device.profile,
            config=options.config,
            on_failure=self._failed,
        )
        self.teacher = Teacher(self._strategies, self.pipeline, self.device.profile, self._failed)
        self._tasks: dict[int, JudgedTask | None] = {}

    def task(self, mod: Any, name: str, postprocs: Sequence[Any]) -> JudgedTask | None:
        """A kernel, as it is known so far; None, with a remark, for what cannot be one."""
        identity = structural_hash(mod)
        if identity not in self._tasks:
            if len(self._tasks) >= _MAX_TASKS:
                self._tasks.pop(next(iter(self._tasks)))
            task = task_in(mod, name, self.device.target, self._remarks)
            materialiser = None if task is None else Materialiser(task, self._options.config.seed, postprocs)
            self._tasks[identity] = (
                None
                if task is None or materialiser is None
                else JudgedTask(
                    DesignSpace(task, (), self._strategies.symbols), materialiser, self._remarks, self._on_sketch
                )
            )
        return self._tasks[identity]

    def _failed(self, strategy: Strategy, error: BaseException) -> None:
        self._remarks.say(f"{problem_of(strategy, error)}; it is left out")


@dataclass(frozen=True, slots=True)
class ReadBatch:
    """Candidates of one sketch and where they stand among those that were read, int64 (n,)."""

    batch: CandidateBatch
    positions: Positions


class JudgedTask:
    """One kernel: the sketches that its candidates' traces turned out to be."""

    def __init__(
        self,
        space: DesignSpace,
        materialiser: Materialiser,
        remarks: Remarks,
        on_sketch: Callable[[JudgedTask, Sketch], None],
    ) -> None:
        self.space = space
        self._materialiser, self._remarks, self._on_sketch = materialiser, remarks, on_sketch
        self._book = TraceBook()

    @property
    def task(self) -> TuningTask:
        """What is tuned."""
        return self.space.task

    def find(self, trace: Any) -> tuple[int, Int32Array] | None:
        """The sketch's number and the rows, int32 (v,), of a trace; None for one that cannot be read."""
        n_before = len(self.space.sketches)
        found = self._book.find(trace, self._sketch)
        if len(self.space.sketches) > n_before:
            self._on_sketch(self, self.space.sketches[-1])
        return found

    def read(self, traces: Sequence[Any]) -> list[ReadBatch]:
        """The traces that can be read, as one batch per sketch."""
        groups: dict[int, tuple[list[int], list[Int32Array]]] = {}
        for position, trace in enumerate(traces):
            found = None if trace is None else self.find(trace)
            if found is not None:
                positions, rows = groups.setdefault(found[0], ([], []))
                positions.append(position)
                rows.append(found[1])
        return [
            ReadBatch(self.batch(number, np.stack(rows)), np.array(positions, dtype=np.int64))
            for number, (positions, rows) in sorted(groups.items())
        ]

    def batch(self, number: int, rows: Int32Array) -> CandidateBatch:
        """Rows, int32 (n, v), of sketch ``number``."""
        return CandidateBatch(self.space, self.space.sketches[number], rows)

    def _sketch(self, trace: Any) -> Sketch | None:
        """The sketch of a structure that is met for the first time; None where there can be none."""
        number, name = len(self.space.sketches), self.task.name
        if number >= _MAX_SKETCHES:
            self._remarks.say(f"{name}: more than {_MAX_SKETCHES} structures; those after that are not read")
            return None
        _READING.is_on = True
        try:
            sketch = self._materialiser.sketch(number, trace)
        except (*SCHEDULE_ERRORS, PruneEngineError) as error:
            self._remarks.say(f"{name}: a structure cannot be read: {last_line(str(error))}")
            return None
        finally:
            _READING.is_on = False
        if sketch.nests is None:
            self._remarks.say(f"{name}: a structure is judged by its decisions alone: {sketch.opaque_reason}")
        self.space = replace(self.space, sketches=(*self.space.sketches, sketch))
        return sketch
