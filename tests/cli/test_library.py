"""`prune-engine library`: what is listed, taken in, written and removed."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from kits.recordings import RECORDS_FILE, gemm_database

from prune_engine.cli.library_tables import grouped, target_words, to_remove
from prune_engine.hardware.host import cpu_model
from prune_engine.library import KernelClass, LibraryEntry, LibraryQuery
from prune_engine.library.files import write_library
from prune_engine.store import open_store
from prune_engine.testing.store_samples import store_entry

Inside = Callable[..., "tuple[int, str, str]"]

AXES = (("pad.i", 1), ("conv.n", 1), ("conv.f", 64), ("conv.k", 3))


def entry(secs: float = 1e-3, *, strict: str = "s", sketch: str = "x", **changed: object) -> LibraryEntry:
    changed.setdefault("target", '{"kind":"llvm","mcpu":"cascadelake"}')
    return store_entry(
        (secs,), kernel_class=KernelClass(strict, "a", "conv2d + relu", AXES), sketch_id=sketch, **changed
    )


@pytest.fixture
def fill(tmp_path: Path) -> Callable[..., str]:
    """Makes a store with these entries; returns its name."""

    def make(*entries: LibraryEntry) -> str:
        store = open_store(str(tmp_path / "library.sqlite3"))
        store.add_entries(entries)
        store.close()
        return str(tmp_path / "library.sqlite3")

    return make


def left(store: str) -> list[LibraryEntry]:
    opened = open_store(store)
    found = list(opened.find(LibraryQuery()))
    opened.close()
    return found


class TestList:
    def test_kernels_by_model_and_device(self, inside: Inside, fill) -> None:
        one = entry(2e-3, flop_count=10**9, default_secs=3e-3)
        other = replace(one, sketch_id="y", entry_id="", run_secs=(1e-3,))
        store = fill(one, other, entry(5e-3, strict="t"), entry(model="second", strict="u"))
        code, out, err = inside("library", "list", "--store", store)
        assert (code, err) == (0, "")
        lines = out.splitlines()
        assert lines[0] == "model-1 on contract-cpu, 2 threads, llvm cascadelake"
        assert lines[1].split() == ["kernel", "extents", "n", "ms", "GFLOP/s", "gain"]
        assert lines[2].split()[:6] == ["conv2d", "+", "relu", "1x64x3", "1", "5"]
        assert lines[3].split() == ["conv2d", "+", "relu", "1x64x3", "2", "1", "1000", "3x"]
        assert lines[5].startswith("second on")
        assert lines[-1] == f"3 kernels, 4 schedules in {store}"

    def test_as_json(self, inside: Inside, fill) -> None:
        store = fill(entry(2e-3), entry(1e-3, sketch="y", peak_flop_per_sec=None))
        _, out, _ = inside("library", "list", "--store", store, "--json")
        (kernel,) = json.loads(out)
        assert (kernel["label"], kernel["axes"], kernel["model"]) == ("conv2d + relu", dict(AXES), "model-1")
        assert [one["latency_secs"] for one in kernel["entries"]] == [1e-3, 2e-3]
        assert [one["efficiency"] is None for one in kernel["entries"]] == [True, False]
        assert "trace_json" not in out

    def test_of_one_model_or_device(self, inside: Inside, fill) -> None:
        store = fill(entry(), entry(model="m2", strict="t"), entry(device_name="d2"))
        for option, value in (("--model", "m2"), ("--device", "d2")):
            _, out, _ = inside("library", "list", "--store", store, option, value, "--json")
            assert len(json.loads(out)) == 1
        _, out, _ = inside("library", "list", "--store", store, "--model", "none")
        assert out.startswith("nothing in")

    def test_a_file_and_what_is_shipped(self, inside: Inside, tmp_path: Path) -> None:
        write_library(tmp_path / "x.gz", [entry(), entry(model="m2", strict="t")])
        _, out, _ = inside("library", "list", "x.gz", "--model", "m2", "--json")
        assert [kernel["model"] for kernel in json.loads(out)] == ["m2"]
        code, out, _ = inside("library", "list", "--builtin", "--json")
        assert code == 0
        assert {one["origin"] for kernel in json.loads(out) for one in kernel["entries"]} <= {"builtin"}
        code, _, err = inside("library", "list", "x.gz", "--builtin")
        assert (code, "two libraries to list" in err) == (2, True)

    def test_a_damaged_entry_is_told_and_the_others_listed(self, inside: Inside, fill) -> None:
        good, bad = entry(), entry(strict="bad")
        store = fill(good, bad)
        with sqlite3.connect(store) as connection:
            connection.execute("UPDATE library SET entry = 'x' WHERE entry_id = ?", [bad.entry_id])
        code, out, err = inside("library", "list", "--store", store)
        assert (code, "1 kernel, 1 schedule" in out) == (0, True)
        assert err.startswith("warning: ")
        assert f"--entry {bad.entry_id}` removes them" in err
        _, out, _ = inside("library", "prune", "--entry", bad.entry_id, "--store", store)
        assert out == f"1 schedule removed from {store}\n"
        assert inside("library", "list", "--store", store)[2] == ""

    def test_names_give_way_to_numbers_in_80_columns(self, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
        import io
        import sys

        from prune_engine.cli.library_tables import print_kernels

        class Terminal(io.StringIO):
            def isatty(self) -> bool:
                return True

        monkeypatch.setenv("COLUMNS", "80")
        monkeypatch.setenv("TERM", "dumb")
        label = "conv2d_nchw + add + multiply + add + maximum + minimum + multiply + divide"
        axes = tuple((f"conv.{k}", extent) for k, extent in enumerate((1, 1280, 112, 112, 1280, 7, 7)))
        wide = store_entry((0.123456,), kernel_class=KernelClass("s", "a", label, axes), default_secs=1.0)
        terminal = Terminal()
        monkeypatch.setattr(sys, "stdout", terminal)
        print_kernels(grouped([wide]), "here")
        lines = terminal.getvalue().splitlines()
        assert max(map(len, lines[1:])) <= 80
        assert "1x1280x112x112x1280x7x7" in lines[2]
        assert "…" in lines[2]


class TestImportAndExport:
    def test_a_database(self, inside: Inside, tmp_path: Path) -> None:
        gemm_database(tmp_path / "gemm")
        code, out, err = inside("library", "import", "gemm", "--store", "s.sqlite3", "--keep", 2)
        assert (code, err) == (0, "")
        assert out.splitlines()[0].startswith("2 schedules of 1 kernel from 24 records: 2 new in ")
        assert "2 for llvm, measured on llvm with 2 threads; of use to tasks for llvm only" in out
        _, out, _ = inside(
            "library", "import", "gemm", "--store", "s.sqlite3", "--json", "--device", "board", "--threads", 7
        )
        record = json.loads(out)
        assert (record["n_entries"], record["n_new"]) == (3, 3)
        assert [(device["device_name"], device["n_threads"]) for device in record["devices"]] == [("board", 7)]
        assert (
            inside("library", "import", "gemm", "--store", "s.sqlite3")[1]
            .splitlines()[0]
            .endswith(f": 1 new in {tmp_path / 's.sqlite3'}")
        )

    def test_there_and_back(self, inside: Inside, fill, tmp_path: Path) -> None:
        store = fill(entry(), entry(model="m2", strict="t", device_name=cpu_model()))
        code, _, err = inside("library", "export", "all.jsonl.gz", "--store", store)
        assert (code, err) == (0, "2 schedules written to all.jsonl.gz\n")
        inside("library", "export", "m2.jsonl", "--model", "m2", "--store", store)
        code, out, _ = inside("library", "import", "m2.jsonl", "--store", "other.sqlite3")
        assert code == 0
        assert "1 schedule of 1 kernel from 1 record: 1 new" in out
        assert "of use to" not in out
        inside("library", "import", "all.jsonl.gz", "--store", "other.sqlite3")
        back = left(str(tmp_path / "other.sqlite3"))
        assert {one.entry_id for one in back} == {one.entry_id for one in left(store)}
        assert {one.origin.value for one in back} == {"imported"}

    def test_entries_for_another_kind_of_device_say_so(self, inside: Inside, tmp_path: Path) -> None:
        write_library(tmp_path / "x", [entry(target='{"kind":"cuda","arch":"sm_80"}', device_name="A100")])
        _, out, _ = inside("library", "import", "x", "--store", "s.sqlite3")
        assert "1 for cuda sm_80, measured on A100 with 2 threads; of use to tasks for cuda sm_80 only" in out

    def test_options_of_databases_say_nothing_of_files(self, inside: Inside, tmp_path: Path) -> None:
        write_library(tmp_path / "x", [entry()])
        code, _, err = inside("library", "import", "x", "--device", "board", "--keep", 1)
        assert code == 2
        assert "--keep, --device: without effect on a library file" in err

    def test_bad_lines_are_told_and_the_others_taken(self, inside: Inside, tmp_path: Path) -> None:
        write_library(tmp_path / "x", [entry()])
        (tmp_path / "x").write_text((tmp_path / "x").read_text() + "half of\n")
        code, out, err = inside("library", "import", "x", "--store", "s.sqlite3")
        assert (code, "1 schedule of 1 kernel" in out) == (0, True)
        assert err.startswith("warning: entry 2 of x cannot be read (the text: Invalid JSON")

    @pytest.mark.parametrize(
        ("name", "message"),
        [
            pytest.param("nothing", "nothing: cannot be read; got No such file or directory", id="no file"),
            pytest.param("empty", "empty: is no MetaSchedule database", id="folder without a database"),
            pytest.param("notes.txt", "notes.txt: holds no entry of a library", id="another file"),
        ],
    )
    def test_what_is_no_library(self, inside: Inside, tmp_path: Path, name: str, message: str) -> None:
        (tmp_path / "empty").mkdir()
        (tmp_path / "notes.txt").write_text("hello")
        code, out, err = inside("library", "import", name, "--store", "s.sqlite3")
        assert (code, out) == (2, "")
        assert message in err
        assert not (tmp_path / "s.sqlite3").exists()

    def test_traces_of_an_old_version_are_told_and_refused(self, inside: Inside, tmp_path: Path) -> None:
        """Instructions had other names: no structure of today's."""
        records = gemm_database(tmp_path / "gemm") / RECORDS_FILE
        records.write_text(records.read_text().replace('"GetSBlock"', '"GetBlock"'))
        code, out, err = inside("library", "import", "gemm", "--store", "s.sqlite3")
        assert (code, out) == (2, "")
        assert "24 times its structure is no sketch of the generated space" in err
        assert "gemm: holds no schedule that can be used here; got 24 records" in err

    def test_nothing_to_export(self, inside: Inside, fill) -> None:
        code, _, err = inside("library", "export", "x", "--store", fill(entry()), "--model", "m2")
        assert (code, "no entry of the library to export" in err) == (2, True)

    def test_a_place_that_cannot_be_written_is_told_first(self, inside: Inside) -> None:
        code, _, err = inside("library", "export", "no/such/folder/x", "--store", "s.sqlite3")
        assert (code, "cannot be written" in err) == (5, True)


