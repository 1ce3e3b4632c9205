"""Whitelisted schedules in a run: measured first of all, past every guess, never past legality."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from kits.engine import PlannedSeeds, RunEngine, StrategyPlugin
from kits.whitelists import enlist, fixed_listed, make_check, make_listed

from prune_engine.candidates import CandidateBatch
from prune_engine.config import EngineConfig
from prune_engine.decisions.files import DecisionWriter
from prune_engine.decisions.records import DecisionKind, read_decisions
from prune_engine.engine import Engine
from prune_engine.hookspecs import hookimpl
from prune_engine.loop.round_decisions import _CHOSEN
from prune_engine.loop.task_state import TaskState
from prune_engine.loop.whitelisted import Whitelisting
from prune_engine.plugins import PluginHost
from prune_engine.recorded.spaces import RecordedSpace
from prune_engine.recorded.workbench import ReplayWorkbench
from prune_engine.space import DesignSpace, SpaceRestriction
from prune_engine.store.base import Store
from prune_engine.strategies import Rule
from prune_engine.testing import FakeWorkbench, make_batch, make_profile, make_space, make_task
from prune_engine.verdicts import BoolArray, Outcome, RuleKind, SelectionReason, Stage, Verdict
from prune_engine.whitelist.entries import WHITELIST, WhitelistEntry
from prune_engine.whitelist.events import added, removed


class DropAll(Rule):
    """Drops every candidate, and says why it may."""

    name = "acme.all"

    def mask(self, batch: CandidateBatch, profile: object) -> BoolArray:
        return np.zeros(len(batch), dtype=np.bool_)


class LegalDropAll(DropAll):
    name = "acme.legal"
    kind = RuleKind.LEGALITY


class CutAll(Rule):
    """Leaves the first choice of each variable alone."""

    name = "acme.cut"

    def restrict(self, space: DesignSpace, profile: object) -> SpaceRestriction:
        return SpaceRestriction(
            {
                (sketch.index, v): np.arange(len(variable.table)) == variable.rows[0]
                for sketch in space.sketches
                for v, variable in enumerate(sketch.variables)
            }
        )


class LegalCutAll(CutAll):
    name = "acme.legal-cut"
    kind = RuleKind.LEGALITY


class RulePlugin:
    def __init__(self, *rules: Rule) -> None:
        self._rules = rules

    @hookimpl
    def register_rules(self) -> Sequence[Rule]:
        return self._rules


BATCH = make_batch(6, space=make_space(make_task()), seed=3)


def ids(n: int) -> list[str]:
    return [BATCH.candidate(row).candidate_id for row in range(n)]


def ready(n: int, **changed: Any) -> list[WhitelistEntry]:
    """Entries of the first candidates, the fastest first."""
    times = [(make_check(run_secs=((row + 1) * 1e-4,)),) for row in range(n)]
    return [make_listed(BATCH, row, **{"checks": times[row], **changed}) for row in range(n)]


def told(store: Store, outcome: Outcome) -> list[Verdict]:
    return [v for v in store.verdicts(make_task().task_id) if v.strategy == WHITELIST and v.outcome is outcome]


def test_they_are_measured_before_anything_else(run_engine: RunEngine, store: Store) -> None:
    enlist(store, *ready(3))
    seeds = PlannedSeeds(lambda space: make_batch(4, space=space, seed=9).indices)
    run = run_engine([make_task()], plugins={"acme": StrategyPlugin(seeds)}, n_trials=12, batch_size=2)
    assert run.asked[:3] == ids(3)
    assert [v.candidate_id for v in told(store, Outcome.KEPT)] == ids(3)
    assert {v.stage for v in told(store, Outcome.KEPT)} == {Stage.SELECT}
    assert "approved" in told(store, Outcome.KEPT)[0].reason


@pytest.mark.parametrize("options", [{}, {"transfer": False}, {"transfer_only": True, "transfer_trials": 4}])
@pytest.mark.parametrize("rule", [DropAll(), CutAll()])
def test_no_guess_drops_them(run_engine: RunEngine, store: Store, rule: Rule, options: dict[str, Any]) -> None:
    enlist(store, *ready(2))
    plugins = {"acme": RulePlugin(rule)}
    run = run_engine([make_task()], plugins=plugins, n_trials=6, audit_fraction=0.0, **options)
    assert run.asked[:2] == ids(2)
    reason = told(store, Outcome.KEPT)[0].reason
    assert (
        "a rule had cut a choice of it" if isinstance(rule, CutAll) else "acme.all would have dropped it"
    ) in reason


@pytest.mark.parametrize(
    ("rule", "message"),
    [(LegalDropAll(), "dropped by acme.legal"), (LegalCutAll(), "a choice of it was cut by acme.legal-cut")],
)
def test_a_legality_rule_drops_them_and_it_is_told(
    run_engine: RunEngine, store: Store, rule: Rule, message: str
) -> None:
    enlist(store, *ready(2))
    run = run_engine([make_task()], plugins={"acme": RulePlugin(rule)}, n_trials=4)
    assert not set(ids(2)) & set(run.asked)
    dropped = told(store, Outcome.DROPPED)
    assert [v.candidate_id for v in dropped] == ids(2)
    assert all(message in v.reason for v in dropped)


def test_what_the_compiler_refuses_is_left_out_and_told(run_engine: RunEngine, store: Store) -> None:
    enlist(store, *ready(2))
    workbench = FakeWorkbench(refused=lambda candidate: candidate.candidate_id == ids(1)[0])
    run = run_engine([make_task()], workbench, n_trials=4)
    assert run.asked[0] == ids(2)[1]
    assert ids(1)[0] not in run.asked
    assert "refused (planted)" in told(store, Outcome.DROPPED)[0].reason


@pytest.mark.parametrize(
    "check",
    [
        make_check(device_name="another"),
        make_check(tvm_version="0.0.1"),
        make_check(problems=("numbers: zeros: off by 2",)),
    ],
)
def test_an_entry_counts_once_it_was_checked_here(run_engine: RunEngine, store: Store, check: Any) -> None:
    enlist(store, *ready(1, checks=(check,)))
    run = run_engine(
        [make_task()], n_trials=4, seed=1, transfer=False
    )  # as a donor it may be tried, like any other
    assert run.asked[0] != ids(1)[0]
    assert "whitelist verify" in told(store, Outcome.SKIPPED)[0].reason


def test_a_failed_check_ends_a_passed_one(run_engine: RunEngine, store: Store) -> None:
    enlist(store, *ready(1, checks=(make_check(), make_check(problems=("slow",)))))
    assert ids(1)[0] not in run_engine([make_task()], n_trials=4, seed=1).asked[:1]


def test_a_removed_entry_is_like_any_candidate(run_engine: RunEngine, store: Store) -> None:
    (entry,) = ready(1)
    enlist(store, entry)
    strict = entry.kernel_class.strict
    store.add_whitelist_events([removed(entry.entry_id, strict, at=1.0, by="", reason="slow")])
    assert ids(1)[0] not in run_engine([make_task()], n_trials=4, seed=1).asked[:1]
    assert not store.verdicts(make_task().task_id, ids(1)[0])


def test_kernels_of_other_extents_do_not_get_them(run_engine: RunEngine, store: Store) -> None:
    enlist(store, *ready(2))
    task = make_task(shape=(64, 48, 16))
    run_engine([task], n_trials=4)
    assert not [v for v in store.verdicts(task.task_id) if v.strategy == WHITELIST]


def test_an_entry_that_cannot_be_read_is_told_and_the_run_goes_on(run_engine: RunEngine, store: Store) -> None:
    good, bad = ready(2)
    enlist(store, good)
    event = added(bad, at=1.0, by="", reason="")
    store.add_whitelist_events([replace(event, content=event.content[:-9])])
    assert run_engine([make_task()], n_trials=4).asked[0] == ids(1)[0]
    said: list[str] = []
    pipeline: Any = None  # asked of candidates alone
    listing = Whitelisting(store, EngineConfig(), FakeWorkbench(), pipeline, lambda *_: None, said.append)
    listing.open(TaskState(make_task(), space=make_space(make_task())))
    (warning,) = said
    assert bad.entry_id in warning
    assert "does not count" in warning


def test_a_schedule_of_no_sketch_is_measured_as_one_of_its_own(run_engine: RunEngine, store: Store) -> None:
    enlist(store, fixed_listed(1.5), *ready(1, checks=(make_check(run_secs=(3e-3,)),)))
    run = run_engine([make_task()], n_trials=4)
    first, second = run.asked[:2]
    assert second == ids(1)[0]
    assert store.candidates(make_task().task_id, "fake-cpu", 2)[1].candidate_id == first
    again = run_engine([make_task()], n_trials=6)
    assert first not in again.asked, "what was measured is known"


def test_a_schedule_that_fits_no_kernel_of_now_is_told(run_engine: RunEngine, store: Store) -> None:
    enlist(store, make_listed(BATCH, 0, sketch_id="of another version"))
    run_engine([make_task()], n_trials=2)
    assert "no schedule of this kernel now" in told(store, Outcome.SKIPPED)[0].reason


def test_a_task_that_earlier_runs_finished_measures_what_was_listed_since(
    run_engine: RunEngine, store: Store
) -> None:
    options = {"n_trials": 40, "plateau_trials": 8}
    assert run_engine([make_task()], **options).result.tasks[0].summary.stop_reason == "plateau"
    new = next(row for row in range(6) if ids(6)[row] not in stored(store))
    enlist(store, make_listed(BATCH, new))
    assert run_engine([make_task()], **options).asked[:1] == [ids(6)[new]]


def stored(store: Store) -> set[str]:
    return set(store.measured_ids(make_task().task_id, "fake-cpu", 2))


def test_where_nothing_is_measured_one_ships(run_engine: RunEngine, store: Store) -> None:
    enlist(store, *ready(2))
    run = run_engine([make_task()], n_trials=4, transfer_only=True, transfer_trials=0)
    assert run.asked == []
    (outcome,) = run.result.tasks
    assert outcome.summary.best_candidate_id == ids(1)[0]
    assert outcome.summary.stop_reason == "ranked"


def test_a_replay_measures_those_that_were_recorded(store: Store, profile: Any) -> None:
    space = make_space(make_task())
    recorded = make_batch(40, space=space, seed=5)
    batches = (recorded, CandidateBatch(space, space.sketches[1], np.empty((0, 5), dtype=np.int32)))
    secs = (np.linspace(2e-3, 1e-3, 40), np.empty(0))
    workbench = ReplayWorkbench([RecordedSpace("r", make_task(), space, batches, secs)])
    elsewhere = (make_check(device_name="another"),)
    enlist(store, make_listed(recorded, 33, checks=elsewhere), make_listed(BATCH, 0, checks=elsewhere))
    config = EngineConfig.of(n_trials=4, draft_scorer=None, verifier=None, explorer="explore.uniform")
    Engine(config, workbench, store, profile).run([make_task()])
    (first, *_), *_ = workbench.measured[make_task().task_id]
    assert first.measurement.candidate_id == recorded.candidate(33).candidate_id
    assert "it was not recorded" in told(store, Outcome.DROPPED)[0].reason


def test_decision_chains_say_which_were_refused(store: Store, tmp_path: Path) -> None:
    enlist(store, *ready(2))
    config = EngineConfig.of(n_trials=4, verifier=None)
    host = PluginHost(config)
    host.load()
    host.register(RulePlugin(LegalDropAll()), "acme")
    Engine(config, FakeWorkbench(), store, make_profile(), host=host, decisions=DecisionWriter(tmp_path)).run(
        [make_task()]
    )
    found = [d for d in read_decisions(tmp_path) if d.strategy == WHITELIST]
    assert [d.outcome for d in found] == [Outcome.DROPPED] * 2
    assert {d.kind for d in found} == {DecisionKind.LEGALITY}
    for decision, identity in zip(found, ids(2), strict=True):
        assert "dropped by acme.legal" in decision.reason
        assert f"(candidate {identity})" in decision.reason


def test_decision_chains_say_which_were_measured_and_by_whose_word(store: Store, tmp_path: Path) -> None:
    enlist(store, *ready(2))
    config = EngineConfig.of(n_trials=4, verifier=None)
    Engine(config, FakeWorkbench(), store, make_profile(), decisions=DecisionWriter(tmp_path)).run([make_task()])
    found = [d for d in read_decisions(tmp_path) if d.candidate in ids(2) and d.stage is Stage.SELECT]
    assert [d.candidate for d in found] == ids(2)
    assert {d.selected_as for d in found} == {SelectionReason.WHITELIST}
    assert all(d.reason.startswith("on the whitelist: ") and "approved" in d.reason for d in found)
    assert all(d.measured for d in found)


def test_each_reason_to_measure_has_words() -> None:
    assert set(_CHOSEN) == set(SelectionReason)
