"""PruneEngineCostModel inside MetaSchedule: scores, learning, files, and what cannot be read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from prune_engine.config import EngineConfig
from prune_engine.errors import ConfigError, OutputError

PLAIN = EngineConfig(prior="none")


def model(**options: Any) -> Any:
    from prune_engine.metaschedule import PruneEngineCostModel

    return PruneEngineCostModel(**{"config": PLAIN, **options})


@pytest.fixture(scope="module")
def drawn(ms: Any) -> tuple[Any, list[Any]]:
    """A context and 48 random candidates of it, as TVM's own search makes them."""
    import tvm

    from prune_engine.metaschedule.workloads.loading import load_tasks

    mod = load_tasks("gemm:64x64x64", json.dumps({"kind": "llvm"}), shapes={}, dims={})[0].mod
    context = ms.TuneContext(
        mod=mod,
        target=tvm.target.Target({"kind": "llvm", "mcpu": "skylake-avx512", "num-cores": 2}),
        space_generator="post-order-apply",
        search_strategy="replay-trace",
        num_threads=1,
        rand_state=1,
    )
    context.pre_tuning(48, 48, context.generate_design_space(), None, None)
    return context, list(context.generate_measure_candidates())


def results(ms: Any, secs: Any) -> list[Any]:
    return [ms.runner.RunnerResult(run_secs=[float(one)], error_msg=None) for one in secs]


def of_unroll(candidates: list[Any]) -> np.ndarray:
    """A latency that depends on one decision: how far loops are unrolled."""
    from prune_engine.metaschedule.traces import decisions_of

    return np.array([1e-3 * (1 + decisions_of(one.sch.trace)[-1][0] / 64) for one in candidates])


def test_scores_are_finite_positive_and_tell_candidates_apart(drawn: tuple[Any, list[Any]]) -> None:
    context, candidates = drawn
    made = model()
    scores = made.predict(context, candidates)
    assert scores.dtype == np.float64
    assert scores.shape == (48,)
    assert np.isfinite(scores).all()
    assert (scores > 0).all()
    assert len(np.unique(scores)) > 20
    assert (made.counts.n_scored, made.counts.n_neutral) == (48, 0)
    assert made.remarks() == ()


def test_scores_are_the_drafts_on_a_ratio_scale(drawn: tuple[Any, list[Any]]) -> None:
    """A candidate that is drafted to take half as long has twice the score, whatever it is asked with."""
    context, candidates = drawn
    whole = model(config=EngineConfig(prior="none", build_aversion=0)).predict(context, candidates)
    part = model(config=EngineConfig(prior="none", build_aversion=0)).predict(context, candidates[::3])
    np.testing.assert_allclose(part / part[0], whole[::3] / whole[0])


def test_it_learns(ms: Any, drawn: tuple[Any, list[Any]]) -> None:
    context, candidates = drawn
    made = model()
    secs = of_unroll(candidates)
    made.update(context, candidates[:40], results(ms, secs[:40]))
    scores = made.predict(context, candidates)
    assert made.counts.n_learnt == 40
    order = np.corrcoef(np.argsort(np.argsort(scores)), -np.argsort(np.argsort(secs)))[0, 1]
    before = model().predict(context, candidates)
    was = np.corrcoef(np.argsort(np.argsort(before)), -np.argsort(np.argsort(secs)))[0, 1]
    assert order > max(0.5, was)


def test_failures_are_learnt_as_failures(ms: Any, drawn: tuple[Any, list[Any]]) -> None:
    context, candidates = drawn
    made = model()
    failed = ms.runner.RunnerResult(run_secs=None, error_msg="it crashed")
    made.update(context, candidates[:4], [failed, *results(ms, [1e-3, 1e-3, 1e10])])
    assert made.counts.n_learnt == 4
    assert [bool(lesson.run_secs) for lesson in made._lessons].count(False) == 2


def test_a_file_brings_back_what_was_learnt(ms: Any, drawn: tuple[Any, list[Any]], tmp_path: Path) -> None:
    context, candidates = drawn
    made, path = model(), tmp_path / "model.json"
    made.update(context, candidates, results(ms, of_unroll(candidates)))
    made.save(str(path))
    assert b"pickle" not in path.read_bytes()
    assert json.loads(path.read_text())["format"] == "prune_engine.cost-model/1"
    loaded = model()
    loaded.load(str(path))
    scores = loaded.predict(context, candidates)
    assert loaded.counts.n_learnt == 48
    expected = made.predict(context, candidates)
    assert np.corrcoef(scores, expected)[0, 1] > 0.95
    again = tmp_path / "again.json"
    loaded.save(str(again))
    assert len(json.loads(again.read_text())["lessons"]) == 48


