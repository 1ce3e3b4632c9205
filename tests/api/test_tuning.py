"""Tuning from Python, cut short, and what is refused. The page on Python tunes to the end: tests/guides."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import prune_engine as pe
from prune_engine.errors import ArtifactError, ConfigError, ModelImportError


@pytest.mark.timeout(600)
def test_progress_is_told_and_ctrl_c_ends_in_order(proto: Any, tmp_path: Path) -> None:
    news: list[pe.Progress] = []

    def told(one: pe.Progress) -> None:
        news.append(one)
        if any(task.n_trials for task in one.tasks) and not any("stopping" in told.message for told in news):
            os.kill(os.getpid(), signal.SIGINT)

    before = signal.getsignal(signal.SIGINT)
    out = tmp_path / "out"
    result = pe.tune(proto, out=out, trials=1000, store=tmp_path / "store.sqlite3", threads=1, progress=told)
    assert result.stop_reason == "interrupted"
    assert 0 < result.tasks[0].n_trials < 100
    assert result.tuned_secs > 0
    assert signal.getsignal(signal.SIGINT) is before
    assert any(one.message == "tuning" for one in news)
    assert news[-1].trials_left == 1000 - result.tasks[0].n_trials
    assert result.model == str(out / "model" / "a_small_model.onnx")
    assert result.run({"x": np.ones((64, 64), np.float32)})["y"].shape == (64, 64)
    with pytest.raises(ArtifactError, match="does not fit"):
        result.run({"x": np.ones((1, 64), np.float32)})


def test_what_a_told_function_raises_is_the_callers(model: Path, tmp_path: Path) -> None:
    def told(_: pe.Progress) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        pe.tune(model, out=tmp_path / "out", trials=1, store=tmp_path / "store.sqlite3", progress=told)


def test_errors_are_of_one_tree_and_call_options_as_python_does(model: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    with pytest.raises(ModelImportError, match="cannot be read"):
        pe.tune(tmp_path / "nothing.onnx", out=out)
    with pytest.raises(ConfigError, match=r"^threads: more threads"):
        pe.tune(model, out=out, threads=4096)
    with pytest.raises(ConfigError, match=r"^seconds: "):
        pe.tune(model, out=out, seconds=-1)
    with pytest.raises(ConfigError, match=r"^memory: cannot be read; got 'lots'"):
        pe.tune(model, out=out, memory="lots")
    with pytest.raises(ConfigError, match=r"^progress: cannot be used"):
        pe.tune(model, out=out, progress="yes")
    with pytest.raises(ConfigError, match=r"model: is no model; got builtins.int"):
        pe.tune(3)
    with pytest.raises(ConfigError, match=r"^source: no such file"):
        pe.transfer(model, out=out, source="no/library.jsonl")
    assert not out.exists()
