"""Own picks beside transferred seeds: their share of few measurements, and what ships unmeasured."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from kits.engine import PlannedSeeds, RunEngine, StrategyPlugin

from prune_engine.candidates import CandidateBatch
from prune_engine.hardware.schema import HardwareProfile
from prune_engine.hookspecs import hookimpl
from prune_engine.lifecycle import TaskResult
from prune_engine.store.base import Store
from prune_engine.strategies import DraftScorer
from prune_engine.testing import make_batch, make_space, make_task
from prune_engine.transfers.log import PolicyReport
from prune_engine.verdicts import DraftScores, Outcome, SelectionReason, Stage


def some(n: int, seed: int = 9) -> Any:
    return lambda space: make_batch(n, space=space, seed=seed).indices


def planned(*args: Any, **options: Any) -> dict[str, object]:
    return {"acme": StrategyPlugin(PlannedSeeds(*args, **options))}


def ids_of(rows: Any) -> list[str]:
    space = make_space(make_task())
    batch = CandidateBatch(space, space.sketches[0], rows(space))
    return [batch.candidate(i).candidate_id for i in range(len(batch))]


def policy_of(outcome: TaskResult, name: str) -> PolicyReport:
    assert outcome.transfer is not None
    return next(policy for policy in outcome.transfer.policies if policy.policy == name)


@pytest.mark.parametrize(("trials", "n_seeds"), [(8, 4), (5, 3), (1, 1)])
def test_a_share_of_the_measurements_is_for_own_picks(run_engine: RunEngine, trials: int, n_seeds: int) -> None:
    tasks = [make_task("a"), make_task("b")]
    plugins = planned(some(20))
    run = run_engine(tasks, plugins=plugins, transfer_only=True, transfer_trials=trials)
    assert run.result.stop_reason == "measurements"
    assert [task.summary.n_trials for task in run.result.tasks] == [trials] * 2
    assert policy_of(run.result.tasks[0], "copied").n_ran == n_seeds
    again = run_engine(tasks, run.workbench, plugins=plugins, transfer_only=True, transfer_trials=trials)
    assert (again.result.n_new, again.n_repeats) == (0, 0)


def test_own_picks_get_what_seeds_leave_over(run_engine: RunEngine) -> None:
    run = run_engine([make_task()], plugins=planned(some(2)), transfer_only=True, transfer_trials=8)
    assert run.result.tasks[0].summary.n_trials == 8
    assert policy_of(run.result.tasks[0], "copied").n_ran == 2
    without = run_engine([make_task("b")], transfer_only=True, transfer_trials=8)
    assert without.result.tasks[0].summary.n_trials == 8


def test_own_picks_are_the_best_of_the_draft(run_engine: RunEngine, store: Store) -> None:
    """Neither probes nor audits: those are for longer searches."""
    task = make_task()
    run_engine([task], transfer_only=True, transfer_trials=12, audit_fraction=0.5, first_probe_share=1.0)
    kept = [verdict for verdict in store.verdicts(task.task_id) if verdict.outcome is Outcome.KEPT]
    reasons = {verdict.reason for verdict in kept if verdict.stage is Stage.SELECT}
    assert reasons <= {SelectionReason.TOP.value, SelectionReason.EXPLORE.value}


# --- unmeasured


class Doubtful(DraftScorer):
    """Thinks the first seed slower than everything else by some factor."""

    name, order = "acme.doubtful", 100

    def __init__(self, factor: float) -> None:
        self._factor = factor

    def score(self, batch: CandidateBatch, profile: HardwareProfile) -> DraftScores:
        seed = ids_of(some(1))[0]
        is_seed = np.array([batch.candidate(i).candidate_id == seed for i in range(len(batch))], dtype=np.bool_)
        secs = np.where(is_seed, self._factor, 1.0) * 1e-3
        return DraftScores(1e-3 / secs, secs, {}, {})


class DoubtfulPlugin:
    def __init__(self, factor: float) -> None:
        self._factor = factor

    @hookimpl
    def register_draft_scorers(self) -> list[DraftScorer]:
        return [Doubtful(self._factor)]


@pytest.mark.parametrize(
    ("factor", "share", "is_seed"), [(1.2, 0.5, True), (1.3, 0.5, False), (1.3, 0.0, True), (9.0, 0.0, True)]
)
def test_unmeasured_a_seed_ships_unless_the_draft_thinks_much_less_of_it(
    run_engine: RunEngine, factor: float, share: float, is_seed: bool
) -> None:
    plugins = {**planned(some(1)), "doubt": DoubtfulPlugin(factor)}
    run = run_engine(
        [make_task()],
        plugins=plugins,
        draft_scorer="acme.doubtful",
        transfer_only=True,
        transfer_trials=0,
        transfer_search_share=share,
    )
    (outcome,) = run.result.tasks
    assert run.result.stop_reason == "ranked"
    assert not run.asked
    assert outcome.trace_json is not None
    assert (outcome.summary.best_candidate_id == ids_of(some(1))[0]) is is_seed
    assert outcome.transfer is not None
    assert (outcome.transfer.policy == "copied") is is_seed


def test_unmeasured_the_best_of_the_draft_ships_where_there_is_no_seed(run_engine: RunEngine) -> None:
    options = {"transfer_only": True, "transfer_trials": 0}
    (outcome,) = run_engine([make_task()], **options).result.tasks
    assert outcome.trace_json is not None
    assert outcome.summary.stop_reason == "ranked"
    (nothing,) = run_engine([make_task("b")], **options, transfer_search_share=0.0).result.tasks
    assert nothing.trace_json is None


def test_a_search_without_transfers_tells_of_none(run_engine: RunEngine) -> None:
    (outcome,) = run_engine([make_task()], n_trials=4, blocked_plugins=("transfer",)).result.tasks
    assert outcome.summary.n_trials == 4
    assert outcome.transfer is None
