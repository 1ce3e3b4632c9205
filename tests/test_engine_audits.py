"""Audits in the loop: counted, told, stored and taken up again; a wrong rule goes, a sure verifier ends a task."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from kits.engine import RunEngine, small_space
from kits.pipeline import HEURISTIC, Draft, Judge, MaskRule, RestrictRule, pipeline, run, truth

from prune_engine.candidates import CandidateBatch
from prune_engine.config import EngineConfig
from prune_engine.decisions.files import DecisionWriter
from prune_engine.decisions.records import read_decisions
from prune_engine.engine import Engine
from prune_engine.explain.chains import Chain, explain_task
from prune_engine.hookspecs import hookimpl
from prune_engine.lifecycle import SilentObserver
from prune_engine.loop.task_state import TaskState
from prune_engine.plugins import PluginHost
from prune_engine.space import DesignSpace, SpaceRestriction
from prune_engine.store.base import Store
from prune_engine.strategies import DraftScorer, Rule, Verifier
from prune_engine.testing import FakeWorkbench, make_batch, make_measurement, make_profile, make_task
from prune_engine.verdicts import BoolArray, DraftScores, Outcome, Stage, VerifyScores

#: The unroll limit that the fake workbench likes best; the farther from it, the slower.
BEST_UNROLL = 100


def workbench() -> FakeWorkbench:
    """400 candidates: the unroll limit counts, the order hardly."""
    return FakeWorkbench(spaces={make_task().task_id: small_space(make_task(), 400)})


class Plugin:
    def __init__(self, *rules: Rule, verifier: Verifier | None = None, draft: DraftScorer | None = None) -> None:
        self._rules, self._verifier, self._draft = rules, verifier, draft

    @hookimpl
    def register_draft_scorers(self) -> list[DraftScorer]:
        return [self._draft] if self._draft else []

    @hookimpl
    def register_rules(self) -> list[Rule]:
        return list(self._rules)

    @hookimpl
    def register_verifiers(self) -> list[Verifier]:
        return [self._verifier] if self._verifier else []


def drops_the_best(batch: CandidateBatch) -> BoolArray:
    return np.asarray(np.abs(batch.indices[:, 0] - BEST_UNROLL) >= 60)


def drops_the_worst(batch: CandidateBatch) -> BoolArray:
    return np.asarray(np.abs(batch.indices[:, 0] - BEST_UNROLL) < 60)


def is_known(store: Store, rule: str) -> list[Any]:
    verdicts = store.verdicts(make_task().task_id)
    return [v for v in verdicts if v.strategy == rule and v.outcome is Outcome.FAILED]


def test_a_rule_that_drops_the_best_is_switched_off(run_engine: RunEngine, store: Store) -> None:
    log: list[str] = []
    rule = MaskRule("acme.wrong", drops_the_best, HEURISTIC, log=log)
    options: dict[str, Any] = {"audit_fraction": 1.0, "plateau_trials": 1000}
    done = run_engine([make_task()], workbench(), plugins={"acme": Plugin(rule)}, n_trials=128, **options)
    (task,) = done.result.tasks
    (report,) = [a for a in task.audits if a.strategy == "acme.wrong"]
    assert report.switched_off.startswith("it drops a candidate that takes ")
    assert report.n_winners >= 1
    assert report.n_dropped > report.n_measured >= report.n_winners
    (verdict,) = is_known(store, "acme.wrong")
    assert verdict.reason == f"switched off: {report.switched_off}"
    assert verdict.evidence["gain"] > 0.05
    n_rounds_asked = len(log)
    assert n_rounds_asked < 128 / 16 * 2 * 2, "it was asked to the end"
    # Another run on the same store knows it, and does not ask the rule again.
    log.clear()
    again = run_engine([make_task()], workbench(), plugins={"acme": Plugin(rule)}, n_trials=144, **options)
    assert not log
    (report_again,) = [a for a in again.result.tasks[0].audits if a.strategy == "acme.wrong"]
    assert report_again.n_measured == report.n_measured
    assert report_again.switched_off


def test_a_rule_that_drops_the_worst_stays(run_engine: RunEngine, store: Store) -> None:
    rule = MaskRule("acme.right", drops_the_worst, HEURISTIC)
    done = run_engine([make_task()], workbench(), plugins={"acme": Plugin(rule)}, n_trials=96, audit_fraction=0.2)
    (report,) = [a for a in done.result.tasks[0].audits if a.strategy == "acme.right"]
    assert report.n_measured > 0
    assert not report.switched_off
    assert not is_known(store, "acme.right")


def cuts_the_best(space: DesignSpace) -> SpaceRestriction:
    return SpaceRestriction({(0, 0): np.abs(np.arange(200) - BEST_UNROLL) >= 60})


@pytest.mark.parametrize("explorer", ["explore.uniform", "explore.evolution"])
def test_a_rule_that_cuts_the_best_rows_is_switched_off_and_they_come_back(
    run_engine: RunEngine, store: Store, explorer: str
) -> None:
    rule = RestrictRule("acme.wrong", cuts_the_best)
    options: dict[str, Any] = {"audit_fraction": 0.3, "plateau_trials": 1000, "explorer": explorer}
    done = run_engine([make_task()], workbench(), plugins={"acme": Plugin(rule)}, n_trials=96, **options)
    assert not done.failures
    (report,) = [a for a in done.result.tasks[0].audits if a.strategy == "acme.wrong"]
    assert report.stage is Stage.TASK_SPACE
    assert report.n_dropped == 2 * 119
    assert report.n_winners > 0
    assert report.switched_off
    ran = [c.decisions[0][0] for c in store.candidates(make_task().task_id, "fake-cpu", 2) if c.decisions]
    n_cut = sum(abs(unroll - BEST_UNROLL) < 60 for unroll in ran)
    assert n_cut > report.n_measured, "after that they are proposed as any others"
    # Another run on the same store begins with the whole table.
    run_engine([make_task()], workbench(), plugins={"acme": Plugin(rule)}, n_trials=160, **options)
    ran = [c.decisions[0][0] for c in store.candidates(make_task().task_id, "fake-cpu", 2) if c.decisions][96:]
    assert sum(abs(unroll - BEST_UNROLL) < 60 for unroll in ran) > 20


def test_a_rule_is_switched_off_for_one_task_only() -> None:
    made = pipeline(MaskRule("acme.mixed", drops_the_best), audit_fraction=0)
    batches = [make_batch(50, space=small_space(make_task(name), 400)) for name in ("a", "b")]
    made[0].switch_off("acme.mixed", batches[0].space.task.task_id)
    for batch, n_kept in zip(batches, (50, int(drops_the_best(batches[1]).sum())), strict=True):
        assert len(run(made, [batch], k=50).candidates) == n_kept
        assert int(made[0].judge(batch)[1].sum()) == n_kept


def test_switching_off_is_told(store: Store, tmp_path: Path) -> None:
    said: list[str] = []

    class Listening(SilentObserver):
        def on_status(self, message: str) -> None:
            said.append(message)

    config = EngineConfig.of(n_trials=128, audit_fraction=1.0, verifier=None, plateau_trials=1000)
    host = PluginHost(config)
    host.load()
    host.register(Plugin(MaskRule("acme.wrong", drops_the_best, HEURISTIC)), "acme")
    writer = DecisionWriter(tmp_path)
    engine = Engine(config, workbench(), store, make_profile(), host=host, observer=Listening(), decisions=writer)
    engine.run([make_task()])
    task_id = make_task().task_id
    (told,) = [s for s in explain_task(Chain.of(task_id, read_decisions(tmp_path, task_id))) if "no more" in s]
    assert "acme.wrong was switched off: it drops a candidate that takes " in told
    (warning,) = [line for line in said if line.startswith("warning: ")]
    assert warning.startswith("warning: acme.wrong is switched off for matmul: it drops a candidate that takes ")
    (verdict,) = is_known(store, "acme.wrong")
    sentence = f"acme.wrong (rule) was {verdict.reason}: {verdict.candidate_id}."
    assert sentence in engine.explain(make_task())


def test_pruning_ones_own_candidates_adds_none_and_tells_of_every_stage(store: Store) -> None:
    config = EngineConfig.of(
        audit_fraction=1.0,
        draft_size=50,
        draft_scorer="acme.draft",
        verifier="acme.judge",
        explorer="explore.uniform",
    )
    host = PluginHost(config)
    host.load()
    draft = Draft(lambda b: DraftScores(truth(b)))
    rule, verifier = RestrictRule("acme.cut", cuts_the_best), judge(lambda b: 0.9 * (b.indices[:, 0] % 2))
    host.register(Plugin(rule, verifier=verifier, draft=draft), "acme")
    engine = Engine(config, workbench(), store, make_profile(), host=host)
    space = small_space(make_task(), 400)
    batch = make_batch(400, space=space)
    result = engine.prune(space, [batch], 400)
    mine = {
        batch.candidate(i).candidate_id for i in range(400) if cuts_the_best(space).keep[0, 0][batch.indices[i, 0]]
    }
    assert {c.candidate_id for c in result.candidates} <= mine
    assert result.n_proposed == len(mine)
    steps = {step.stage: step for step in result.funnel if step.strategy.startswith(("acme", "select"))}
    assert list(steps) == [Stage.TASK_SPACE, Stage.DRAFT, Stage.VERIFY, Stage.SELECT]
    assert (steps[Stage.TASK_SPACE].n_in, steps[Stage.TASK_SPACE].n_out) == (400, len(mine))
    assert steps[Stage.DRAFT].n_in == len(mine)
    assert steps[Stage.VERIFY].n_in == steps[Stage.DRAFT].n_out + steps[Stage.DRAFT].n_audits
    assert steps[Stage.VERIFY].n_out < steps[Stage.VERIFY].n_in


def judge(prob: Callable[[CandidateBatch], np.ndarray]) -> Judge:
    return Judge(lambda b: VerifyScores(truth(b), prob(b), "v", True, skip_above=0.85))


def test_a_task_that_the_verifier_expects_nothing_of_converges(run_engine: RunEngine) -> None:
    hopeless = judge(lambda b: np.ones(len(b)))
    options: dict[str, Any] = {"verifier": "acme.judge", "plateau_trials": 32}
    done = run_engine(
        [make_task()], workbench(), plugins={"acme": Plugin(verifier=hopeless)}, n_trials=400, **options
    )
    (task,) = done.result.tasks
    assert done.result.stop_reason == task.summary.stop_reason == "converged"
    assert 16 <= task.summary.n_trials < 200
    options |= {"plateau_trials": 10_000, "n_trials": 100}
    endless = run_engine([make_task()], workbench(), plugins={"acme": Plugin(verifier=hopeless)}, **options)
    assert endless.result.stop_reason == "trials"
    (report,) = [a for a in task.audits if a.stage is Stage.VERIFY]
    assert report.strategy == "acme.judge"
    assert report.n_measured == 0, "its best guesses are no sample of what it skips"
    assert report.n_dropped > 0


def test_a_verifier_that_sees_hope_does_not_end_the_task(run_engine: RunEngine) -> None:
    hopeful = judge(lambda b: (~drops_the_worst(b)).astype(float))
    options: dict[str, Any] = {"verifier": "acme.judge", "plateau_trials": 1000}
    done = run_engine(
        [make_task()], workbench(), plugins={"acme": Plugin(verifier=hopeful)}, n_trials=100, **options
    )
    assert done.result.stop_reason == "trials"


@pytest.mark.parametrize(("after_secs", "n"), [(0.98e-3, 0), (0.995e-3, 12)])
def test_a_gain_starts_the_count_of_hopeless_trials_anew(after_secs: float, n: int) -> None:
    state = TaskState(make_task())
    state.default = make_measurement("default", after_secs)
    state.n_hopeless_trials = 8
    state.note_hopeless(4, before_secs=1e-3, min_gain=0.01)
    assert state.n_hopeless_trials == n
