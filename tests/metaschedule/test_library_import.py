"""Entries of the library from databases: the fastest of each kernel, as traces that TVM replays."""

from __future__ import annotations

import base64
import json
from dataclasses import replace
from pathlib import Path

import pytest
from kits.recordings import RECORDS_FILE, WORKLOADS_FILE, gemm_database, lines, schedules, write_database

from prune_engine.errors import ConfigError, SpaceError
from prune_engine.hardware.host import cpu_model
from prune_engine.library import Origin
from prune_engine.loop.harvest import compiler_version, peak_flop_per_sec
from prune_engine.metaschedule._compat import import_tvm
from prune_engine.metaschedule.library_import import device_of, import_database
from prune_engine.metaschedule.targets import resolve_target
from prune_engine.metaschedule.traces import decisions_of
from prune_engine.symbols.table import SYMBOLS_VERSION
from prune_engine.testing import make_profile


@pytest.fixture
def database(tmp_path: Path) -> Path:
    return gemm_database(tmp_path / "gemm")


def test_the_fastest_of_a_kernel_come_with_all_that_is_known(database: Path) -> None:
    some = schedules()
    found = import_database(database)
    assert (found.n_kernels, found.n_records, found.remarks) == (1, len(some.secs), ())
    assert [entry.run_secs for entry in found.entries] == [(secs,) for secs in sorted(some.secs)[:3]]
    assert [entry.rank for entry in found.entries] == [0, 1, 2]
    best = found.entries[0]
    assert best.kernel_class == some.task.kernel_class is not None
    assert (best.target, best.n_threads) == (some.task.target, 2)
    assert (best.model, best.task_name, best.n_trials) == ("gemm", "gemm", len(some.secs))
    assert (best.flop_count, best.default_secs, best.peak_flop_per_sec) == (some.task.flop_count, None, None)
    assert (best.origin, best.symbols_version) == (Origin.IMPORTED, SYMBOLS_VERSION)
    assert best.tvm_version == compiler_version() != ""
    assert best.measured_at == (database / RECORDS_FILE).stat().st_mtime
    assert all(choice.subject is not None for choice in best.choices if choice.kind.value == "tile")


def test_traces_replay_and_choices_are_their_decisions(database: Path) -> None:
    tvm = import_tvm()
    for entry in import_database(database).entries:
        schedule = tvm.s_tir.Schedule(schedules().task.mod, debug_mask="none")
        assert "EnterPostproc" not in entry.trace_json
        tvm.s_tir.schedule.Trace.apply_json_to_schedule(json.loads(entry.trace_json), schedule)
        assert decisions_of(schedule.trace) == tuple(choice.values for choice in entry.choices)
        assert entry.sketch_id in {sketch.sketch_id for sketch in schedules().space.sketches}


def test_what_the_user_says_counts(database: Path) -> None:
    asked = []

    def profile_of(device: str, n_threads: int):
        asked.append((device, n_threads))
        return make_profile()

    found = import_database(
        database, keep=5, device_name="a board", n_threads=7, model="mine", profile_of=profile_of
    )
    assert len(found.entries) == 5
    assert {(e.device_name, e.model) for e in found.entries} == {("a board", "mine")}
    assert asked == [("a board", 7)]
    assert {entry.n_threads for entry in found.entries} == {7}
    peak = peak_flop_per_sec(make_profile(), ("float32",))
    assert {e.peak_flop_per_sec for e in found.entries} == {peak}


def test_every_kernel_has_its_own_best_and_the_default_counts(tmp_path: Path) -> None:
    softmax, gemm = schedules("softmax:8x16", 3), schedules()
    untuned = replace(gemm, traces=('[[["GetSBlock",[],["root","main"],["b0"]]],[]]', *gemm.traces))
    folder = write_database(
        tmp_path / "both", (softmax, [[s] for s in softmax.secs]), (untuned, [[0.5], [1e10], [2e-3], [1e-3]])
    )
    found = import_database(folder)
    assert found.n_kernels == 2
    by_class = {entry.kernel_class.label: [] for entry in found.entries}
    for entry in found.entries:
        by_class[entry.kernel_class.label].append(entry)
    assert [entry.latency_secs for entry in by_class["matmul"]] == [1e-3, 2e-3]
    assert {entry.default_secs for entry in by_class["matmul"]} == {0.5}
    assert {entry.model for entry in found.entries} == {"both"}
    assert len(by_class) == 2


def test_rows_that_are_none_are_remarks(database: Path) -> None:
    rows = lines(database)
    rows[0] = "no JSON"
    (database / RECORDS_FILE).write_text("\n".join(rows))
    found = import_database(database / RECORDS_FILE)
    assert len(found.entries) == 3
    assert any("line 1 of" in remark for remark in found.remarks)


def test_a_kernel_of_which_nothing_ran_is_a_remark(tmp_path: Path) -> None:
    some = schedules()
    found = import_database(write_database(tmp_path / "x", (some, [[1e10], [1e10]])))
    assert found.entries == ()
    assert found.remarks == ("x: no candidate of it ran, 2 recorded",)


def test_workloads_of_an_old_version_are_refused(database: Path) -> None:
    """TVM writes modules in a form that another version does not read."""
    path = database / WORKLOADS_FILE
    name, encoded = json.loads(path.read_text().splitlines()[0])
    length, text = base64.b64decode(encoded)[:8], base64.b64decode(encoded)[8:].decode()
    old = text.replace("PrimFunc", "PrimFunction")
    path.write_text(json.dumps([name, base64.b64encode(length + old.encode()).decode()]) + "\n")
    with pytest.raises(SpaceError, match=r"no workload of the database.*a module as TVM 0\.27 writes it"):
        import_database(database)


def test_a_folder_without_a_database_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="is no MetaSchedule database"):
        import_database(tmp_path)


def test_the_device_is_told_from_the_target() -> None:
    assert device_of(resolve_target("native", 7)) == cpu_model()
    assert device_of(resolve_target("cuda/a100", 1)) == "sm_80"
    assert device_of('{"kind":"llvm","mcpu":"cortex-a72"}') == "cortex-a72"
    assert device_of('{"kind":"llvm","num-cores":2}') == "llvm"