class TestPrune:
    @pytest.mark.parametrize(
        ("options", "kept"),
        [
            pytest.param(["--older-than", 30], {"young", "fast"}, id="old"),
            pytest.param(["--keep", 1], {"fast", "old"}, id="all but the fastest of each device"),
            pytest.param(["--keep", 1, "--older-than", 30], {"fast"}, id="both"),
            pytest.param(["--device", "d2"], {"young", "fast"}, id="a device"),
            pytest.param(["--device", "contract-cpu", "--keep", 1], {"fast", "old"}, id="the rest of a device"),
            pytest.param(["--model", "m2"], {"young", "fast", "old"}, id="a model"),
            pytest.param(["--model", "model-1"], set(), id="all of a model"),
        ],
    )
    def test_removes_what_is_named(self, inside: Inside, fill, options: list[object], kept: set[str]) -> None:
        now = time.time()
        store = fill(
            entry(2e-3, sketch="young", measured_at=now),
            entry(1e-3, sketch="fast", measured_at=now),
            entry(3e-3, sketch="old", measured_at=now - 40 * 86_400, device_name="d2"),
        )
        _, out, _ = inside("library", "prune", *options, "--store", store, "--dry-run", "--json")
        assert json.loads(out) == {"store": store, "n_removed": 3 - len(kept), "is_dry_run": True}
        assert len(left(store)) == 3
        _, out, _ = inside("library", "prune", *options, "--store", store, "--json")
        assert json.loads(out)["n_removed"] == 3 - len(kept)
        assert {one.sketch_id for one in left(store)} == kept

    def test_says_nothing_about_what_goes(self, inside: Inside, fill) -> None:
        store = fill(entry())
        code, _, err = inside("library", "prune", "--store", store)
        assert (code, "nothing says what to remove" in err) == (2, True)
        assert len(left(store)) == 1

    def test_the_fastest_of_a_kernel_stay_whatever_model_it_is_of(self) -> None:
        entries = [entry(1e-3, sketch="a"), entry(2e-3, sketch="b", model="m2"), entry(3e-3, strict="t")]
        assert [one.sketch_id for one in to_remove(entries, before=None, keep=1)] == ["b"]


@pytest.mark.parametrize(
    ("target", "words"),
    [('{"kind":"llvm","mcpu":"x"}', "llvm x"), ("llvm -num-cores 2", "llvm -num-cores 2"), ("[1]", "[1]")],
)
def test_targets_in_words(target: str, words: str) -> None:
    assert target_words(target) == words