def test_a_file_of_kernels_not_met_yet_loses_nothing(drawn: tuple[Any, list[Any]], ms: Any, tmp_path: Path) -> None:
    context, candidates = drawn
    made = model()
    made.update(context, candidates[:5], results(ms, [1e-3] * 5))
    made.save(str(tmp_path / "a"))
    other = model()
    other.load(str(tmp_path / "a"))
    other.save(str(tmp_path / "b"))
    assert (tmp_path / "b").read_text() == (tmp_path / "a").read_text()


def test_a_model_saved_before_it_learnt_can_be_loaded(drawn: tuple[Any, list[Any]], tmp_path: Path) -> None:
    context, candidates = drawn
    model().save(str(tmp_path / "empty"))
    made = model()
    made.load(str(tmp_path / "empty"))
    np.testing.assert_array_equal(made.predict(context, candidates), model().predict(context, candidates))


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x80\x04\x95",
        b"[]",
        b'{"format": "other"}',
        b'{"format": "prune_engine.cost-model/1"}',
        b'{"format": "prune_engine.cost-model/1", "lessons": [["t", "i", "s", [[1]], [-1.0]]]}',
        b'{"format": "prune_engine.cost-model/1", "lessons": [["t", "i", "s", [["x"]], [1.0]]]}',
    ],
)
def test_files_that_are_no_model(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "model"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match="is no cost model of prune_engine"):
        model().load(str(path))


def test_a_file_that_is_not_there_and_a_folder_that_is_not(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="No such file"):
        model().load(str(tmp_path / "none"))
    with pytest.raises(OutputError, match="cannot be written"):
        model().save(str(tmp_path / "none" / "model"))


def test_what_cannot_be_read_gets_the_neutral_score(ms: Any, drawn: tuple[Any, list[Any]]) -> None:
    import tvm

    context, candidates = drawn
    schedule = tvm.s_tir.Schedule(context.mod, seed=1, debug_mask="none")
    loop = schedule.get_loops(schedule.get_sblock("matmul"))[0]
    schedule.split(loop, schedule.sample_partitioned_tile(loop, n=2, partition_pos=1, innerpart_factor=2))
    strange = ms.MeasureCandidate(schedule, candidates[0].args_info)
    made = model()
    assert made.predict(context, [strange]).tolist() == [1.0], "nothing to go by yet"
    scores = made.predict(context, [*candidates[:9], strange])
    assert scores[-1] == np.median(scores[:9])
    assert made.predict(context, [strange]).tolist() == [scores[-1]], "that of the last call"
    assert made.counts.n_neutral == 3
    assert any("cannot be read" in remark for remark in made.remarks())
    made.update(context, [strange], results(ms, [1e-3]))
    assert made.counts.n_learnt == 0


def test_results_of_another_number_than_candidates(ms: Any, drawn: tuple[Any, list[Any]]) -> None:
    context, candidates = drawn
    with pytest.raises(ConfigError, match="not as many results as candidates; got 1; expected 3"):
        model().update(context, candidates[:3], results(ms, [1e-3]))


def test_tvms_evolutionary_search_ranks_by_it(ms: Any, drawn: tuple[Any, list[Any]]) -> None:
    """All that it is asked about is read, mutated candidates as well."""
    ours, made = drawn[0], model()
    context = ms.TuneContext(
        mod=ours.mod,
        target=ours.target,
        space_generator="post-order-apply",
        search_strategy=ms.search_strategy.EvolutionarySearch(
            population_size=24, init_min_unmeasured=8, genetic_num_iters=2
        ),
        num_threads=1,
        rand_state=3,
    )
    context.pre_tuning(8, 8, context.generate_design_space(), ms.database.MemoryDatabase(), made)
    candidates = context.generate_measure_candidates()
    assert len(candidates) == 8
    assert made.counts.n_scored >= 48
    assert made.counts.n_neutral == 0
