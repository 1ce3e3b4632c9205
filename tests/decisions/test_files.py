"""Files of decisions: whole rounds survive anything, and the disk is never filled."""

from __future__ import annotations

import gzip
import json
import random
from pathlib import Path

import pytest

from prune_engine.decisions.files import DecisionWriter, decision_files, lines_of
from prune_engine.numeric_safety import STRATEGY


def line(number: int, *, is_measured: bool = False) -> str:
    noise = random.Random(number).randbytes(120).hex()  # so that it does not compress to nothing
    return json.dumps(
        {"number": number, "noise": noise, "measured": {"latency_secs": 1.0} if is_measured else None},
        separators=(",", ":"),
    )


def numbers(folder: Path) -> list[int]:
    return [json.loads(text)["number"] for path in decision_files(folder) for text in lines_of(path)]


def test_lines_come_back_in_order(tmp_path: Path) -> None:
    writer = DecisionWriter(tmp_path / "decisions")
    writer.add([])
    assert not writer.folder.exists(), "nothing is made before there is something to write"
    for start in (0, 3, 6):
        writer.add(line(n) for n in range(start, start + 3))
    assert numbers(writer.folder) == list(range(9))
    (path,) = decision_files(writer.folder)
    assert path.name == "0001.jsonl.gz"
    assert gzip.decompress(path.read_bytes()).count(b"\n") == 9, "any gzip reader can read it"


def test_a_round_that_a_kill_cut_short_costs_only_itself(tmp_path: Path) -> None:
    writer = DecisionWriter(tmp_path)
    writer.add([line(0), line(1)])
    (path,) = decision_files(tmp_path)
    n_whole = path.stat().st_size
    writer.add(line(n) for n in range(2, 40))
    content = path.read_bytes()
    for size in range(n_whole, len(content), 97):
        path.write_bytes(content[:size])
        found = numbers(tmp_path)
        assert found[:2] == [0, 1]
        assert found == list(range(len(found))), "up to the last whole line"
    later = DecisionWriter(tmp_path)
    later.add([line(100)])
    assert numbers(tmp_path)[-1] == 100, "a later run does not write behind the damage"
    assert len(decision_files(tmp_path)) == 2


def test_all_files_together_keep_to_the_limit(tmp_path: Path) -> None:
    limit = 64_000
    writer = DecisionWriter(tmp_path, limit)
    measured = []
    for number in range(900):
        is_measured = number % 10 == 0
        if is_measured:
            measured.append(number)
        writer.add([line(number, is_measured=is_measured)])
        assert sum(path.stat().st_size for path in tmp_path.iterdir()) <= limit
    found = numbers(tmp_path)
    assert set(measured) <= set(found), "what was measured stays"
    assert found[-1] == 899
    assert found == sorted(found)
    dropped = set(range(900)) - set(found)
    assert dropped, "the limit was met"
    assert max(dropped) < min(set(found) - set(measured)), "the oldest of the others go first"


def test_a_limit_that_even_measured_candidates_pass(tmp_path: Path) -> None:
    writer = DecisionWriter(tmp_path, 16_000)
    for number in range(400):
        writer.add([line(number, is_measured=True)])
        assert sum(path.stat().st_size for path in tmp_path.iterdir()) <= 16_000
    assert numbers(tmp_path)[-1] == 399


def test_a_rewritten_file_counts_once(tmp_path: Path) -> None:
    """A kill between putting the rewritten file in place and removing the old one."""
    DecisionWriter(tmp_path).add([line(1), line(2, is_measured=True)])
    (tmp_path / "0001.measured.jsonl.gz").write_bytes(gzip.compress((line(2, is_measured=True) + "\n").encode()))
    assert numbers(tmp_path) == [2]


def test_runs_at_the_same_time_have_files_of_their_own(tmp_path: Path) -> None:
    writers = [DecisionWriter(tmp_path) for _ in range(3)]
    for number in range(6):
        writers[number % 3].add([line(number)])
    assert len(decision_files(tmp_path)) == 3
    assert sorted(numbers(tmp_path)) == list(range(6))


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"no gzip",
        gzip.compress(b"x" * 50)[:-12],
        gzip.compress(b"\0" * (8 << 20) + b"\n{}\n"),
        b"\x1f\x8b" * 400,
    ],
    ids=["empty", "text", "cut", "bomb", "headers"],
)
def test_hostile_files_end_soon(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "0001.jsonl.gz"
    path.write_bytes(content)
    assert list(lines_of(path)) == []


def test_other_files_and_folders_are_none(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("x")
    (tmp_path / "0001.jsonl.gz.77.tmp").write_bytes(b"x")
    assert decision_files(tmp_path) == decision_files(tmp_path / "none") == []
    assert decision_files(tmp_path / "notes.txt") == []


def test_checks_of_what_was_about_to_ship_stay(tmp_path: Path) -> None:
    writer = DecisionWriter(tmp_path, 16_000)
    check = json.dumps({"number": -1, "strategy": STRATEGY, "measured": None}, separators=(",", ":"))
    writer.add([line(0), check])
    for start in range(1, 200, 10):
        writer.add(line(n) for n in range(start, start + 10))
    assert decision_files(tmp_path)[0].name == "0001.measured.jsonl.gz"
    assert numbers(tmp_path)[0] == -1
