"""`--report [FILE.html]` of the verbs that tune."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from prune_engine.cli.report_option import Report, ReportingCommand, report_file
from prune_engine.errors import OutputError


@pytest.mark.parametrize(
    ("words", "model", "report"),
    [
        (["m.onnx"], "m.onnx", None),
        (["m.onnx", "--report"], "m.onnx", ""),
        (["--report", "m.onnx"], "m.onnx", ""),
        (["--report", "page.HTML", "m.onnx"], "m.onnx", "page.HTML"),
        (["--report", "--quiet", "m.onnx"], "m.onnx", ""),
        (["--report=any", "m.onnx"], "m.onnx", "any"),
        (["--report", "--report", "p.html", "m.onnx"], "m.onnx", "p.html"),
        (["--report", "--", "p.html"], "p.html", ""),
    ],
)
def test_the_value_may_be_left_out(words: list[str], model: str, report: str | None) -> None:
    app, got = typer.Typer(), list[Any]()

    @app.command(cls=ReportingCommand)
    def verb(model: str, report: Report = None, quiet: bool = False) -> None:
        got.extend((model, report))

    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    assert got == [model, report]


def test_where_it_goes(tmp_path: Path) -> None:
    assert report_file(None, tmp_path / "out") is None
    assert report_file("", tmp_path / "out") == tmp_path / "out" / "report.html"
    inside = tmp_path / "out" / "mine.html"  # in the result's folder, which is not there yet
    assert report_file(str(inside), tmp_path / "out") == inside
    (tmp_path / "notes").write_text("mine")
    for place in ("notes", ".", "none/here.html"):
        with pytest.raises(OutputError):
            report_file(str(tmp_path / place), tmp_path / "out")
    assert (tmp_path / "notes").read_text() == "mine"
