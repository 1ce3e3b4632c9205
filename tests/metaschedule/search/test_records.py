"""PruneEngineSearch and what was measured before: records of TVM's databases, and a store."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from kits.kernels import task_of
from kits.search_contexts import (
    committed,
    context_of,
    exhaust,
    flat,
    modules,
    ran,
    started,
    texts,
    tiled,
    tiled_a_little,
)


def test_a_record_that_does_not_fit_is_passed_over(tvm: Any, ms: Any, gemm: Any, strategy: Any) -> None:
    from prune_engine.metaschedule.relax_tasks import block_names

    target = tvm.target.Target({"kind": "llvm", "num-cores": 2})
    other = task_of("softmax", json.dumps({"kind": "llvm"})).mod
    wrong = tvm.s_tir.Schedule(other)
    wrong.get_loops(wrong.get_sblock(block_names(other)[-1]))
    database = ms.database.MemoryDatabase()
    workload = database.commit_workload(gemm)
    info = ms.arg_info.ArgInfo.from_prim_func(func=gemm["main"])
    database.commit_tuning_record(ms.database.TuningRecord(wrong.trace, workload, [0.1], target, info))
    context = started(ms, context_of(ms, gemm, strategy(), tiled), 4, 2, database)
    assert context.generate_measure_candidates() is not None


@pytest.mark.parametrize("secs", [[0.1, 0.2], [1e10]], ids=["ran", "failed"])
def test_what_the_json_database_has_is_never_measured_again(
    ms: Any, gemm: Any, strategy: Any, tmp_path: Path, secs: list[float]
) -> None:
    context = started(ms, context_of(ms, gemm, strategy(), tiled_a_little), 2000, 15)
    first = list(context.generate_measure_candidates())
    database = ms.database.JSONDatabase(work_dir=str(tmp_path))
    committed(ms, database, gemm, context.target, first, secs)
    again = ms.database.JSONDatabase(work_dir=str(tmp_path))
    assert len(again) == 15
    resumed = started(ms, context_of(ms, gemm, strategy(), tiled_a_little), 2000, 15, again)
    rest = flat(exhaust(ms, resumed))
    assert len(rest) == 10
    assert not set(modules(rest)) & set(modules(first))


def test_records_of_another_target_are_not_taken_for_ours(tvm: Any, ms: Any, gemm: Any, strategy: Any) -> None:
    context = started(ms, context_of(ms, gemm, strategy(), tiled_a_little), 2000, 15)
    database = ms.database.MemoryDatabase()
    other = tvm.target.Target({"kind": "llvm", "num-cores": 7})
    committed(ms, database, gemm, other, list(context.generate_measure_candidates()), [0.1])
    resumed = started(ms, context_of(ms, gemm, strategy(), tiled_a_little), 2000, 64, database)
    assert len(flat(exhaust(ms, resumed))) == 25


def test_records_teach(ms: Any, gemm: Any, strategy: Any) -> None:
    """The slow half of a space comes last where the database has the fast half, told as such."""
    context = started(ms, context_of(ms, gemm, strategy(), tiled), 64, 64)
    seen = list(context.generate_measure_candidates())
    database = ms.database.MemoryDatabase()
    committed(ms, database, gemm, context.target, seen, [0.5])
    resumed = started(ms, context_of(ms, gemm, strategy(), tiled), 16, 16, database)
    fresh = started(ms, context_of(ms, gemm, strategy(), tiled), 16, 16)
    assert texts(resumed.generate_measure_candidates()) != texts(fresh.generate_measure_candidates())


def test_a_store_keeps_what_was_measured(ms: Any, gemm: Any, strategy: Any, tmp_path: Path) -> None:
    from prune_engine.library import LibraryQuery
    from prune_engine.store.open import open_store

    url = str(tmp_path / "store.sqlite3")
    context = started(ms, context_of(ms, gemm, strategy(store=url), task_name="mine"), 8, 8)
    first = list(context.generate_measure_candidates())
    context.notify_runner_results(first, ran(ms, first))
    context.post_tuning()
    store = open_store(url)
    (entry, *_) = store.find(LibraryQuery(limit=10))
    assert entry.model == "mine"
    assert store.verdicts(store.tasks(store.runs()[0].run_id)[0].task_id)
    store.close()
    again = started(ms, context_of(ms, gemm, strategy(store=url)), 8, 8)
    assert not set(modules(again.generate_measure_candidates())) & set(modules(first))
