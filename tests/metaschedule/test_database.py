"""A MetaSchedule database that TVM reads and applies without us."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from prune_engine.errors import OutputError
from prune_engine.measurement import DEFAULT_CANDIDATE, MeasureError, MeasureErrorKind
from prune_engine.metaschedule.database import RECORDS_FILE, WORKLOADS_FILE, TaskRecords, write_tuning_records
from prune_engine.metaschedule.targets import make_target
from prune_engine.store.base import StoredCandidate
from prune_engine.task import TuningTask
from prune_engine.testing.store_samples import store_measured

TARGET = '{"kind":"llvm","num-cores":2}'
EXTENT = 48


def _gemm(name: str = "C") -> object:
    from prune_engine.metaschedule._compat import import_tvm

    tvm = import_tvm()
    from tvm import te

    a, b = (te.placeholder((EXTENT, EXTENT), name=n) for n in "AB")
    k = te.reduce_axis((0, EXTENT), "k")
    c = te.compute((EXTENT, EXTENT), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name=name)
    return tvm.IRModule({"main": te.create_prim_func([a, b, c])})


def _task(mod: object, name: str = "gemm") -> TuningTask:
    return TuningTask(f"id-{name}", name, TARGET, 1, 2 * EXTENT**3, ((EXTENT, EXTENT),) * 3, ("float32",) * 3, mod)


@pytest.fixture(scope="module")
def task() -> TuningTask:
    return _task(_gemm())


@pytest.fixture(scope="module")
def traces(task: TuningTask) -> list[str]:
    """Post-processed traces of one random candidate of each sketch, as the engine stores them."""
    from prune_engine.metaschedule._compat import import_tvm, load_intrinsics
    from prune_engine.metaschedule.traces import trace_to_json

    tvm = import_tvm()
    load_intrinsics("x86")
    from tvm.s_tir import meta_schedule as ms

    target = tvm.target.Target(json.loads(TARGET))
    context = ms.TuneContext(
        mod=task.mod, target=target, space_generator="post-order-apply", num_threads=1, rand_state=1
    )
    made = []
    for seed, sketch in enumerate(context.generate_design_space()):
        schedule = tvm.s_tir.Schedule(task.mod, seed=seed + 1, debug_mask="none")
        trace = tvm.s_tir.schedule.Trace(sketch.trace.insts, {})
        trace.apply_to_schedule(schedule, remove_postproc=True)
        schedule.enter_postproc()
        for postproc in context.space_generator.postprocs:
            assert postproc.apply(schedule)
        made.append(trace_to_json(schedule.trace))
    return made


def _stored(candidate_id: str, trace_json: str | None, *run_secs: float) -> StoredCandidate:
    measurement = replace(store_measured(candidate_id, run_secs=run_secs).measurement, is_censored=False)
    return StoredCandidate(candidate_id, "sketch", 0, ((1,),), trace_json, measurement)


def _records(folder: Path) -> list[list[object]]:
    """The tuning records on disk: [workload number, [trace, run_secs, target, args_info]]."""
    return [json.loads(line) for line in (folder / RECORDS_FILE).read_text().splitlines()]


STOCK_TVM = """
import json, sys
import numpy as np
import tvm
from tvm import te
from tvm.s_tir import meta_schedule as ms
assert not any(name.startswith("prune_engine") for name in sys.modules)
work_dir, extent, target, best = sys.argv[1], int(sys.argv[2]), json.loads(sys.argv[3]), json.loads(sys.argv[4])
a, b = (te.placeholder((extent, extent), name=n) for n in "AB")
k = te.reduce_axis((0, extent), "k")
c = te.compute((extent, extent), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")
mod, target = tvm.IRModule({"main": te.create_prim_func([a, b, c])}), tvm.target.Target(target)

database = ms.database.JSONDatabase(work_dir=work_dir, allow_missing=False)
record = database.query_tuning_record(mod, target, "main")
print(json.dumps([len(database), [float(x.value if hasattr(x, "value") else x) for x in record.run_secs]]))
schedule = tvm.s_tir.Schedule(mod)
tvm.s_tir.schedule.Trace.apply_json_to_schedule(best, schedule)
replayed = tvm.s_tir.Schedule(mod)
record.trace.apply_to_schedule(replayed, remove_postproc=False)
for found in (replayed.mod, database.query_ir_module(mod, target, "main")):
    tvm.ir.assert_structural_equal(found["main"], schedule.mod["main"])
assert str(record.target.kind.name) == "llvm" and len(record.args_info) == 3

x, y = (np.random.default_rng(i).random((extent, extent), dtype="float32") for i in (1, 2))
z = tvm.runtime.empty((extent, extent), "float32", tvm.cpu())
tvm.compile(found, target=target)["main"](tvm.runtime.tensor(x), tvm.runtime.tensor(y), z)
np.testing.assert_allclose(z.numpy(), x @ y, rtol=1e-4)
print("applied")
"""


def test_stock_tvm_applies_the_best(tmp_path: Path, task: TuningTask, traces: list[str]) -> None:
    best_secs = (0.1 + 0.2) * 1e-4
    candidates = [
        _stored("slow", traces[0], 0.25, 0.5),
        _stored("best", traces[1], best_secs, 1e-4 / 3),
        _stored("middle", traces[2], 1e-3),
    ]
    written = write_tuning_records(tmp_path / "new" / "db", [TaskRecords(task, candidates)])
    assert (written.n_workloads, written.n_records, written.left_out) == (1, 3, ())
    args = [str(tmp_path / "new" / "db"), str(EXTENT), TARGET, traces[1]]
    done = subprocess.run(
        [sys.executable, "-c", STOCK_TVM, *args], capture_output=True, text=True, timeout=120, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    found, applied = done.stdout.splitlines()[-2:]
    assert json.loads(found) == [3, [best_secs, 1e-4 / 3]]  # exactly
    assert applied == "applied"


def test_records_hold_what_was_stored(tmp_path: Path, task: TuningTask, traces: list[str]) -> None:
    write_tuning_records(tmp_path, [TaskRecords(task, [_stored("c", traces[0], 1e-3)])])
    ((workload, (trace, run_secs, target, args_info)),) = _records(tmp_path)  # type: ignore[misc]
    assert workload == 0
    assert trace == json.loads(traces[0])
    assert run_secs == [1e-3]
    assert (target["kind"], target["num-cores"]) == ("llvm", 2)
    assert args_info == [["TENSOR", "float32", [EXTENT, EXTENT]]] * 3


def test_failed_and_censored_are_not_records(tmp_path: Path, task: TuningTask, traces: list[str]) -> None:
    good = _stored("good", traces[0], 2.0)
    censored = replace(good, candidate_id="censored", measurement=replace(good.measurement, is_censored=True))
    error = MeasureError(MeasureErrorKind.CRASH, "signal 11")
    failed = replace(good, measurement=replace(good.measurement, run_secs=(), error=error))
    endless = _stored("endless", traces[0], float("inf"))
    entries = [TaskRecords(task, [failed, censored, endless, good])]
    assert write_tuning_records(tmp_path, entries).n_records == 1
    assert write_tuning_records(tmp_path, entries, include_censored=True).n_records == 2
    assert len(_records(tmp_path)) == 2


def test_default_schedule_wins_where_it_is_best(tmp_path: Path, task: TuningTask, traces: list[str]) -> None:
    """TVM must not replace the untuned kernel by something slower."""
    from tvm.ir import assert_structural_equal
    from tvm.s_tir import meta_schedule as ms

    default = replace(_stored(DEFAULT_CANDIDATE, None, 1.0), sketch_id=None, sketch_index=None, decisions=())
    for tuned_secs, is_changed in ((2.0, False), (0.5, True)):
        tuned = _stored("c", traces[0], tuned_secs)
        assert write_tuning_records(tmp_path, [TaskRecords(task, [default, tuned])]).n_records == 2
        database = ms.database.JSONDatabase(work_dir=str(tmp_path), allow_missing=False)
        found = database.query_ir_module(task.mod, make_target(TARGET), "main")
        if is_changed:
            with pytest.raises(ValueError, match="StructuralEqual check failed"):
                assert_structural_equal(found, task.mod)
        else:
            assert_structural_equal(found, task.mod)


def test_default_schedule_of_a_gpu_kernel_has_no_trace(tmp_path: Path, task: TuningTask) -> None:
    """There an unscheduled kernel does not run: what was measured was something else."""
    default = replace(_stored(DEFAULT_CANDIDATE, None, 1.0), sketch_id=None, sketch_index=None, decisions=())
    on_gpu = replace(task, target='{"kind":"cuda","arch":"sm_80","max_threads_per_block":1024}')
    written = write_tuning_records(tmp_path, [TaskRecords(on_gpu, [default])])
    assert written.n_records == 0
    assert "without a trace" in written.left_out[0]


@pytest.mark.parametrize("trace", ["no json", "[]", '"text"', '[[["Nonsense",[],[],[]]],[]]', None])
def test_a_trace_that_tvm_cannot_read_spoils_no_other(
    tmp_path: Path, task: TuningTask, traces: list[str], trace: str | None
) -> None:
    candidates = [_stored("bad", trace, 1.0), _stored("good", traces[0], 2.0)]
    written = write_tuning_records(tmp_path, [TaskRecords(task, candidates)])
    assert written.n_records == 1
    assert len(written.left_out) == 1
    assert written.left_out[0].startswith("gemm, candidate bad: ")
    _load(tmp_path)


def test_kernels_equal_but_for_names_share_a_workload(tmp_path: Path, task: TuningTask, traces: list[str]) -> None:
    """TVM's workloads ignore block names, traces do not: one that does not fit would spoil the database."""
    renamed = traces[0].replace('"C"', '"D"')
    entries = [
        TaskRecords(task, [_stored("c", traces[0], 1.0)]),
        TaskRecords(_task(_gemm("D"), "other"), [_stored("d", renamed, 2.0)]),
    ]
    written = write_tuning_records(tmp_path, entries)
    assert (written.n_workloads, written.n_records) == (1, 1)
    assert "other, candidate d: " in written.left_out[0]
    assert "schedule of gemm" in written.left_out[0]
    _load(tmp_path)


def test_nothing_measured_is_an_empty_database(tmp_path: Path, task: TuningTask) -> None:
    written = write_tuning_records(tmp_path, [TaskRecords(task, [])])
    assert (written.n_workloads, written.n_records) == (0, 0)
    assert _load(tmp_path) == 0


def test_written_again_replaces(tmp_path: Path, task: TuningTask, traces: list[str]) -> None:
    entries = [TaskRecords(task, [_stored(str(i), trace, 1.0) for i, trace in enumerate(traces)])]
    for _ in range(2):
        write_tuning_records(tmp_path, entries)
        assert len(_records(tmp_path)) == len(traces)
        assert sorted(p.name for p in tmp_path.iterdir()) == sorted([WORKLOADS_FILE, RECORDS_FILE])


def test_a_failure_on_the_way_keeps_the_old_database(tmp_path: Path, task: TuningTask, traces: list[str]) -> None:
    write_tuning_records(tmp_path, [TaskRecords(task, [_stored("c", traces[0], 1.0)])])
    before = {p.name: p.read_bytes() for p in tmp_path.iterdir()}

    def entries():  # type: ignore[no-untyped-def]
        yield TaskRecords(task, [_stored("d", traces[1], 1.0)])
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_tuning_records(tmp_path, entries())
    assert {p.name: p.read_bytes() for p in tmp_path.iterdir()} == before


def test_stopped_between_the_files_leaves_no_wrong_records(
    tmp_path: Path, task: TuningTask, traces: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Records name their workload by its number: old ones must never meet new workloads."""
    write_tuning_records(tmp_path, [TaskRecords(task, [_stored("c", traces[0], 1.0)])])
    replace_file = Path.replace

    def stop_at_records(self: Path, target: Path) -> Path:
        if self.name == RECORDS_FILE:
            raise KeyboardInterrupt
        return replace_file(self, target)

    monkeypatch.setattr(Path, "replace", stop_at_records)
    with pytest.raises(KeyboardInterrupt):
        write_tuning_records(tmp_path, [TaskRecords(_task(_gemm("D"), "other"), [_stored("d", "[[],[]]", 1.0)])])
    assert [p.name for p in tmp_path.iterdir()] == [WORKLOADS_FILE]


def test_folder_that_cannot_be_written(tmp_path: Path, task: TuningTask) -> None:
    (tmp_path / "file").write_text("")
    for folder in (tmp_path / "file", tmp_path / "file" / "below", Path("/proc/self/db")):
        with pytest.raises(OutputError, match="cannot be written"):
            write_tuning_records(folder, [TaskRecords(task, [])])


FULL = """
import json, sys
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from test_database import *
from test_database import _gemm, _stored, _task
entries = [TaskRecords(_task(_gemm()), [_stored(str(i), "[[],[]]", 1.0) for i in range(int(sys.argv[3]))])]
try:
    print(write_tuning_records(Path(sys.argv[1]), entries).n_records)
except OutputError as error:
    print(error)
print(sorted(p.name for p in Path(sys.argv[1]).iterdir()))
"""


@pytest.mark.parametrize("n_records", [0, 100])
def test_full_disk(tmp_path: Path, n_records: int) -> None:
    """TVM does not notice that what it wrote is not there."""
    if shutil.which("unshare") is None:
        pytest.skip("no unshare here")
    namespace = ["unshare", "--map-root-user", "--mount", "sh", "-c"]
    mount = f"mount -t tmpfs -o size=32k tmpfs '{tmp_path}'"
    if subprocess.run([*namespace, mount], capture_output=True, timeout=30).returncode != 0:
        pytest.skip("no file system can be mounted here")
    arguments = [sys.executable, "-c", FULL, str(tmp_path), str(Path(__file__).parent), str(n_records)]
    command = [*namespace, f'{mount} && exec "$@"', "sh", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    if n_records:
        assert "No space left on device" in done.stdout, done.stdout + done.stderr
        assert done.stdout.endswith("[]\n")
    else:
        assert done.stdout.startswith("0\n"), done.stdout + done.stderr


def _load(folder: Path) -> int:
    """Number of records TVM finds; it raises if one of them does not replay."""
    from tvm.s_tir import meta_schedule as ms

    return len(ms.database.JSONDatabase(work_dir=str(folder), allow_missing=False))
