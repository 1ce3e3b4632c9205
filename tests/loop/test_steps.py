"""The engine's rounds with the measuring left to the caller."""

from __future__ import annotations

import math

import pytest
from kits.engine import small_space

from prune_engine.config import EngineConfig
from prune_engine.engine import Engine
from prune_engine.errors import SpaceError, TellError
from prune_engine.loop.elsewhere import ElsewhereBench
from prune_engine.loop.steps import Proposal, Steps
from prune_engine.measurement import MeasureError, MeasureErrorKind
from prune_engine.store.base import Store
from prune_engine.testing import FakeWorkbench, make_profile, make_space, make_task
from prune_engine.verdicts import Outcome, Stage

FAILED = MeasureError(MeasureErrorKind.RUN_ERROR, "it hung")


def opened(store: Store, *, n: int | None = None, seed: int = 0, verifier: str | None = None) -> Steps:
    task = make_task()
    space = make_space(task) if n is None else small_space(task, n)
    config = EngineConfig(seed=seed, verifier=verifier, plateau_trials=40)
    engine = Engine(config, ElsewhereBench(space, "a-device", 2), store, make_profile())
    return engine.steps(task)


def ids(proposals: list[Proposal]) -> list[str]:
    return [one.candidate.candidate_id for one in proposals]


def true_secs(proposal: Proposal) -> float:
    return 1e-3 * (1 + sum(map(sum, proposal.candidate.decisions)))


def test_no_candidate_is_proposed_twice_although_nothing_is_told(store: Store) -> None:
    steps = opened(store)
    asked = [identity for _ in range(6) for identity in ids(steps.ask(7))]
    assert len(asked) == 42
    assert len(set(asked)) == 42
    assert [c.candidate_id for c in steps.pending] == asked


def test_an_exhausted_space_gives_nothing_and_is_finished(store: Store) -> None:
    steps = opened(store, n=6)
    asked = ids(steps.ask(100))
    assert len(set(asked)) == len(asked) == 6
    assert steps.stop_reason is None
    assert steps.ask(3) == []
    assert steps.stop_reason == "exhausted"
    assert steps.ask(3) == []
    steps.tell(asked[5], run_secs=[1e-3])  # what is pending may still be told
    assert steps.best is not None


def test_one_at_a_time_and_untold_the_whole_space_is_asked_for(store: Store) -> None:
    steps = opened(store, n=12)
    assert len({ids(steps.ask(1))[0] for _ in range(12)}) == 12
    assert steps.ask(1) == []


def test_results_come_in_any_order_and_in_parts(store: Store) -> None:
    steps = opened(store)
    first, second = steps.ask(4), steps.ask(4)
    steps.tell(ids(second)[3], run_secs=[2e-3])
    steps.tell(ids(first)[2], run_secs=[1e-3, 3e-3, 1.5e-3])
    steps.ask(2)
    steps.tell(ids(first)[0], error=FAILED)
    assert steps.best is not None
    assert steps.best.candidate.candidate_id == ids(first)[2]
    assert steps.best.latency_secs == 1.5e-3  # the median
    assert steps.state.n_trials == 3
    assert steps.state.failures == {"run_error": 1}
    assert len(steps.pending) == 7


@pytest.mark.parametrize(
    ("run_secs", "error", "said"),
    [
        ([math.nan], None, "got run_secs nan"),
        ([1e-3, math.inf], None, "got run_secs inf"),
        ([-1e-3], None, "got run_secs -0.001"),
        ([0.0], None, "got run_secs 0.0"),
        ([], None, "got neither"),
        ([1e-3], FAILED, "got both"),
    ],
)
def test_what_is_no_result_is_refused_and_changes_nothing(store, run_secs, error, said) -> None:
    steps = opened(store)
    asked = ids(steps.ask(1))
    with pytest.raises(TellError, match=said):
        steps.tell(asked[0], run_secs=run_secs, error=error)
    assert steps.state.n_trials == 0
    steps.tell(asked[0], run_secs=[1e-3])


