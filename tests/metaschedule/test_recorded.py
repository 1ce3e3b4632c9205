"""MetaSchedule databases read back as batches of candidates with run times."""

from __future__ import annotations

import base64
import json
import math
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from kits.recordings import RECORDS_FILE, WORKLOADS_FILE, gemm_database, lines, schedules, write_database

from prune_engine.errors import ConfigError, SpaceError
from prune_engine.metaschedule.recorded import load_recorded, read_recorded
from prune_engine.recorded.spaces import RecordedSpace


@pytest.fixture
def database(tmp_path: Path) -> Path:
    return gemm_database(tmp_path / "gemm")


def _secs_by_id(recorded: RecordedSpace) -> dict[str, float]:
    return {
        batch.candidate(row).candidate_id: float(secs[row])
        for batch, secs in zip(recorded.batches, recorded.run_secs, strict=True)
        for row in range(len(batch))
    }


def test_every_record_is_the_candidate_that_was_measured(database: Path) -> None:
    some = schedules()
    (recorded,) = load_recorded(database)
    assert _secs_by_id(recorded) == pytest.approx(dict(zip(some.candidate_ids, some.secs, strict=True)))
    assert (recorded.n_unmatched, recorded.n_failed, recorded.name) == (0, 0, "gemm")
    assert recorded.task.task_id == some.task.task_id
    assert recorded.best_secs == min(some.secs)
    assert recorded.median_secs == pytest.approx(np.median(some.secs))


def test_batches_have_symbols_of_their_loop_nests(database: Path) -> None:
    (recorded,) = load_recorded(database)
    assert [len(batch) for batch in recorded.batches] == [8] * len(recorded.space.sketches)
    for batch in recorded.batches:
        assert (batch.symbol("flops_total") >= 2 * 32 * 16 * 16).all()


def test_traces_that_were_simplified_are_the_same_candidates(tmp_path: Path) -> None:
    """MetaSchedule's own search strips what is dead in a trace, and so renames its variables."""
    some = schedules()
    (recorded,) = load_recorded(write_database(tmp_path, (some, [[s] for s in some.secs]), simplified=True))
    assert "EnterPostproc" not in (tmp_path / RECORDS_FILE).read_text()
    assert set(_secs_by_id(recorded)) == set(some.candidate_ids)


def test_locations_and_other_kernels_are_found_too(tmp_path: Path) -> None:
    """A softmax has compute locations; the two kernels are told apart."""
    softmax, gemm = schedules("softmax:8x16", 3), schedules()
    folder = write_database(tmp_path / "both", *[(one, [[s] for s in one.secs]) for one in (softmax, gemm)])
    first, second = load_recorded(folder)
    assert set(_secs_by_id(first)) == set(softmax.candidate_ids)
    assert set(_secs_by_id(second)) == set(gemm.candidate_ids)
    assert first.name == "both/1 T_softmax_maxelem+T_softmax_exp+T_softmax_expsum+T_softmax_norm"
    assert second.name == "both/2 matmul"
    assert any(v.kind.value == "location" for s in first.space.sketches for v in s.variables)


def test_failures_are_known_and_have_no_time(tmp_path: Path) -> None:
    (recorded,) = load_recorded(write_database(tmp_path, (schedules(), [[1e10], [0.002], [1e10, 1e10]])))
    assert recorded.n_failed == 2
    assert recorded.n_candidates == 3
    assert recorded.best_secs == 0.002


def test_the_untuned_kernel_is_no_candidate_but_the_default(tmp_path: Path) -> None:
    """`tune` writes it as a schedule that only looks at a block."""
    some = schedules()
    untuned = replace(some, traces=('[[["GetSBlock",[],["root","main"],["b0"]]],[]]', *some.traces))
    folder = tmp_path / "tuned" / "gemm" / "database"
    (recorded,) = load_recorded(write_database(folder, (untuned, [[0.5], *([s] for s in some.secs)])))
    assert (recorded.n_candidates, recorded.n_unmatched, recorded.default_secs) == (len(some.secs), 0, 0.5)
    assert recorded.name == "gemm"


def test_repeats_and_repeated_records_give_the_median(tmp_path: Path, database: Path) -> None:
    write_database(tmp_path / "a", (schedules(), [[3.0, 1.0, 2.0]]))
    (row,) = lines(tmp_path / "a")
    other = json.loads(row)
    other[1][1] = [6.0]
    failed = json.loads(row)
    failed[1][1] = [1e10]
    (tmp_path / "a" / RECORDS_FILE).write_text("\n".join([row, json.dumps(other), json.dumps(failed)]))
    (recorded,) = load_recorded(tmp_path / "a")
    assert list(_secs_by_id(recorded).values()) == [4.0]  # of 2 and 6; what failed once may run another time


def test_all_failed(tmp_path: Path) -> None:
    (recorded,) = load_recorded(write_database(tmp_path, (schedules(), [[1e10]])))
    assert recorded.best_secs is None
    assert recorded.median_secs is None
    assert math.isnan(recorded.run_secs[0][0])


