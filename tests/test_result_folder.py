"""result.json of a result folder: written whole, read in one place, and damaged ones told from those not there."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from prune_engine.errors import ArtifactError, OutputError
from prune_engine.result_folder import RESULT_NAME, read_result, tasks_told, told_by_result, write_result

ROOT = Path(__file__).parents[1]
DAMAGED = ["{", "", "[" * 100_000, b"\xff\xfe{"]


def test_what_is_written_is_read(tmp_path: Path) -> None:
    record = {"run_id": "r", "tasks": [{"task_id": "a", "name": "ä"}]}
    write_result(tmp_path / "out", json.dumps(record))
    assert read_result(tmp_path / "out") == record == told_by_result(tmp_path / "out")
    assert tasks_told(tmp_path / "out") == record["tasks"]
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_result_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "out" / RESULT_NAME).mkdir(parents=True)
    with pytest.raises(OutputError, match="cannot write here"):
        write_result(tmp_path / "out", "{}")
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


@pytest.mark.parametrize("content", DAMAGED, ids=["cut off", "empty", "nested without end", "no text"])
def test_a_damaged_result_is_named_or_says_nothing(tmp_path: Path, content: str | bytes) -> None:
    (tmp_path / RESULT_NAME).write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(ArtifactError, match=r"result\.json: is not JSON.*tune again"):
        read_result(tmp_path)
    assert told_by_result(tmp_path) == {}
    assert tasks_told(tmp_path) == []


def test_a_missing_result_is_named_or_says_nothing(tmp_path: Path) -> None:
    with pytest.raises(ArtifactError, match=r"no result can be read here.*`prune-engine tune`"):
        read_result(tmp_path)
    assert told_by_result(tmp_path / "none") == {}


def test_a_result_without_end_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("prune_engine.bounded_files.MAX_BYTES", 1 << 20)
    with (tmp_path / RESULT_NAME).open("wb") as file:
        file.truncate((1 << 20) + 1)
    with pytest.raises(ArtifactError, match="more than 1 MiB"):
        read_result(tmp_path)


@pytest.mark.parametrize("record", [[1], {"tasks": 3}, {"tasks": [3, "x"]}, "text"])
def test_what_is_no_result_tells_of_no_tasks(tmp_path: Path, record: object) -> None:
    write_result(tmp_path, json.dumps(record))
    assert tasks_told(tmp_path) == []


def test_the_names_in_a_result_folder_are_written_out_once() -> None:
    literal = re.compile(r"[\"'](result\.json|report\.html)[\"']|Path\(\"tuned\"\)")
    files = [
        file.relative_to(ROOT).as_posix()
        for file in sorted((ROOT / "prune_engine").rglob("*.py"))
        if literal.search(file.read_text(encoding="utf-8"))
    ]
    assert files == ["prune_engine/result_folder.py"]