def test_telling_twice_and_unknown_candidates_are_refused(store: Store) -> None:
    steps = opened(store)
    asked = ids(steps.ask(2))
    steps.tell(asked[0], run_secs=[1e-3])
    with pytest.raises(TellError, match="known already"):
        steps.tell(asked[0], run_secs=[2e-3])
    with pytest.raises(TellError, match="not asked for"):
        steps.tell("0" * 24, run_secs=[1e-3])
    assert steps.state.n_trials == 1


def test_the_same_seed_and_answers_give_the_same_search() -> None:
    def searched(seed: int, n_rounds: int) -> list[str]:
        from prune_engine.store.sql import SqlStore

        steps, found = opened(SqlStore("sqlite://"), seed=seed, verifier="lightgbm.residual"), []
        for _ in range(n_rounds):
            for one in steps.ask(12):
                steps.tell(one.candidate.candidate_id, run_secs=[true_secs(one)])
                found.append(one.candidate.candidate_id)
        return found

    first = searched(3, 2)
    assert searched(3, 2) == first
    assert searched(4, 1) != first[:12]


def test_what_was_told_is_learnt_and_improves_what_is_asked(store: Store) -> None:
    steps = opened(store, verifier="lightgbm.residual")
    found = []
    for _ in range(4):
        for one in steps.ask(16):
            steps.tell(one.candidate.candidate_id, run_secs=[true_secs(one)])
            found.append(true_secs(one))
    assert sorted(found[48:])[8] < sorted(found[:16])[8]
    assert any(one.predicted_by == "lightgbm.residual" for one in steps.ask(16))


def test_a_store_keeps_what_was_told_and_forgets_what_is_pending(store: Store) -> None:
    steps = opened(store, n=8)
    asked = ids(steps.ask(5))
    for identity in asked[:3]:
        steps.tell(identity, run_secs=[1e-3])
    steps.close()
    again = opened(store, n=8)
    assert again.state.n_trials == 3
    rest = ids(again.ask(100))
    assert not set(rest) & set(asked[:3])
    assert set(asked[3:]) <= set(rest)
    with pytest.raises(TellError, match="known already"):
        again.tell(asked[0], run_secs=[1e-3])
    assert again.best is not None


def test_the_untuned_kernel_is_told_once_and_kept(store: Store) -> None:
    steps = opened(store)
    with pytest.raises(TellError, match="no latency"):
        steps.tell_untuned([-1.0])
    steps.tell_untuned([4e-3, 5e-3, 6e-3])
    assert steps.state.default_secs == 5e-3
    with pytest.raises(TellError, match=r"known already; got 0.005 s"):
        steps.tell_untuned([1e-3])
    again = opened(store)
    assert (again.state.default_secs, again.state.n_trials, again.best) == (5e-3, 0, None)


def test_failures_are_in_the_store_with_a_verdict(store: Store) -> None:
    steps = opened(store)
    (identity,) = ids(steps.ask(1))
    steps.tell(identity, error=FAILED)
    verdicts = [v for v in store.verdicts(steps.state.task.task_id, identity) if v.stage is Stage.MEASURE]
    assert [(v.outcome, v.reason) for v in verdicts] == [(Outcome.FAILED, "run_error: it hung")]


def test_a_plateau_is_told_but_what_is_left_may_be_asked_for(store: Store) -> None:
    steps = opened(store)
    while steps.stop_reason is None:
        for one in steps.ask(8):
            steps.tell(one.candidate.candidate_id, run_secs=[1e-3])
    assert steps.stop_reason == "plateau"
    assert steps.state.n_trials <= 48
    assert len(steps.ask(4)) == 4


def test_each_proposal_says_why(store: Store) -> None:
    steps = opened(store)
    for one in steps.ask(8):
        assert one.why
        assert one.reason is not None


def test_a_task_without_a_space_is_an_error(store: Store) -> None:
    task = make_task()
    engine = Engine(EngineConfig(), FakeWorkbench(spaces={task.task_id: None}), store, make_profile())
    with pytest.raises(SpaceError, match="no design space"):
        engine.steps(task)
