"""Results as objects: what result.json says, and what is wrong with one."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

import prune_engine as pe
from prune_engine.errors import ArtifactError, ConfigError

RECORD: dict[str, Any] = {
    "model": "model.onnx",
    "run_id": "0123456789ab",
    "n_threads": 2,
    "stop_reason": "trials",
    "n_new_measurements": 4,
    "elapsed_secs": 12,
    "is_tuned": True,
    "store": "store.sqlite3",
    "comparison": {"latencies": {"untuned": {"median_secs": 4e-3}, "tuned": {"median_secs": 1e-3}}},
    "tasks": [
        {
            "name": "matmul<T>",
            "task_id": "ab",
            "weight": 2,
            "space_size": 592704,
            "default_secs": 3e-3,
            "best_secs": None,
            "best_candidate_id": "default",
            "n_trials": 4,
            "n_valid": 3,
            "n_new": 4,
            "failures": {"crash": 1},
            "stop_reason": "",
        }
    ],
}


def written(folder: Path, record: object) -> Path:
    (folder / "result.json").write_text(json.dumps(record))
    return folder


def test_a_result_is_opened(tmp_path: Path) -> None:
    result = pe.load(written(tmp_path, RECORD))
    assert (result.untuned_secs, result.tuned_secs, result.speedup) == (4e-3, 1e-3, 4.0)
    (task,) = result.tasks
    assert (task.name, task.untuned_secs, task.tuned_secs, task.speedup) == ("matmul<T>", 3e-3, None, None)
    assert result.out == tmp_path
    assert result.elapsed_secs == 12.0
    assert result.record == RECORD


def test_what_ships_untuned_has_gained_nothing(tmp_path: Path) -> None:
    result = pe.load(written(tmp_path, {**RECORD, "is_tuned": False}))
    assert (result.tuned_secs, result.speedup) == (4e-3, 1.0)
    assert "not beaten" in repr(result)


def test_a_notebook_shows_it_in_little(tmp_path: Path) -> None:
    result = pe.load(written(tmp_path, RECORD))
    assert repr(result) == (
        "<TuneResult model.onnx: 4.000 ms untuned, 1.000 ms tuned (4.00x), 4 new measurements, stopped by trials; "
        f"in {tmp_path}>"
    )
    shown = result._repr_html_()
    assert "matmul&lt;T&gt;" in shown
    assert "<td>-</td>" in shown


@pytest.mark.parametrize(
    ("place", "value", "said"),
    [
        (("tasks",), None, "tasks is not"),
        (("tasks", 0, "n_trials"), "4", r"tasks\[0\].n_trials is not"),
        (("tasks", 0, "weight"), True, r"tasks\[0\].weight is not"),
        (("tasks", 0), 3, r"tasks\[0\] is not"),
        (("comparison", "latencies", "tuned"), {}, "comparison.latencies.tuned.median_secs is not"),
        (("comparison", "latencies", "tuned", "median_secs"), 0, "expected latencies"),
        (("comparison", "latencies", "tuned", "median_secs"), float("nan"), "expected latencies"),
        (("comparison", "latencies", "tuned", "median_secs"), float("inf"), "expected latencies"),
        (("is_tuned",), 1, "is_tuned is not"),
    ],
)
def test_a_damaged_result_names_the_field(tmp_path: Path, place: tuple[Any, ...], value: object, said: str) -> None:
    record = copy.deepcopy(RECORD)
    *path, last = place
    at: Any = record
    for step in path:
        at = at[step]
    at[last] = value
    with pytest.raises(ArtifactError, match=said):
        pe.load(written(tmp_path, record))


def test_what_is_no_result_says_so(tmp_path: Path) -> None:
    with pytest.raises(ArtifactError, match="no result can be read"):
        pe.load(tmp_path / "nothing")
    (tmp_path / "result.json").write_text("{")
    with pytest.raises(ArtifactError, match="is not JSON"):
        pe.load(tmp_path)
    with pytest.raises(ArtifactError, match="the whole is not"):
        pe.load(written(tmp_path, [1]))


def test_without_decisions_nothing_is_explained(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no decisions are recorded"):
        pe.load(written(tmp_path, RECORD)).explain(1)
