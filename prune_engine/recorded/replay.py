"""Replay: the true engine against recorded spaces, without any hardware."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from prune_engine.candidates import CandidateBatch, SeenRows
from prune_engine.config import EngineConfig
from prune_engine.decisions.files import DecisionWriter
from prune_engine.engine import Engine
from prune_engine.hardware.schema import HardwareProfile
from prune_engine.hookspecs import hookimpl
from prune_engine.lifecycle import Observer, RunResult
from prune_engine.measurement import MeasuredCandidate, Measurement
from prune_engine.plugins import PluginHost, PluginRecord
from prune_engine.recorded.spaces import RecordedSpace
from prune_engine.recorded.workbench import ReplayCurve, ReplayWorkbench
from prune_engine.space import DesignSpace
from prune_engine.store.base import Store
from prune_engine.strategies import Explorer, Fitness

#: Options that would propose candidates which were not recorded, or take a recording for a device.
_NOT_RECORDED = {
    "audit_tables": False,
    "first_probe_share": 0.0,
    "probe_share": 0.0,
    "transfer": False,
    "harvest": False,
}


@dataclass(frozen=True, slots=True)
class Replay:
    """What a replayed run achieved: the engine's result, a curve for each task, and what each round measured.

    ``rounds`` is by task id; ``failed_plugins`` are those that it did without, wholly or in part.
    """

    run: RunResult
    curves: tuple[ReplayCurve, ...]
    rounds: Mapping[str, Sequence[Sequence[MeasuredCandidate]]]
    failed_plugins: tuple[PluginRecord, ...] = ()


def replay(
    recorded: Sequence[RecordedSpace],
    config: EngineConfig,
    profile: HardwareProfile,
    store: Store,
    *,
    host: PluginHost | None = None,
    observer: Observer | None = None,
    should_stop: Callable[[], bool] = lambda: False,
    n_threads: int | None = None,
    decisions: DecisionWriter | None = None,
) -> Replay:
    """Tune recorded tasks by the engine, its rules, draft, verifier, selector and finals included.

    Candidates that were not recorded are never proposed: the explorer of ``config`` gives way to one that
    proposes all recorded rows. The same arguments give the same result; a ``store`` that holds measurements
    counts as an earlier part of the run. ``host`` is a loaded one for ``config``, by default made here. The fate of
    each candidate is written to ``decisions``.

    Raises ConfigError if no candidate of a space ran, or two spaces are of one task, and what Engine raises.
    """
    config = config.model_copy(update={"explorer": RecordedExplorer.name, **_NOT_RECORDED})
    if host is None:
        host = PluginHost(config)
        host.load()
    host.register(_ReplayPlugin(recorded), "prune-engine replay")
    workbench = ReplayWorkbench(recorded, profile_digest=profile.digest(), n_threads=n_threads)
    engine = Engine(
        config,
        workbench,
        store,
        profile,
        host=host,
        observer=observer,
        should_stop=should_stop,
        decisions=decisions,
    )
    run = engine.run([space.task for space in recorded])
    return Replay(run, tuple(workbench.curve(space.task) for space in recorded), workbench.measured, host.failed)


class RecordedExplorer(Explorer):
    """Proposes every recorded row that was not measured yet and that the rules still allow."""

    name: ClassVar[str] = "replay.recorded"

    def __init__(self, recorded: Iterable[RecordedSpace]) -> None:
        """Take the recordings whose rows are proposed."""
        self._batches = {space.task.task_id: space.batches for space in recorded}
        self._measured: dict[str, SeenRows] = {}

    def propose(
        self,
        space: DesignSpace,
        n: int,  # noqa: ARG002
        fitness: Fitness | None,  # noqa: ARG002
        rng: np.random.Generator,  # noqa: ARG002
    ) -> Sequence[CandidateBatch]:
        """All that are left, whatever ``n`` is; nothing of a task that was not recorded."""
        seen = self._measured.get(space.task.task_id, SeenRows())
        here = [
            CandidateBatch(space, space.sketches[batch.sketch.index], batch.indices)
            for batch in self._batches.get(space.task.task_id, ())
        ]
        left = [batch.take(batch.is_allowed() & seen.unseen(batch)) for batch in here]
        return [batch for batch in left if len(batch)]

    def update(self, batch: CandidateBatch, measurements: Sequence[Measurement]) -> None:  # noqa: ARG002
        """Note what was measured."""
        seen = self._measured.setdefault(batch.space.task.task_id, SeenRows())
        seen.add(batch.sketch.index, batch.indices)


class _ReplayPlugin:
    """Brings the explorer in as any plugin would."""

    def __init__(self, recorded: Sequence[RecordedSpace]) -> None:
        self._recorded = recorded

    @hookimpl
    def register_explorers(self) -> list[Explorer]:
        return [RecordedExplorer(self._recorded)]
