"""Strategies that keep the contracts, one of each kind, and an explorer that mixes tasks up."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from prune_engine.candidates import CandidateBatch
from prune_engine.hardware.schema import HardwareProfile
from prune_engine.library import LibraryQuery
from prune_engine.measurement import Measurement
from prune_engine.space import DesignSpace, SpaceRestriction
from prune_engine.strategies import (
    DraftScorer,
    Explorer,
    Fitness,
    Rule,
    ScheduleTransfer,
    ScoreContext,
    Seeds,
    SelectionPool,
    Selector,
    TransferContext,
    TransferProposal,
    Verifier,
)
from prune_engine.task import TuningTask
from prune_engine.testing import FakeWorkbench, make_batch
from prune_engine.verdicts import BoolArray, DraftScores, Selection, SelectionReason, VerifyScores


class OddRule(Rule):
    """Keeps even rows of the first variable."""

    name = "acme.odd"

    def restrict(self, space: DesignSpace, profile: HardwareProfile) -> SpaceRestriction | None:
        return SpaceRestriction({(0, 0): np.arange(len(space.sketches[0].variables[0].table)) % 2 == 0})

    def mask(self, batch: CandidateBatch, profile: HardwareProfile) -> BoolArray:
        mask: BoolArray = batch.indices[:, 0] % 2 == 0
        return mask


class TrueDraft(DraftScorer):
    name = "acme.draft"

    def score(self, batch: CandidateBatch, profile: HardwareProfile) -> DraftScores:
        secs = FakeWorkbench().true_latency_secs(batch)
        return DraftScores(1e-3 / secs, secs, {"n": np.ones(len(batch))})


class DrawingExplorer(Explorer):
    name = "acme.explorer"

    def propose(
        self, space: DesignSpace, n: int, fitness: Fitness | None, rng: np.random.Generator
    ) -> Sequence[CandidateBatch]:
        seed = int(rng.integers(1 << 30))
        alive = [s.index for s in space.sketches if s.size]
        return [make_batch(-(-n // len(alive)), space=space, sketch=s, seed=seed) for s in alive]


class MixingExplorer(DrawingExplorer):
    """Takes all tasks that have a sketch for one: proposes their candidates, or leaves them out."""

    def __init__(self, *, repeats: bool) -> None:
        self._repeats = repeats
        self._seen: dict[str, set[tuple[int, ...]]] = {}

    def update(self, batch: CandidateBatch, measurements: Sequence[Measurement]) -> None:
        self._seen.setdefault(batch.sketch.sketch_id, set()).update(map(tuple, batch.indices.tolist()))

    def propose(
        self, space: DesignSpace, n: int, fitness: Fitness | None, rng: np.random.Generator
    ) -> Sequence[CandidateBatch]:
        batches = []
        for batch in super().propose(space, n, fitness, rng):
            seen = self._seen.get(batch.sketch.sketch_id, set())
            rows = sorted(seen) if self._repeats and seen else batch.indices.tolist()
            left = [row for row in rows if self._repeats or tuple(row) not in seen]
            shape = (len(left), len(batch.sketch.variables))
            batches.append(CandidateBatch(space, batch.sketch, np.array(left, dtype=np.int32).reshape(shape)))
        return batches


class MemoryVerifier(Verifier):
    """Predicts the mean of what it saw with the same unroll limit."""

    name = "acme.verifier"

    def __init__(self) -> None:
        self.seen: dict[str, list[float]] = {}

    def key(self, batch: CandidateBatch, row: int) -> str:
        return f"{batch.space.task.task_id}/{batch.sketch.index}/{batch.indices[row, 3]}"

    def score(self, batch: CandidateBatch, context: ScoreContext) -> VerifyScores:
        means = {k: float(np.mean(v)) for k, v in self.seen.items()}
        overall = float(np.mean(list(means.values()))) if means else 1.0
        values, rows = np.unique(batch.indices[:, 3], return_inverse=True)
        known = [means.get(f"{batch.space.task.task_id}/{batch.sketch.index}/{v}", overall) for v in values]
        scores = np.array(known, dtype=np.float64)[rows]
        return VerifyScores(scores, np.zeros(len(batch)), "1", is_trained=bool(means))

    def update(self, batch: CandidateBatch, measurements: Sequence[Measurement], context: ScoreContext) -> None:
        for i, measurement in enumerate(measurements):
            secs = measurement.latency_secs
            self.seen.setdefault(self.key(batch, i), []).append(1e-3 / secs if secs else 0.0)

    def save(self, path: Path) -> None:
        path.write_text(repr({"acme": self.seen}))

    def load(self, path: Path) -> None:
        import ast

        from prune_engine.errors import ConfigError

        try:
            self.seen = ast.literal_eval(path.read_text())["acme"]
        except (ValueError, SyntaxError, KeyError) as error:
            raise ConfigError("not mine", who=str(path)) from error


class TopSelector(Selector):
    name = "acme.selector"

    def select(self, pool: SelectionPool, k: int, rng: np.random.Generator) -> Selection:
        usable = np.flatnonzero(~pool.is_audit)
        top = usable[np.argsort(-pool.scores[usable], kind="stable")][:k]
        return Selection(top.astype(np.int64), (SelectionReason.TOP,) * len(top))


class NoTransfer(ScheduleTransfer):
    name = "acme.transfer"

    def propose(
        self, task: TuningTask, space: DesignSpace, context: TransferContext, limit: int
    ) -> TransferProposal:
        if not context.library.find(LibraryQuery()) or not limit:
            return TransferProposal()
        return seeds_of(make_batch(limit, space=space))


def seeds_of(batch: CandidateBatch) -> TransferProposal:
    n = len(batch)
    return TransferProposal((Seeds(batch, ("x",) * n, ("copied",) * n, np.zeros(n)),))
