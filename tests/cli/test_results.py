"""The last lines of a run say what was written, and why."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from prune_engine.cli.results import print_result
from prune_engine.cli.tune import _write_result
from prune_engine.errors import OutputError
from prune_engine.lifecycle import TaskSummary
from prune_engine.plugins import PluginRecord, PluginStatus


def outcome(*, trace: str | None, is_tuned: bool) -> Any:
    latency = SimpleNamespace(median_secs=1e-3, low_secs=1e-3, high_secs=1e-3)
    summary = TaskSummary("t", "matmul", 1, 9, 1, 1, 1, {}, 1e-3, 1e-3, "default", "trials")
    return SimpleNamespace(
        run=SimpleNamespace(
            tasks=[SimpleNamespace(summary=summary, trace_json=trace)],
            census={},
            stop_reason="trials",
            elapsed_secs=1.0,
            n_new=1,
        ),
        comparison=SimpleNamespace(latencies={"untuned": latency, "tuned": latency}, remark="outputs agree"),
        model=SimpleNamespace(notes=()),
        failed_plugins=(PluginRecord("crooked", None, None, (), PluginStatus.FAILED, "it [raised]"),),
        not_applied=(),
        left_out=(),
        is_tuned=is_tuned,
        artifact_dir=Path("out"),
    )


@pytest.mark.parametrize(
    ("trace", "is_tuned", "told", "untold"),
    [
        pytest.param("[]", True, "written to out", "beaten", id="a faster model"),
        pytest.param("[]", False, "was not beaten", "are one", id="kernels won, the model did not"),
        pytest.param(None, False, "the untuned and the tuned model are one", "beaten", id="no kernel won"),
    ],
)
def test_what_was_written(
    capsys: pytest.CaptureFixture[str], trace: str | None, is_tuned: bool, told: str, untold: str
) -> None:
    print_result(outcome(trace=trace, is_tuned=is_tuned))
    text = capsys.readouterr().out
    assert told in text
    assert untold not in text
    assert "warning: plugin crooked failed: it [raised]" in text


def test_result_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "out" / "result.json").mkdir(parents=True)
    with pytest.raises(OutputError, match="cannot write here"):
        _write_result(tmp_path / "out", "{}")
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
