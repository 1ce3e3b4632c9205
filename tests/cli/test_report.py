"""`prune-engine report`."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from prune_engine.cli.app import make_app
from prune_engine.errors import OutputError, StoreError

_SPEC = importlib.util.spec_from_file_location("report_kit", Path(__file__).parents[1] / "report" / "conftest.py")
assert _SPEC is not None
assert _SPEC.loader is not None
_KIT = importlib.util.module_from_spec(_SPEC)
sys.modules["report_kit"] = _KIT
_SPEC.loader.exec_module(_KIT)


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made: Path = _KIT.make_run(tmp_path_factory.mktemp("run"), n_tasks=1, n_trials=4)
    return made


def test_writes_into_the_folder_and_says_the_result(out: Path) -> None:
    done = CliRunner().invoke(make_app(), ["report", str(out)])
    assert done.exit_code == 0, done.output
    first, second = done.output.splitlines()
    assert first.startswith("dense.onnx runs 2.00× as fast as untuned")
    assert second == f"written to {out / 'report.html'}"
    assert (out / "report.html").read_text(encoding="utf-8").startswith("<!DOCTYPE html>")


def test_json_names_file_and_run(out: Path, tmp_path: Path) -> None:
    file = tmp_path / "here.html"
    done = CliRunner().invoke(make_app(), ["report", str(out), "--out", str(file), "--json"])
    record = json.loads(done.output)
    assert record["file"] == str(file)
    assert record["n_bytes"] == file.stat().st_size
    assert len(record["run_id"]) == 32


def test_a_place_that_cannot_be_written_is_told_first(out: Path, tmp_path: Path) -> None:
    done = CliRunner().invoke(make_app(), ["report", str(out), "--out", str(tmp_path)])
    assert isinstance(done.exception, OutputError)


def test_no_store_is_an_error(tmp_path: Path) -> None:
    done = CliRunner().invoke(make_app(), ["report", str(tmp_path / "none.sqlite3")])
    assert isinstance(done.exception, StoreError)


def test_open_asks_the_browser(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import webbrowser

    opened: list[str] = []
    monkeypatch.setattr(webbrowser, "open", lambda url: opened.append(url) or True)
    done = CliRunner().invoke(make_app(), ["report", str(out), "--open"])
    assert done.exit_code == 0
    assert opened == [(out / "report.html").resolve().as_uri()]
