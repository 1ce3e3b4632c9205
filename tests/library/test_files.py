"""Libraries as files: written, read whole, searched line by line, and what is wrong with a file."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from pathlib import Path

import pytest

from prune_engine.config import EngineConfig
from prune_engine.errors import ConfigError, OutputError
from prune_engine.library import KernelClass, LibraryEntry, LibraryQuery, Origin
from prune_engine.library import files as library_files
from prune_engine.library.files import LibraryFile, read_library, write_library
from prune_engine.library.text import entry_of, entry_text
from prune_engine.testing.store_samples import store_entry
from prune_engine.transfers.joined_library import JoinedLibrary, library_of


def entry(name: str, run_secs: float = 1e-3, **changed: object) -> LibraryEntry:
    """An entry of the classes ``strict-NAME`` and ``anchor``."""
    kernel_class = KernelClass(f"strict-{name}", "anchor", "a kernel", (("c.i", 64),))
    return store_entry((run_secs,), kernel_class=kernel_class, **changed)


@pytest.fixture
def entries() -> list[LibraryEntry]:
    return [entry("a", 2e-3), entry("b", 1e-3), entry("a", 5e-4, sketch_id="other", device_name="gpu", model="m")]


def imported(entries: list[LibraryEntry]) -> list[LibraryEntry]:
    return [replace(one, origin=Origin.IMPORTED) for one in entries]


@pytest.mark.parametrize("name", ["library.jsonl", "library.jsonl.gz"])
def test_what_is_written_is_read(tmp_path: Path, entries: list[LibraryEntry], name: str) -> None:
    assert write_library(tmp_path / name, entries, {"device": "here"}) == 3
    contents = read_library(tmp_path / name)
    assert list(contents.entries) == imported(entries)
    assert contents.provenance == {"device": "here"}
    assert contents.remarks == ()
    assert (tmp_path / name).read_bytes().startswith(b"\x1f\x8b") == name.endswith(".gz")
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_the_same_entries_give_the_same_bytes(tmp_path: Path, entries: list[LibraryEntry]) -> None:
    for name in ("a.gz", "b.gz"):
        write_library(tmp_path / name, entries)
    assert (tmp_path / "a.gz").read_bytes() == (tmp_path / "b.gz").read_bytes()


def test_compression_is_told_by_content_not_by_name(tmp_path: Path, entries: list[LibraryEntry]) -> None:
    write_library(tmp_path / "library.gz", entries)
    (tmp_path / "library.gz").rename(tmp_path / "library.jsonl")
    assert len(read_library(tmp_path / "library.jsonl").entries) == 3


def test_an_entry_is_known_by_what_it_holds(tmp_path: Path, entries: list[LibraryEntry]) -> None:
    """Names in files are not believed: a wrong one could replace another entry."""
    text = entry_text(entries[0]).replace(entries[0].entry_id, "0123456789abcdef")
    (tmp_path / "x").write_text(text)
    assert entry_of(text).entry_id == "0123456789abcdef"
    assert read_library(tmp_path / "x").entries[0].entry_id == entries[0].entry_id
    assert LibraryFile(tmp_path / "x").find(LibraryQuery())[0].entry_id == entries[0].entry_id


class TestSearching:
    @pytest.fixture
    def file(self, tmp_path: Path, entries: list[LibraryEntry]) -> LibraryFile:
        write_library(tmp_path / "library.jsonl", entries)
        return LibraryFile(tmp_path / "library.jsonl", Origin.BUILTIN)

    def test_finds_as_a_store_does(self, file: LibraryFile, entries: list[LibraryEntry]) -> None:
        slow, middle, fast = (replace(one, origin=Origin.BUILTIN) for one in entries)
        assert file.find(LibraryQuery()) == [fast, middle, slow]
        assert file.find(LibraryQuery(limit=2)) == [fast, middle]
        assert file.find(LibraryQuery(strict="strict-a")) == [fast, slow]
        assert file.find(LibraryQuery(anchor="anchor", strict="strict-b")) == [middle]
        assert file.find(LibraryQuery(anchor="strict-a")) == []
        assert file.find(LibraryQuery(device_name="gpu")) == [fast]
        assert file.find(LibraryQuery(model="m", n_threads=7)) == []
        assert file.find(LibraryQuery(strict="unknown")) == []

    def test_reads_only_the_class_asked_for(self, file: LibraryFile, monkeypatch: pytest.MonkeyPatch) -> None:
        read = []

        def reading(text: bytes) -> LibraryEntry:
            read.append(text)
            return entry_of(text)

        monkeypatch.setattr(library_files, "entry_of", reading)
        file.find(LibraryQuery(strict="strict-b"))
        file.find(LibraryQuery(strict="strict-b"))
        assert len(read) == 1

    def test_lines_in_another_order_of_fields_are_found_too(self, tmp_path: Path) -> None:
        """Whoever writes JSON may sort it."""
        text = json.dumps(json.loads(entry_text(entry("a"))), sort_keys=True)
        (tmp_path / "sorted").write_text(text)
        assert len(LibraryFile(tmp_path / "sorted").find(LibraryQuery(strict="strict-a"))) == 1

    def test_a_broken_line_is_told_and_passed_over(self, tmp_path: Path) -> None:
        good, bad = entry_text(entry("a")), entry_text(entry("a", sketch_id="b"))[:-9]
        (tmp_path / "x").write_text(f"{bad}\n{good}\nno entry\n")
        file = LibraryFile(tmp_path / "x")
        assert len(file.find(LibraryQuery(strict="strict-a"))) == 1
        assert len(file.find(LibraryQuery())) == 1
        assert sorted(problem.split(" cannot")[0] for problem in file.problems) == [
            "entry 1 of x",
            "entry 3 of x",
        ]

    @pytest.mark.parametrize("content", [None, b"\x1f\x8bno such thing"], ids=["no file", "damaged"])
    def test_a_file_that_cannot_be_read_holds_nothing(self, tmp_path: Path, content: bytes | None) -> None:
        if content is not None:
            (tmp_path / "x").write_bytes(content)
        file = LibraryFile(tmp_path / "x")
        assert file.find(LibraryQuery()) == []
        assert file.find(LibraryQuery()) == []
        assert len(file.problems) == 1
        assert "cannot be read" in file.problems[0]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        pytest.param(b"", "holds no entry of a library; got no entry", id="empty"),
        pytest.param(b"hello\n", r"entry 1 of x cannot be read \(the text: Invalid JSON", id="no JSON"),
        pytest.param(b"\x00\xff\xfe", "holds no entry", id="binary"),
        pytest.param(b'{"prune_engine_library": 2}\n', "got version 2; expected version 1", id="newer"),
        pytest.param(gzip.compress(b"x" * 99)[:-9], "cannot be read", id="cut off"),
        pytest.param(gzip.compress(b"")[:10] + b"\xff" * 9, "cannot be read", id="damaged"),
        pytest.param(b'{"prune_engine_library": 1}\n{}', "kernel_class: Field required", id="no field"),
    ],
)
def test_a_file_that_is_none_is_refused(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "x").write_bytes(content)
    with pytest.raises(ConfigError, match=message):
        read_library(tmp_path / "x")


def test_what_could_not_be_put_in_place_leaves_nothing_behind(
    tmp_path: Path, entries: list[LibraryEntry], monkeypatch: pytest.MonkeyPatch
) -> None:
    def replace_(self: Path, target: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", replace_)
    with pytest.raises(OutputError, match="No space left"):
        write_library(tmp_path / "x.gz", entries)
    assert list(tmp_path.iterdir()) == []


def test_some_bad_lines_are_remarks_and_many_are_counted(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("\n".join([*["bad"] * 9, entry_text(entry("a"))]))
    contents = read_library(tmp_path / "x")
    assert len(contents.entries) == 1
    assert len(contents.remarks) == 6
    assert contents.remarks[-1] == "4 more entries cannot be read"


def test_a_folder_cannot_be_read_and_nothing_written_into_none(tmp_path: Path, entries: list[LibraryEntry]) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        read_library(tmp_path)
    with pytest.raises(OutputError, match="cannot be written"):
        write_library(tmp_path / "none" / "x.gz", entries)


@pytest.mark.parametrize("secs", ["-1.0", "0.0", "NaN", "Infinity", "null"])
def test_run_times_that_are_none_make_no_entry(secs: str) -> None:
    text = entry_text(entry("a", 0.125)).replace("[0.125]", f"[{secs}]")
    with pytest.raises(ValueError, match="run"):
        entry_of(text)


def test_joined_libraries_give_the_fastest_of_all_once(tmp_path: Path, entries: list[LibraryEntry]) -> None:
    write_library(tmp_path / "one", entries[:2])
    write_library(tmp_path / "two", entries[1:])
    joined = JoinedLibrary([LibraryFile(tmp_path / "one"), LibraryFile(tmp_path / "two", Origin.BUILTIN)])
    assert joined.find(LibraryQuery()) == [replace(entries[2], origin=Origin.BUILTIN), entries[1], entries[0]]
    assert len(joined.find(LibraryQuery(limit=1))) == 1


def test_what_plugins_ship_can_be_switched_off(tmp_path: Path, entries: list[LibraryEntry]) -> None:
    write_library(tmp_path / "own", entries[:1])
    write_library(tmp_path / "shipped", entries[1:])
    asked = []

    def collect(hook: str, *, config: EngineConfig) -> list[tuple[str, object]]:
        asked.append(hook)
        return [("acme", LibraryFile(tmp_path / "shipped"))]

    own = LibraryFile(tmp_path / "own")
    assert len(library_of(own, EngineConfig(), collect).find(LibraryQuery())) == 3
    assert library_of(own, EngineConfig(builtin_library=False), collect) is own
    assert asked == ["register_libraries"]
