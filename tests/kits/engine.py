"""What the engine tests share: a clock, small spaces, plugins that watch or misbehave."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from prune_engine.candidates import CandidateBatch
from prune_engine.hookspecs import hookimpl
from prune_engine.measurement import MeasuredCandidate
from prune_engine.space import DesignSpace, Sketch, Variable, VariableKind
from prune_engine.store.base import Store
from prune_engine.strategies import RewrittenTrace, ScheduleTransfer, Seeds, TransferProposal
from prune_engine.task import TuningTask
from prune_engine.testing import make_batch
from prune_engine.testing.workbench import rewritten

RunEngine = Callable[..., Any]


class Clock:
    """Seconds that pass only when told to."""

    def __init__(self) -> None:
        self.secs = 0.0

    def __call__(self) -> float:
        return self.secs

    def pass_(self, secs: float) -> Callable[[object], None]:
        def advance(_: object) -> None:
            self.secs += secs

        return advance


def small_space(task: TuningTask, n: int = 6) -> DesignSpace:
    unroll = Variable.of("unroll", VariableKind.CATEGORICAL, np.arange(n // 2)[:, None])
    order = Variable.of("order", VariableKind.CATEGORICAL, np.array([[0], [1]]))
    return DesignSpace(task, (Sketch(0, "small", (unroll, order)),))


def stored_ids(store: Store, task: TuningTask) -> list[str]:
    return [c.candidate_id for c in store.candidates(task.task_id, "fake-cpu", 2)]


class Batches:
    """A plugin that notes the tasks and candidates of each batch."""

    def __init__(self) -> None:
        self.tasks: list[str] = []
        self.batches: list[list[str]] = []
        self.summaries: list[Any] = []
        self.finished: list[Any] = []

    @hookimpl
    def batch_measured(self, task: TuningTask, measured: Sequence[MeasuredCandidate]) -> None:
        self.tasks.append(task.name)
        self.batches.append([m.measurement.candidate_id for m in measured])

    @hookimpl
    def batch_pruned(self, summary: Any) -> None:
        self.summaries.append(summary)

    @hookimpl
    def task_finished(self, summary: Any) -> None:
        self.finished.append(summary)


class StrategyPlugin:
    """A plugin with one transfer."""

    def __init__(self, transfer: ScheduleTransfer) -> None:
        self._transfer = transfer

    @hookimpl
    def register_transfers(self) -> list[ScheduleTransfer]:
        return [self._transfer]


class FixedSeeds(ScheduleTransfer):
    name = "acme.seeds"

    def __init__(self, n: int, seed: int = 9) -> None:
        self._n, self._seed = n, seed

    def propose(self, task: Any, space: DesignSpace, context: Any, limit: int) -> Any:
        n = min(self._n, limit)
        batch = make_batch(n, space=space, seed=self._seed)
        return TransferProposal((Seeds(batch, ("x",) * n, ("copied",) * n, -np.arange(float(n))),))


class PlannedSeeds(ScheduleTransfer):
    """Proposes the candidates of one batch, best first, and rewritten schedules of so many floors after them."""

    name = "acme.planned"

    def __init__(self, rows: Any = (), floors: Sequence[float] = (), **proposal: Any) -> None:
        self._rows, self._floors, self._proposal = rows, floors, proposal
        self.limits: list[int] = []
        self.contexts: list[Any] = []

    def propose(self, task: Any, space: DesignSpace, context: Any, limit: int) -> Any:
        self.limits.append(limit)
        self.contexts.append(context)
        batch = self._rows(space)[:limit] if callable(self._rows) else []
        seeds = ()
        if len(batch):
            seeds_of = CandidateBatch(space, space.sketches[0], batch)
            n = len(batch)
            seeds = (Seeds(seeds_of, ("x",) * n, ("copied",) * n, -np.arange(float(n))),)
        traces = tuple(
            RewrittenTrace(rewritten(f) if f else "nonsense", "y", "ceil", -100.0 - i)
            for i, f in enumerate(self._floors[: limit - len(batch)])
        )
        return TransferProposal(seeds, traces, **self._proposal)
