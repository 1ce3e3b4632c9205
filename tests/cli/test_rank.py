"""`prune-engine rank` and `prune-engine tune --replay` on databases that the tests made."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from kits.recordings import RECORDS_FILE, gemm_database, lines, schedules, write_database

#: The device that the recordings are taken to be of, and the option that lets its rules not matter.
DEVICE, ALL = ("--profile", "amd-epyc-9654"), ("--block", "rules")
#: A device of a table, and one to learn from.
ADAPTED = ("--device", "A100", "--source", "NoName")
Inside = Callable[..., "tuple[int, str, str]"]

TABLE = "workload\tconfig\tA100\tNoName\n" + "".join(
    f"\tblock={2**i};tile={t}\t{abs(i - 5) + t}\t{abs(i - 6) + t}\n" for i in range(10) for t in range(1, 5)
)


@pytest.fixture
def database(tmp_path: Path) -> Path:
    return gemm_database(tmp_path / "gemm")


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "conv.tsv"
    path.write_text(TABLE)
    (tmp_path / "few.tsv").write_text("workload\tconfig\tA100\tNoName\n\ta=1\t1\t2\n\ta=2\t2\t1\n")
    return path


def record_of(inside: Inside, *arguments: object) -> dict[str, Any]:
    code, out, err = inside("rank", *arguments, "--json")
    assert code == 0, err
    record: dict[str, Any] = json.loads(out)
    return record


def test_a_database_is_ranked_by_the_draft(inside: Inside, database: Path) -> None:
    record = record_of(inside, database, *DEVICE, "--threads", 2)
    (row,) = record["workloads"]
    some = schedules()
    assert (row["n_candidates"], row["n_failed"], row["n_unmatched"]) == (len(some.secs), 0, 0)
    assert row["best_secs"] == min(some.secs)
    assert list(row["found"]) == ["1", "4", "8", "16", "64"]
    assert sorted(row["found"].values()) == list(row["found"].values())
    assert row["found"]["64"] == 1.0
    assert row["n_measured"] == 0


@pytest.mark.parametrize("sampling", ["loop", "random"])
def test_a_database_is_ranked_after_samples(inside: Inside, database: Path, sampling: str) -> None:
    arguments = (database, "--samples", 16, "--sampling", sampling, "--seed", 3, *DEVICE, *ALL)
    first, second = (record_of(inside, *arguments)["workloads"][0] for _ in range(2))
    assert first["n_measured"] == 16
    assert first["found_by_samples"] is not None
    for row in (first, second):
        del row["learn_secs"], row["score_secs"]
    assert first == second


def test_fewer_samples_than_asked_for_are_told_of(inside: Inside, database: Path) -> None:
    n = len(schedules().secs)
    code, out, err = inside("rank", database, "--samples", n + 5, *DEVICE, *ALL, "--json")
    assert code == 0
    assert json.loads(out)["workloads"][0]["n_measured"] == n
    assert f"warning: gemm: {n} of {n + 5} candidates were measured, there are no more that the rules allow" in err
    out = inside("rank", database, "--samples", n + 5, *DEVICE, *ALL)[1]
    assert f"; {n} candidates measured before, as the engine chooses them" in out


def test_a_row_for_each_workload(inside: Inside, tmp_path: Path) -> None:
    kernels = schedules("softmax:8x16", 3), schedules()
    write_database(tmp_path / "two", *[(one, [[s] for s in one.secs]) for one in kernels])
    code, out, err = inside("rank", tmp_path / "two", *DEVICE)
    assert code == 0, err
    rows = out.splitlines()
    assert [row.split()[0] for row in rows[1:5]] == ["workload", "two/1", "two/2", "geometric"]
    assert "two/2 matmul" in out


def test_what_cannot_be_used_is_told_of(inside: Inside, database: Path) -> None:
    rows = lines(database)
    other = json.loads(rows[1])
    other[1][0][0][2][2] = ["of another tuner"]
    (database / RECORDS_FILE).write_text("\n".join([*rows, "[0,", json.dumps(other)]))
    code, out, err = inside("rank", database, *DEVICE, "--json")
    assert code == 0
    assert json.loads(out)["workloads"][0]["n_unmatched"] == 1
    assert f"warning: line {len(rows) + 1} of {RECORDS_FILE} is no JSON" in err
    assert "1 records are no candidates of its space: 1 times its structure is no sketch" in err


def test_a_plugin_that_fails_is_told_of(inside: Inside, database: Path, tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text("1 / 0")
    code, _, err = inside("rank", database, *DEVICE, "--plugin", tmp_path / "broken.py")
    assert code == 0
    assert "warning: plugin broken" in err
    assert "division by zero" in err


def test_a_space_where_all_failed_is_a_row_that_says_so(inside: Inside, tmp_path: Path) -> None:
    write_database(tmp_path / "two", (schedules("softmax:8x16", 3), [[1e10]] * 3), (schedules(), [[1e-3]] * 3))
    code, out, _ = inside("rank", tmp_path / "two", *DEVICE)
    assert code == 0
    assert out.splitlines()[-1].endswith("T_softmax_norm: no candidate of it ran; got 3 recorded.")


@pytest.mark.parametrize("options", [(), ("--json",), ("--samples", 3)])
def test_a_recording_where_all_failed_is_an_error(inside: Inside, tmp_path: Path, options: tuple[object]) -> None:
    write_database(tmp_path / "dead", (schedules(), [[1e10]] * 3))
    code, out, err = inside("rank", tmp_path / "dead", *DEVICE, *options)
    assert (code, out) == (2, "")
    assert "dead: no candidate of any workload ran; got dead: 3 recorded; expected a recording with at" in err


@pytest.mark.parametrize("arguments", [("rank", "two"), ("tune", "--replay", "two", "-q", "--trials", 30)])
def test_on_a_narrow_terminal_no_line_is_too_long(
    inside: Inside, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[object]
) -> None:
    import sys

    from rich.console import Console

    def narrow() -> Console:
        return Console(file=sys.stdout, width=80, height=25, force_terminal=True, highlight=False, no_color=True)

    monkeypatch.setattr("prune_engine.cli.rank_tables.result_console", narrow)
    monkeypatch.setattr("prune_engine.cli.console.result_console", narrow)
    kernels = schedules("softmax:8x16", 3), schedules()
    write_database(tmp_path / "two", *[(one, [[s] for s in one.secs]) for one in kernels])
    code, out, err = inside(*arguments, *DEVICE)
    assert code == 0, err
    lines = re.sub(r"\x1b\[[0-9;]*m", "", out).splitlines()[1:]
    # The last line has a command to copy, which only the terminal may break.
    lines = [line for line in lines if not line.startswith("written to ")]
    assert max(map(len, lines)) <= 80
    names = [line.split()[0] for line in lines if line]
    assert names.count("two/1") == names.count("two/2") == 2, "of each a row that says what was recorded and found"
    assert "64" in out or "16" in out


def test_a_table_needs_a_device_and_has_profiles(inside: Inside, table: Path) -> None:
    record = record_of(inside, table, "--device", "a100", "--samples", 16)
    (row,) = record["workloads"]
    assert (row["device"], row["profile"], row["n_candidates"]) == ("A100", "nvidia-a100-sxm-80gb", 40)
    code, out, err = inside("rank", table, "--device", "noname", "--json")
    assert code == 0
    assert json.loads(out)["workloads"][0]["profile"] == "noname"
    assert "warning: no profile describes NoName: its numbers count as unknown" in err


def test_the_rows_of_a_source_are_known_before(inside: Inside, table: Path) -> None:
    record = record_of(inside, table, "--device", "A100", "--source", "NoName", "--samples", 16)
    assert record["source"] == "NoName"
    code, out, _ = inside("rank", table, "--device", "A100", "--source", "NoName", "--samples", 16)
    assert code == 0
    assert "the verifier knew NoName; 16 candidates measured before, as the engine chooses them" in out


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["conv.tsv"], "a table has several devices; expected --device A100 or NoName"),
        (["conv.tsv", "--device", "H100"], "got 'H100'; expected one of: A100, NoName"),
        (["conv.tsv", "--device", "A100", "--source", "x"], "got 'x'; expected one of: A100, NoName"),
        (["conv.tsv", "--device", "A100", "--source", "NoName", "--verifier", "none"], "there is no verifier"),
        (
            ["conv.tsv", *ADAPTED, "--prior", "x"],
            "got --source NoName and --prior x",
        ),
        (
            ["conv.tsv", *ADAPTED, "--verifier", "lightgbm.decisions"],
            "error: --source NoName: verifier lightgbm.decisions starts from no file",
        ),
        (
            ["gemm", *DEVICE, "--prior", "x", "--verifier", "none"],
            "error: x: there is no verifier to start from it",
        ),
        (
            ["few.tsv", *ADAPTED],
            "error: --source NoName: this prior teaches nothing",
        ),
        (["gemm", "--source", "A100"], "--source: needs a table of kernels"),
        (["gemm", *DEVICE, "--prior", "no.such"], "error: no.such: not a model of this verifier"),
        (["gemm", *DEVICE, "--prior", "no.such", "--samples", "3"], "error: --prior: the prior cannot be read"),
        (["gemm", "--verifier", "no.such"], "no such strategy"),
        (["gemm", *DEVICE, "--threads", "97"], "has fewer cores than threads"),
        (
            ["gemm", "--profile", "a100"],
            "a GPU; expected a processor. Name the device",
        ),
        (["gemm", *DEVICE, "--sampling", "random"], "--sampling: without effect without --samples. Leave it out."),
        (["conv.tsv", "--device", "A100", "--threads", "2"], "--threads: without effect on a table of kernels"),
        (["nothing"], "is no MetaSchedule database; got no such folder"),
        (["nothing.tsv", "--device", "A100"], "cannot be read; got No such file"),
        ([f"gemm/{RECORDS_FILE}", "--device", "A100"], "is no table of kernels"),
    ],
)
def test_bad_input(inside: Inside, database: Path, table: Path, arguments: list[str], says: str) -> None:
    code, out, err = inside("rank", *arguments)
    assert (code, out) == (2, "")
    assert says in err
    assert err.splitlines()[-1].startswith("error: ")


class TestReplay:
    def test_the_search_finds_the_best_of_the_recording(self, inside: Inside, database: Path) -> None:
        arguments = ("tune", "--replay", database, *DEVICE, *ALL, "--threads", 2, "--json", "-q")
        code, out, err = inside(*arguments)
        assert code == 0, err
        record = json.loads(out)
        (task,) = record["tasks"]
        assert task["name"] == "gemm"
        assert task["n_trials"] == len(task["curve"]) == len(task["run_secs"]) == sum(task["batch_sizes"])
        assert task["found"] == task["curve"][-1] == 1.0
        assert record["stop_reason"] == "exhausted"
        again = json.loads(inside(*arguments)[1])
        assert again["tasks"] == record["tasks"]

    def test_a_budget_and_a_table(self, inside: Inside, database: Path) -> None:
        code, out, _ = inside("tune", "--replay", database, *DEVICE, *ALL, "--trials", 9, "-q")
        assert code == 0
        heading, header, row, written = out.splitlines()
        assert written.startswith(
            "written to tuned/gemm-replay; try: prune-engine explain 1 best --out tuned/gemm-"
        )
        assert "profile amd-epyc-9654" in heading
        assert header.split()[-6:] == ["trials", "stopped", "by", "4", "8", "all"]
        assert row.split()[-5:-3] == ["9", "trials"]

    def test_a_workload_without_candidates_is_left_out(self, inside: Inside, tmp_path: Path) -> None:
        kernels = (schedules("softmax:8x16", 3), [[1e10]] * 3), (schedules(), [[s] for s in schedules().secs])
        write_database(tmp_path / "two", *kernels)
        arguments = ("tune", "--replay", tmp_path / "two", *DEVICE, *ALL, "--trials", 3)
        code, out, err = inside(*arguments)
        assert code == 0
        assert "two/2 matmul" in out
        assert "two/1" not in out
        assert "T_softmax_norm: no candidate of it ran, 3 recorded" in err
        write_database(tmp_path / "dead", kernels[0])
        code, _, err = inside("tune", "--replay", tmp_path / "dead", *DEVICE, "-q")
        assert code == 2
        assert "no candidate of any workload ran" in err

    def test_what_it_does_without_is_told_of(self, inside: Inside, database: Path, tmp_path: Path) -> None:
        (tmp_path / "broken.py").write_text("1 / 0")
        other = json.loads(lines(database)[1])
        other[1][0][0][2][2] = ["of another tuner"]
        (database / RECORDS_FILE).write_text("\n".join([*lines(database), json.dumps(other)]))
        broken = ("--plugin", tmp_path / "broken.py")
        code, out, err = inside("tune", "--replay", database, *DEVICE, "--trials", 3, *broken)
        assert code == 0
        assert "warning: gemm: 1 records are no candidates of its space" in err
        assert "warning: plugin broken" in out
        out = inside("tune", "--replay", database, *DEVICE, "--trials", 3, "--json", "-q", *broken)[1]
        assert "division by zero" in json.loads(out)["failed_plugins"]["broken"]

    def test_earlier_runs_on_the_store_are_told_of(self, inside: Inside, database: Path, tmp_path: Path) -> None:
        arguments = ("tune", "--replay", database, *DEVICE, "--store", tmp_path / "s.sqlite3", "-q", "--trials")
        assert "earlier runs" not in inside(*arguments, 3)[1]
        assert "; not counting 3 trials of earlier runs on the store" in inside(*arguments, 5)[1]

    def test_nothing_is_written_if_nobody_wants_it(self, inside: Inside, database: Path, tmp_path: Path) -> None:
        before = sorted(tmp_path.rglob("*"))
        assert inside("tune", "--replay", database, *DEVICE, "--trials", 3, "-q", "--no-decisions")[0] == 0
        assert sorted(tmp_path.rglob("*")) == before

    def test_decisions_can_be_explained(self, inside: Inside, database: Path, tmp_path: Path) -> None:
        code, out, err = inside("tune", "--replay", database, *DEVICE, *ALL, "--trials", 9, "--json", "-q")
        assert code == 0, err
        (task,) = json.loads(out)["tasks"]
        code, out, err = inside("explain", "1", "best", "--json")  # looks into ./tuned
        assert code == 0, err
        told = json.loads(out)
        assert told["decisions"][-1]["measured"]["latency_secs"] == min(s for s in task["run_secs"] if s)
        assert "9 were tried" in inside("explain", "gemm", "--out", "tuned/gemm-replay")[1]
        code, _, err = inside("report", "tuned/gemm-replay")
        assert code == 6
        assert (
            "is the result of a replay that kept no measurements. Repeat it with --report, or with --store" in err
        )

    @pytest.mark.parametrize(("given", "file"), [((), "tuned/gemm-replay/report.html"), (("p.html",), "p.html")])
    def test_a_report_of_it(
        self, inside: Inside, database: Path, tmp_path: Path, given: tuple[str, ...], file: str
    ) -> None:
        arguments = ("tune", "--replay", database, *DEVICE, *ALL, "--trials", 9, "-q", "--report", *given)
        code, out, err = inside(*arguments)
        assert code == 0, err
        assert out.splitlines()[-1] == f"the whole run as a page to read: {file}"
        assert (tmp_path / file).read_text(encoding="utf-8").startswith("<!DOCTYPE html>")

    @pytest.mark.parametrize(
        ("arguments", "says"),
        [
            (["tune"], "got neither a model nor --replay"),
            (["tune", "model.onnx", "--replay", "gemm"], "got a model and --replay"),
            (["tune", "--replay", "nothing"], "is no MetaSchedule database"),
            (["tune", "--replay", "gemm", "--profile", "a100"], "a GPU; expected a processor. Name the"),
            (
                ["tune", "--replay", "gemm", "--explorer", "explore.uniform"],
                "--explorer: without effect with",
            ),
            (
                ["tune", "--replay", "gemm", "--transfer", "--flush-cache"],
                "--flush-cache, --transfer: without effect",
            ),
            (
                ["tune", "--replay", "gemm", *DEVICE, "--prior", "no.such"],
                "error: --prior: the prior cannot be read",
            ),
        ],
    )
    def test_bad_input(self, inside: Inside, database: Path, arguments: list[str], says: str) -> None:
        code, _, err = inside(*arguments, "-q")
        assert code == 2
        assert says in err