def test_records_of_other_structures_are_counted_with_the_reason(database: Path) -> None:
    rows = [json.loads(line) for line in lines(database)]
    instructions, _ = rows[0][1][0]
    instructions[2][2] = ["of another tuner"]
    rows[1][1][0][1][0][1] = [5, 7, 1, 1]  # tiles that do not cover the loop
    rows[2][1][0][1].pop()
    rows[3][1][0][1][-1][1] = 99
    (database / RECORDS_FILE).write_text("\n".join(map(json.dumps, rows)))
    (recorded,) = load_recorded(database)
    assert recorded.unmatched == {
        "its structure is no sketch of the generated space": 1,
        "a decision is in no choice table (tile)": 1,
        "a decision is missing": 1,
        "its trace cannot be read": 1,
    }
    assert recorded.n_candidates == len(rows) - 4


@pytest.mark.parametrize(
    ("row", "says"),
    [
        ("[0,[[[[", "is no JSON"),
        ("{}", "is no tuning record"),
        ("[-1, [[[], []], [1.0], {}, []]]", "its workload is -1"),
        ("[0, [[[], []]]]", "is no tuning record"),
        ('[0, [["x", []], [1.0], {}, []]]', "not a pair of lists"),
    ],
)
def test_a_broken_row_is_told_of_and_the_others_are_read(database: Path, row: str, says: str) -> None:
    rows = lines(database)
    (database / RECORDS_FILE).write_text("\n".join([rows[0], row, *rows[1:]]))
    recording = read_recorded(database)
    (remark,) = recording.remarks
    assert "line 2 of database_tuning_record.json" in remark
    assert says in remark
    assert recording.spaces[0].n_candidates == len(rows)


def test_a_workload_that_cannot_be_read_leaves_the_others(tmp_path: Path) -> None:
    softmax, gemm = schedules("softmax:8x16", 3), schedules()
    write_database(tmp_path, *[(one, [[s] for s in one.secs]) for one in (softmax, gemm)])
    first, second = (tmp_path / WORKLOADS_FILE).read_text().splitlines()
    (tmp_path / WORKLOADS_FILE).write_text(f"{first[:400]}\n{second}\n")
    recording = read_recorded(tmp_path)
    assert [space.task.task_id for space in recording.spaces] == [gemm.task.task_id]
    (remark,) = recording.remarks
    assert "line 1 of database_workload.json" in remark


def test_a_workload_without_a_main_kernel_is_an_error(database: Path) -> None:
    digest, encoded = json.loads((database / WORKLOADS_FILE).read_text().splitlines()[0])
    raw = base64.b64decode(encoded)
    assert raw.count(b'"main"')
    renamed = base64.b64encode(raw.replace(b'"main"', b'"niam"')).decode()
    (database / WORKLOADS_FILE).write_text(json.dumps([digest, renamed]) + "\n")
    with pytest.raises(SpaceError, match="the workload is no kernel"):
        load_recorded(database)


def test_a_record_of_a_workload_that_is_not_there(database: Path) -> None:
    rows = lines(database)
    other = json.loads(rows[0])
    other[0] = 7
    (database / RECORDS_FILE).write_text("\n".join([*rows, json.dumps(other)]))
    recording = read_recorded(database)
    assert len(recording.spaces) == 1
    assert "no such workload" in recording.remarks[0]


def test_a_target_unknown_here_is_an_error_of_its_workload(database: Path) -> None:
    rows = [json.loads(line) for line in lines(database)]
    for row in rows:
        row[1][2] = {"kind": "llvm", "mcpu": "no-such-cpu", "num-cores": 2}
    (database / RECORDS_FILE).write_text("\n".join(map(json.dumps, rows)))
    with pytest.raises(SpaceError, match="no-such-cpu"):
        read_recorded(database)


def test_the_database_may_be_named_by_one_of_its_files(database: Path) -> None:
    assert load_recorded(database / RECORDS_FILE)[0].n_candidates == len(lines(database))


def test_what_is_no_database(tmp_path: Path, database: Path) -> None:
    with pytest.raises(ConfigError, match="no such folder"):
        load_recorded(tmp_path / "nothing")
    (tmp_path / "empty").mkdir()
    with pytest.raises(ConfigError, match=r"no database_workload\.json and no database_tuning"):
        load_recorded(tmp_path / "empty")
    (database / RECORDS_FILE).write_text("")
    with pytest.raises(ConfigError, match="holds no tuning record that can be read; got no record"):
        load_recorded(database)
    (database / RECORDS_FILE).write_text("nonsense\n")
    with pytest.raises(ConfigError, match=r"line 1 of database_tuning_record\.json is no JSON"):
        load_recorded(database)


@pytest.mark.skipif(sys.platform == "win32", reason="permissions are another matter there")
def test_a_file_that_may_not_be_read(database: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> str:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(ConfigError, match="cannot be read; got Permission denied"):
        load_recorded(database)
