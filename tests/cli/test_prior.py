"""`prune-engine prior` on recordings that the tests made: what is learnt, told and written."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from kits.recordings import RECORDS_FILE, schedules, write_database
from kits.stores import DEVICE, add_run

from prune_engine.cli.prior import _ROWS
from prune_engine.hardware.registry import ProfileRegistry
from prune_engine.hardware.slice import with_threads
from prune_engine.recorded.priors import N_ROWS
from prune_engine.store.sql import SqlStore

PROFILE = ("--profile", "amd-epyc-9654")
Inside = Callable[..., "tuple[int, str, str]"]

TABLE = "workload\tconfig\tA100\tNoName\n" + "".join(
    f"\tblock={2**i};tile={t}\t{abs(i - 5) + t}\t{abs(i - 6) + t}\n" for i in range(10) for t in range(1, 5)
)


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What there is to learn from: a database, one in a result folder, a table."""
    folder, some = tmp_path_factory.mktemp("sources"), schedules()
    write_database(folder / "gemm", (some, [[secs] for secs in some.secs]))
    dead = schedules("softmax:8x16", 3), [[1e10]] * 3
    write_database(folder / "tuned" / "two" / "database", dead, (some, [[1]] * 4))
    (folder / "conv.tsv").write_text(TABLE)
    return folder


@pytest.fixture
def folder(sources: Path, tmp_path: Path) -> Path:
    """A copy of all that."""
    return Path(shutil.copytree(sources, tmp_path, dirs_exist_ok=True))


def make_store(path: Path, *devices: tuple[str, int]) -> None:
    store = SqlStore(str(path))
    profile = with_threads(ProfileRegistry().resolve("amd-epyc-9654"), 2)
    for device, n_threads in devices:
        manifest = {
            "model": "gemm:32x16x16",
            "profile": profile.name,
            "profile_content": profile.model_dump(mode="json", exclude_unset=True),
        }
        add_run(store, schedules(), device=device, n_threads=n_threads, failed=(1,), manifest=manifest)
    store.close()


def record_of(inside: Inside, *arguments: object) -> dict[str, Any]:
    code, out, err = inside("prior", *arguments, "--json")
    assert code == 0, err
    record: dict[str, Any] = json.loads(out)
    return record


def test_a_recording_becomes_a_prior_that_changes_an_order(inside: Inside, folder: Path) -> None:
    record = record_of(inside, "gemm", *PROFILE, "--out", "gemm.model")
    n = len(schedules().secs)
    assert record["n_bytes"] == (folder / "gemm.model").stat().st_size
    assert (record["n_workloads"], record["n_rows"], record["verifier"]) == (1, n, "lightgbm.residual")
    assert (record["profile"], record["n_threads"]) == ("amd-epyc-9654", 2)
    other = schedules("gemm:16x16x32")
    write_database(folder / "other", (other, [[secs] for secs in other.secs]))
    found = {}
    for prior in ("none", "gemm.model"):
        code, out, err = inside("rank", "other", *PROFILE, "--prior", prior, "--json")
        assert code == 0, err
        (found[prior],) = json.loads(out)["workloads"]
    assert found["none"]["ranked_by"] == "draft.symbols"
    assert found["gemm.model"]["ranked_by"] == "lightgbm.residual"
    assert found["none"]["correlation"] != found["gemm.model"]["correlation"]


def test_the_default_is_that_of_the_function() -> None:
    assert _ROWS == N_ROWS, "the command must not import numpy to tell it"


def test_several_sources_and_what_is_left_out(inside: Inside, folder: Path) -> None:
    code, out, err = inside("prior", "gemm", "tuned/two", *PROFILE, "--out", "both.model")
    assert code == 0, err
    first, header, row, *others, last = out.splitlines()
    n = len(schedules().secs)
    assert (
        first
        == f"lightgbm.residual learnt {n} candidates of 1 workload as measured on amd-epyc-9654 with 2 threads"
    )
    assert header.split() == ["workload", "recorded", "failed", "learnt"]
    assert row.split() == ["gemm", str(n), "0", str(n)]
    assert others == [
        "left out: two/1 T_softmax_maxelem+T_softmax_exp+T_softmax_expsum+T_softmax_norm: no candidate of it ran",
        "left out: two/2 matmul: all of it was recorded in an earlier source, too",
    ]
    assert last.startswith("written to both.model (")
    assert last.endswith("; try: prune-engine tune model.onnx --prior both.model")


def test_what_is_asked_for_and_what_cannot_be_read(inside: Inside, folder: Path) -> None:
    with (folder / "gemm" / RECORDS_FILE).open("a") as file:
        file.write("[0,")
    arguments = ("gemm", *PROFILE, "--threads", 4, "--rows", 16, "--seed", 2, "--out", "a.model", "--json")
    code, out, err = inside("prior", *arguments)
    assert code == 0, err
    record = json.loads(out)
    assert (record["n_threads"], record["n_rows"], record["max_rows"], record["seed"]) == (4, 16, 16, 2)
    (remark,) = record["remarks"]
    assert remark in err
    assert "is no JSON" in remark


