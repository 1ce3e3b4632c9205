"""What a result folder holds beside the compiled model: the names in it, and ``result.json`` written and read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from prune_engine.artifact_files import output_error, publish, staging_folder
from prune_engine.bounded_files import json_of, read_bounded
from prune_engine.errors import ArtifactError

#: Where results go, each in a folder of its own, if nobody says.
RESULTS = Path("tuned")
#: Every figure of the run, as ``--json`` prints them.
RESULT_NAME = "result.json"
#: The run as a page to read, where nobody names another place.
REPORT_NAME = "report.html"
#: How each such page begins.
REPORT_HEAD = b"<!DOCTYPE html>"
#: What was measured, as a MetaSchedule database. What became of each candidate is in ``DECISIONS_FOLDER``.
DATABASE_FOLDER = "database"


def write_result(folder: Path, text: str) -> None:
    """Put ``result.json`` in place, whole or not at all. Raises OutputError."""
    with staging_folder(folder) as staging:
        try:
            (staging / RESULT_NAME).write_text(text, encoding="utf-8")
        except OSError as error:
            raise output_error(error, folder) from error
        publish(staging, folder, [RESULT_NAME])


def read_result(folder: Path) -> object:
    """What ``result.json`` holds: any JSON value. Raises ArtifactError where there is none, or it is damaged."""
    file = folder / RESULT_NAME
    try:
        return json_of(read_bounded(file))
    except OSError as error:
        raise ArtifactError(
            "no result can be read here",
            who=str(file),
            got=error.strerror or str(error),
            expected="a folder that `prune-engine tune` wrote",
        ) from error
    except ValueError as error:
        raise ArtifactError(
            "is not JSON", who=str(file), got=str(error)[:200], remedy="It is damaged; tune again."
        ) from error


def told_by_result(folder: Path) -> dict[str, Any]:
    """What ``result.json`` says, for those who can do without: nothing if there is none, or it is damaged."""
    try:
        record = read_result(folder)
    except ArtifactError:
        return {}
    return record if isinstance(record, dict) else {}


def tasks_told(folder: Path) -> list[dict[str, Any]]:
    """The tasks that ``result.json`` tells of, in its order; none if there is none, or it is damaged."""
    listed = told_by_result(folder).get("tasks")
    return [one for one in listed if isinstance(one, dict)] if isinstance(listed, list) else []
