"""Explanations: what became of a candidate or a task, in sentences; pruning on its own."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pytest

from prune_engine.config import EngineConfig
from prune_engine.engine import Engine
from prune_engine.hardware.schema import HardwareProfile
from prune_engine.hookspecs import hookimpl
from prune_engine.measurement import MeasureErrorKind
from prune_engine.plugins import PluginHost
from prune_engine.store.base import Store
from prune_engine.task import TuningTask
from prune_engine.testing import FakeWorkbench, make_batch, make_space, make_task
from prune_engine.verdicts import Outcome, Verdict


class Teller:
    @hookimpl
    def explain_candidate(self, task: TuningTask, trail: Sequence[Verdict]) -> Iterable[str]:
        return [f"{task.name} has {len(trail)} verdicts."]


@pytest.fixture
def engine(store: Store, profile: HardwareProfile) -> Engine:
    config = EngineConfig.of(n_trials=16, verifier=None)
    host = PluginHost(config)
    host.load()
    host.register(Teller(), "teller")
    workbench = FakeWorkbench(failures={MeasureErrorKind.CRASH: 0.5}, seed=3)
    return Engine(config, workbench, store, profile, host=host)


def test_measured_and_failed_candidates_are_explained(engine: Engine, store: Store) -> None:
    task = make_task()
    engine.run([task])
    rows = [row for row in store.candidates(task.task_id, "fake-cpu", 2) if row.candidate_id != "default"]
    failed = next(row for row in rows if row.measurement.error)
    ran = next(row for row in rows if not row.measurement.error)
    text = " ".join(engine.explain(task, failed.candidate_id))
    assert f"Candidate {failed.candidate_id} was kept by select.diverse (select): explore" in text
    assert "failed by workbench (measure): crash" in text
    assert "could not be measured on fake-cpu, 2 threads: crash" in text
    assert "matmul has 2 verdicts." in text
    text = " ".join(engine.explain(task, ran.candidate_id))
    assert f"It took {(ran.measurement.latency_secs or 0) * 1e3:.4g} ms on fake-cpu" in text
    assert any("candidates were skipped" in sentence for sentence in engine.explain(task))


def test_nothing_recorded_is_said(engine: Engine) -> None:
    assert engine.explain(make_task("stranger"))[0] == "Nothing is recorded of task stranger."


def test_prune_chooses_without_measuring(engine: Engine, store: Store) -> None:
    space = make_space()
    batch = make_batch(200, space=space)
    result = engine.prune(space, [batch], 10)
    assert len(result.candidates) == 10
    assert len({c.candidate_id for c in result.candidates}) == 10
    counted = sum(v.count for v in result.verdicts if v.outcome in (Outcome.DROPPED, Outcome.SKIPPED, Outcome.KEPT))
    assert counted == 200
    assert store.runs() == []