def test_a_device_of_a_table(inside: Inside, folder: Path) -> None:
    record = record_of(inside, "conv.tsv", "--device", "a100", "--out", "a.model")
    assert (record["profile"], record["n_rows"]) == ("nvidia-a100-sxm-80gb", 40)
    code, out, err = inside("rank", "conv.tsv", "--device", "NoName", "--prior", "a.model", "--json")
    assert code == 0, err
    assert json.loads(out)["workloads"][0]["ranked_by"] == "lightgbm.residual"


class TestStores:
    def test_the_runs_say_all(self, inside: Inside, folder: Path) -> None:
        make_store(folder / "s.sqlite3", (DEVICE, 2))
        record = record_of(inside, "s.sqlite3", "--out", "a.model")
        (row,) = record["workloads"]
        assert (row["name"], row["n_failed"], row["n_rows"]) == ("gemm:32x16x16", 1, len(schedules().secs))
        assert (record["profile"], record["n_threads"]) == ("amd-epyc-9654", 2)

    def test_one_of_several_devices(self, inside: Inside, folder: Path) -> None:
        make_store(folder / "s.sqlite3", (DEVICE, 2), ("Other", 2), (DEVICE, 1))
        code, _, err = inside("prior", "s.sqlite3", "--out", "a.model")
        assert code == 2
        assert (
            "got Acme 9000 with 1 thread; Other with 2 threads; Acme 9000 with 2 threads; expected one of them"
            in err
        )
        code, _, err = inside("prior", "s.sqlite3", "--device", "acme-9000", "--threads", 8, "--out", "a.model")
        assert code == 2
        assert "the store has none of this device; got acme-9000, 8 threads; expected one of: Acme 9000" in err
        assert not (folder / "a.model").exists()
        record = record_of(inside, "s.sqlite3", "--device", "acme-9000", "--threads", 2, "--out", "a.model")
        assert record["n_workloads"] == 1

    def test_the_program_may_be_named(self, inside: Inside, folder: Path) -> None:
        store = SqlStore(str(folder / "s.sqlite3"))
        add_run(store, schedules())
        store.close()
        code, _, err = inside("prior", "s.sqlite3", *PROFILE, "--out", "a.model")
        assert code == 2
        assert "its program is in none of the models read" in err
        assert "nothing to learn a prior from; got none that can be read" in err
        arguments = ("s.sqlite3", *PROFILE, "--workload", "gemm:32x16x16", "--out", "a.model")
        assert record_of(inside, *arguments)["n_workloads"] == 1
        code, _, err = inside("prior", "s.sqlite3", "--workload", "gemm:32x16x16", "--out", "a.model")
        assert code == 2
        assert "does not tell the profile of its device" in err


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["gemm"], 2, "gemm: databases do not say what they were measured on; expected --profile"),
        (["nothing", *PROFILE], 2, "nothing: there is no such file or folder; expected a MetaSchedule"),
        (["tuned", *PROFILE], 2, "is no MetaSchedule database"),
        (["gemm", "--profile", "no-such"], 2, "no-such"),
        (
            ["gemm", "--profile", "a100"],
            2,
            "error: profile nvidia-a100-sxm-80gb: it describes another kind of device",
        ),
        (["gemm", *PROFILE, "--threads", "97"], 2, "has fewer cores than threads"),
        (["gemm", *PROFILE, "--device", "x"], 2, "--device: without effect on databases"),
        (["gemm", *PROFILE, "--workload", "x"], 2, "--workload: without effect without a store"),
        (["conv.tsv"], 2, "a table has several devices; expected --device A100 or NoName"),
        (["conv.tsv", "--device", "A100", "--threads", "2"], 2, "--threads: without effect on tables"),
        (["gemm", *PROFILE, "--verifier", "none"], 2, "there is no verifier that could know another device"),
        (["gemm", *PROFILE, "--verifier", "lightgbm.decisions"], 2, "starts from no file"),
        (["gemm", *PROFILE, "--out", "no/a.model"], 5, "no/a.model: cannot be written"),
        (["gemm", *PROFILE, "--out", "conv.tsv"], 5, "conv.tsv: holds something else, which is not overwritten"),
        (["gemm", *PROFILE, "--rows", "3"], 2, "--rows"),
        (["sqlite:////no/such.sqlite3"], 4, "there is no store"),
    ],
)
def test_bad_input(inside: Inside, folder: Path, arguments: list[str], code: int, says: str) -> None:
    table = (folder / "conv.tsv").read_bytes()
    out = () if "--out" in arguments else ("--out", "a.model")
    before = sorted(folder.rglob("*"))
    found, printed, err = inside("prior", *arguments, *out)
    assert (found, printed) == (code, ""), err
    assert says in err
    assert sorted(set(folder.rglob("*")) - set(before)) == []
    assert (folder / "conv.tsv").read_bytes() == table


def test_different_devices_or_threads_make_no_prior(inside: Inside, folder: Path) -> None:
    make_store(folder / "t.sqlite3", ("A100", 1))
    code, _, err = inside("prior", "t.sqlite3", "conv.tsv", "--device", "A100", "--out", "a.model")
    assert code == 2
    assert "measured on different devices does not make one prior; got " in err
    assert "conv.tsv: nvidia-a100-sxm-80gb" in err
    code, _, err = inside("prior", "t.sqlite3", "gemm", *PROFILE, "--out", "a.model")
    assert code == 2
    assert "t.sqlite3: 1; gemm: 2; expected one number of threads" in err
