"""The engine against a recorded space."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from kits.recordings import fake_recording

from prune_engine.config import EngineConfig
from prune_engine.decisions.files import DecisionWriter
from prune_engine.decisions.records import read_decisions
from prune_engine.errors import ConfigError, SpaceError
from prune_engine.hardware.schema import HardwareProfile
from prune_engine.library import LibraryQuery
from prune_engine.measurement import DEFAULT_CANDIDATE, MeasureErrorKind, Workbench
from prune_engine.recorded.replay import RecordedExplorer, Replay, replay
from prune_engine.recorded.spaces import RecordedSpace
from prune_engine.recorded.workbench import ReplayWorkbench, found_after
from prune_engine.space import SpaceRestriction
from prune_engine.store.base import Store
from prune_engine.store.sql import SqlStore
from prune_engine.testing import make_measurement, make_task

CONFIG = EngineConfig.of(n_trials=40, batch_size=8, verifier=None, draft_scorer=None)


@pytest.fixture
def recorded() -> RecordedSpace:
    return fake_recording(failed=(3, 5))


def _ids(recorded: RecordedSpace) -> set[str]:
    return {batch.candidate(row).candidate_id for batch in recorded.batches for row in range(len(batch))}


def _order(done: Replay) -> list[str]:
    return [one.measurement.candidate_id for rounds in done.rounds.values() for batch in rounds for one in batch]


def test_only_what_was_recorded_is_measured_and_nothing_twice(
    recorded: RecordedSpace, profile: HardwareProfile, store: Store
) -> None:
    done = replay([recorded], CONFIG.model_copy(update={"n_trials": None, "plateau_trials": 500}), profile, store)
    assert sorted(_order(done)) == sorted(_ids(recorded))
    (curve,) = done.curves
    assert done.run.stop_reason == "exhausted"
    assert curve.found_at(len(curve.run_secs)) == 1.0
    assert np.isnan(curve.run_secs).sum() == recorded.n_failed == 2


def test_the_curve_is_of_what_was_measured_in_order(
    recorded: RecordedSpace, profile: HardwareProfile, store: Store
) -> None:
    done = replay([recorded], CONFIG, profile, store)
    (curve,) = done.curves
    assert (len(curve.run_secs), sum(curve.batch_sizes)) == (40, 40)
    assert curve.batch_sizes[:2] == (8, 8)
    assert curve.best_secs == recorded.best_secs
    best_so_far = np.fmin.accumulate(curve.run_secs)
    np.testing.assert_allclose(curve.found, np.where(np.isnan(best_so_far), 0, curve.best_secs / best_so_far))
    assert curve.found_at(16) == curve.found[15]
    assert curve.found_at(1000) == curve.found[-1]


def test_the_seed_decides_everything(recorded: RecordedSpace, profile: HardwareProfile) -> None:
    def order(seed: int) -> list[str]:
        config = CONFIG.model_copy(update={"seed": seed, "verifier": "lightgbm.decisions"})
        return _order(replay([recorded], config, profile, SqlStore("sqlite://")))

    assert order(1) == order(1)
    assert order(1) != order(2)


def test_decisions_are_those_of_a_run_and_the_same_twice(
    recorded: RecordedSpace, profile: HardwareProfile, tmp_path: Path
) -> None:
    found = []
    for name in ("one", "two"):
        done = replay([recorded], CONFIG, profile, SqlStore("sqlite://"), decisions=DecisionWriter(tmp_path / name))
        found.append([replace(one, run="") for one in read_decisions(tmp_path / name)])
    assert found[0] == found[1]
    assert [one.candidate for one in found[0] if one.measured] != []
    assert {one.candidate for one in found[0] if one.measured} == set(_order(done))


def test_a_store_continues_a_replay(recorded: RecordedSpace, profile: HardwareProfile, store: Store) -> None:
    first = replay([recorded], CONFIG, profile, store)
    longer = CONFIG.model_copy(update={"n_trials": 60})
    second = replay([recorded], longer, profile, store)
    assert len(second.curves[0].run_secs) == 20
    assert not set(_order(first)) & set(_order(second))


def test_several_tasks_share_the_budget(profile: HardwareProfile, store: Store) -> None:
    done = replay([fake_recording(name="a"), fake_recording(name="b")], CONFIG, profile, store)
    assert [curve.name for curve in done.curves] == ["a", "b"]
    assert sum(len(curve.run_secs) for curve in done.curves) == 40
    assert all(len(curve.run_secs) for curve in done.curves)


def test_the_winner_is_the_best_found(recorded: RecordedSpace, profile: HardwareProfile, store: Store) -> None:
    done = replay([recorded], CONFIG, profile, store)
    summary = done.run.tasks[0].summary
    assert summary.best_secs == np.nanmin(done.curves[0].run_secs)
    assert summary.best_candidate_id != DEFAULT_CANDIDATE


class TestWorkbench:
    def test_is_one(self, recorded: RecordedSpace) -> None:
        assert isinstance(ReplayWorkbench([recorded]), Workbench)

    def test_latencies_are_the_recorded_ones(self, recorded: RecordedSpace) -> None:
        bench = ReplayWorkbench([recorded])
        candidates = [recorded.batches[0].candidate(row) for row in range(8)]
        found = [one.measurement.latency_secs for one in bench.measure(recorded.space, candidates, None)]
        expected = [None if np.isnan(secs) else secs for secs in recorded.run_secs[0][:8]]
        assert found == expected

    def test_a_failure_is_an_error_and_an_unknown_candidate_another(self, recorded: RecordedSpace) -> None:
        other = fake_recording(n=100, seed=9).batches[0]
        strange = next(c for c in map(other.candidate, range(100)) if c.candidate_id not in _ids(recorded))
        asked = [recorded.batches[0].candidate(3), strange]
        found = list(ReplayWorkbench([recorded]).measure(recorded.space, asked, None))
        assert [one.measurement.error.kind for one in found if one.measurement.error] == [
            MeasureErrorKind.RUN_ERROR,
            MeasureErrorKind.SCHEDULE_ERROR,
        ]

    def test_known_candidates_are_left_out(self, recorded: RecordedSpace) -> None:
        candidates = [recorded.batches[0].candidate(row) for row in range(3)]
        known = {candidates[1].candidate_id}
        found = list(ReplayWorkbench([recorded]).measure(recorded.space, candidates, None, known))
        assert [one.candidate for one in found] == [candidates[0], candidates[2]]

    def test_what_the_incumbent_beats_is_censored_at_the_stage_where_it_stops(
        self, recorded: RecordedSpace
    ) -> None:
        candidate = recorded.batches[0].candidate(0)
        secs = float(recorded.run_secs[0][0])

        def stage(incumbent_secs: float) -> tuple[int, bool]:
            (one,) = ReplayWorkbench([recorded]).measure(recorded.space, [candidate], incumbent_secs)
            return one.measurement.stage, one.measurement.is_censored

        assert stage(secs / 3.01) == (0, True)
        assert stage(secs / 1.31) == (1, True)
        assert stage(secs / 1.29) == (2, False)

    def test_the_untuned_schedule_is_the_slowest_that_ran(self, recorded: RecordedSpace) -> None:
        ((_, one),) = ReplayWorkbench([recorded]).measure_defaults([recorded.task])
        assert one.measurement.latency_secs == max(np.nanmax(secs) for secs in recorded.run_secs)

    def test_the_untuned_schedule_is_the_recorded_one_where_there_is_one(self, recorded: RecordedSpace) -> None:
        bench = ReplayWorkbench([replace(recorded, default_secs=0.5)])
        ((_, one),) = bench.measure_defaults([recorded.task])
        assert one.measurement.latency_secs == 0.5
        assert bench.compare(recorded.space, [None]).run_secs == ((0.5,) * 5,)

    def test_a_comparison_repeats_the_recording(self, recorded: RecordedSpace) -> None:
        comparison = ReplayWorkbench([recorded]).compare(
            recorded.space, [None, recorded.batches[1].candidate(0), recorded.batches[0].candidate(3)]
        )
        assert comparison.run_secs[1] == (recorded.run_secs[1][0],) * 5
        assert comparison.run_secs[2] == ()
        assert comparison.errors[2] is not None

    def test_two_recordings_of_one_task_and_nothing_that_ran_are_refused(self, recorded: RecordedSpace) -> None:
        with pytest.raises(ConfigError, match="two recordings of one task"):
            ReplayWorkbench([recorded, recorded])
        dead = fake_recording(n=4)
        for secs in dead.run_secs:
            secs[:] = np.nan
        with pytest.raises(ConfigError, match="no candidate of it ran"):
            ReplayWorkbench([dead])
        with pytest.raises(SpaceError, match="was not recorded"):
            ReplayWorkbench([recorded]).design_space(make_task("other"))


class TestRecordedExplorer:
    def test_proposes_all_rows_that_are_left(self, recorded: RecordedSpace) -> None:
        explorer = RecordedExplorer([recorded])
        rng = np.random.default_rng(0)
        assert sum(map(len, explorer.propose(recorded.space, 1, None, rng))) == recorded.n_candidates
        batch = recorded.batches[0].take(np.arange(10))
        explorer.update(batch, [make_measurement()] * 10)
        left = explorer.propose(recorded.space, 1, None, rng)
        assert sum(map(len, left)) == recorded.n_candidates - 10

    def test_keeps_to_what_the_rules_left_of_the_space(self, recorded: RecordedSpace) -> None:
        table = recorded.space.sketches[0].variables[0].table
        keep = np.arange(len(table)) % 2 == 0
        space = recorded.space.restrict(SpaceRestriction({(0, 0): keep}))
        first, second = RecordedExplorer([recorded]).propose(space, 1, None, np.random.default_rng(0))
        assert first.is_allowed().all()
        assert 0 < len(first) < len(recorded.batches[0])
        assert len(second) == len(recorded.batches[1])

    def test_knows_nothing_of_other_tasks(self, recorded: RecordedSpace) -> None:
        other = fake_recording(name="other").space
        assert not RecordedExplorer([recorded]).propose(other, 10, None, np.random.default_rng(0))


def test_found_after_counts_failures_as_nothing() -> None:
    found = found_after(np.array([np.nan, 4.0, 2.0, 3.0]), 2.0)
    assert found.tolist() == [0.0, 0.5, 1.0, 1.0]


def test_a_replay_neither_takes_from_the_library_nor_adds_to_it(
    recorded: RecordedSpace, profile: HardwareProfile, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its latencies are no device's, and what was not recorded cannot be measured."""
    monkeypatch.setattr("prune_engine.engine.harvest", lambda *_, **__: pytest.fail("asked for entries"))
    for config in (CONFIG, CONFIG.model_copy(update={"transfer": True, "harvest": True})):
        done = replay([recorded], config, profile, store)
        assert done.run.tasks[0].transfer is None
        assert store.find(LibraryQuery()) == []
