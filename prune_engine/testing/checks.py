"""What the contract classes share."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from prune_engine.candidates import CandidateBatch
from prune_engine.contracts import check_batches
from prune_engine.measurement import MeasureErrorKind, Measurement
from prune_engine.space import DesignSpace
from prune_engine.strategies import Strategy
from prune_engine.testing.builders import make_measurement
from prune_engine.testing.workbench import FakeWorkbench


def check_name(strategy: Strategy) -> None:
    """Assert a dotted name such as ``plugin.strategy``."""
    name = getattr(strategy, "name", None)
    assert isinstance(name, str), f"name is {name!r}, not text"
    assert re.fullmatch(r"[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)+", name), f"name {name!r} has no 'plugin.' in front"


def snapshot(space: DesignSpace, *batches: CandidateBatch) -> tuple[bytes, ...]:
    """The numbers of a space and of batches, to compare before and after a call."""
    arrays = [a for s in space.sketches for v in s.variables for a in (v.table, v.rows, v.probs)]
    return tuple(a.tobytes() for a in (*arrays, *(b.indices for b in batches)))


def check_proposal(strategy: Strategy, batches: object, space: DesignSpace) -> Sequence[CandidateBatch]:
    """Assert what an explorer and a transfer must return: allowed rows, one batch a sketch, distinct."""
    checked = check_batches(strategy.name, batches, space)
    sketches = [b.sketch.index for b in checked]
    assert len(set(sketches)) == len(sketches), f"several batches of one sketch: {sketches}"
    for batch in checked:
        assert len(np.unique(batch.indices, axis=0)) == len(batch), "a candidate was proposed twice"
    return checked


def proposed(batches: Sequence[CandidateBatch]) -> list[tuple[int, tuple[int, ...]]]:
    """A proposal as sketch numbers and rows, in order."""
    return [(b.sketch.index, tuple(row)) for b in batches for row in b.indices.tolist()]


def measure_batch(batch: CandidateBatch, *, fail_every: int = 0) -> list[Measurement]:
    """Measurements of a batch by `FakeWorkbench`'s cost; every n-th fails, every fifth is censored."""
    kinds = list(MeasureErrorKind)
    measured = []
    for i, secs in enumerate(FakeWorkbench().true_latency_secs(batch)):
        error = kinds[i % len(kinds)] if fail_every and i % fail_every == 0 else None
        is_censored = i % 5 == 4 and error is None
        stage = 1 if is_censored else 2
        identity = batch.candidate(i).candidate_id
        measured.append(make_measurement(identity, float(secs), error=error, is_censored=is_censored, stage=stage))
    return measured
