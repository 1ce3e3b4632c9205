"""Probes: drawn out of the whole space, the better the likelier, a share of each batch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from kits.engine import RunEngine

from prune_engine.candidates import CandidateBatch
from prune_engine.config import EngineConfig
from prune_engine.loop.sources import Sources
from prune_engine.loop.task_state import TaskState
from prune_engine.store.base import Store
from prune_engine.testing import FakeWorkbench, make_batch, make_space, make_task
from prune_engine.verdicts import SelectionReason, Stage


class Judge:
    """A pipeline that knows the truth."""

    def fitness(self, batch: CandidateBatch) -> Any:
        return 1e-3 / FakeWorkbench().true_latency_secs(batch)


class Alike:
    """One that thinks the same of all."""

    def fitness(self, batch: CandidateBatch) -> Any:
        return np.ones(len(batch))


def sources(pipeline: Any, **options: Any) -> Sources:
    config = EngineConfig.of(explore_size=400, **options)

    def fail(*_: object) -> None:
        raise AssertionError("nothing fails here")

    return Sources(None, pipeline, config, np.random.default_rng(0), fail)  # type: ignore[arg-type]


def state(n_trials: int = 0) -> TaskState:
    space = make_space(make_task(shape=(512, 512, 512)))
    return TaskState(space.task, space, space, n_trials=n_trials)


@pytest.mark.parametrize(("n_trials", "share"), [(0, 0.5), (15, 0.5), (16, 0.2), (80, 0.2)])
def test_share_of_a_batch(n_trials: int, share: float) -> None:
    asked = sources(Judge())
    counts = [sum(map(len, asked.probes(state(n_trials), 16))) for _ in range(50)]
    assert abs(np.mean(counts) - 16 * share) < 0.5


def test_small_batches_get_theirs_at_times() -> None:
    asked = sources(Judge())
    counts = [sum(map(len, asked.probes(state(16), 2))) for _ in range(100)]
    assert set(counts) == {0, 1}
    assert 0.2 < np.mean(counts) < 0.6


def test_better_candidates_are_likelier_but_not_alone() -> None:
    fitness = Judge().fitness
    batches = [b for _ in range(20) for b in sources(Judge()).probes(state(), 64)]
    probed = np.concatenate([fitness(b) for b in batches])
    plain = np.concatenate([fitness(make_batch(2000, space=state().space, sketch=s)) for s in (0, 1)])
    assert np.median(probed) > np.quantile(plain, 0.6)
    assert probed.min() < np.quantile(plain, 0.9)


def test_nothing_to_go_by_no_probes() -> None:
    assert sources(Alike()).probes(state(), 16) == []


def test_none_without_a_share() -> None:
    assert sources(Judge(), first_probe_share=0, probe_share=0).probes(state(), 16) == []


def test_what_was_seen_is_not_probed_again() -> None:
    known = state()
    for _ in range(5):
        for batch in sources(Judge()).probes(known, 16):
            assert known.seen.unseen(batch).all()
            known.seen.add(batch.sketch.index, batch.indices)


def test_probes_are_of_few_structures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sketch 1 has five compute locations."""
    monkeypatch.setattr("prune_engine.loop.sources._PROBED_STRUCTURES", 4)
    asked, found = sources(Judge()), set()
    for _ in range(20):
        for batch in asked.probes(state(), 64):
            if batch.sketch.index == 1:
                found |= set(batch.indices[:, 4].tolist())
    assert len(found) == 2, "half of the structures are for the other sketch, the same ones each time"


def test_the_engine_measures_and_names_them(run_engine: RunEngine, store: Store) -> None:
    task = make_task()
    run_engine([task], n_trials=96, verifier="lightgbm.decisions")
    chosen = [v for v in store.verdicts(task.task_id) if v.stage is Stage.SELECT and v.candidate_id]
    assert len(chosen) == 96
    n_probes = sum(v.reason == SelectionReason.PROBE.value for v in chosen)
    assert 6 < n_probes < 48
