"""Colour where it is wanted, plain text everywhere else."""

from __future__ import annotations

import io
import os
import sys
from pathlib import Path

import pytest

from prune_engine.cli.app import main
from prune_engine.display.streams import say
from prune_engine.display.style import is_live, painted, take_style, wants_colour
from prune_engine.errors import ConfigError


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def terminal_that_can(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NO_COLOR", "FORCE_COLOR"):
        monkeypatch.setenv(name, "")  # so that it is put back as it was
        monkeypatch.delenv(name)
    monkeypatch.setenv("TERM", "xterm-256color")


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> object:
    monkeypatch.setattr(sys, "argv", ["prune-engine", *arguments])
    with pytest.raises(SystemExit) as ending:
        main()
    return ending.value.code


@pytest.mark.parametrize(
    ("variables", "on_terminal", "in_file"),
    [
        ({}, True, False),
        ({"NO_COLOR": "1"}, False, False),
        ({"NO_COLOR": ""}, True, False),  # no-color.org: only if it is not empty
        ({"FORCE_COLOR": "1"}, True, True),
        ({"NO_COLOR": "1", "FORCE_COLOR": "1"}, False, False),
        ({"TERM": "dumb"}, False, False),
        ({"TERM": "dumb", "FORCE_COLOR": "1"}, False, False),
    ],
    ids=str,
)
def test_environment_decides(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], on_terminal: bool, in_file: bool
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert wants_colour(Terminal()) is on_terminal
    assert wants_colour(io.StringIO()) is in_file


@pytest.mark.parametrize(
    ("arguments", "on_terminal", "in_file"),
    [
        (["--plain"], False, False),
        (["--color", "never"], False, False),
        (["--color=always"], True, True),
        (["--color", "auto"], True, False),
        (["--color", "always", "--plain"], False, False),
    ],
    ids=str,
)
def test_options_decide(arguments: list[str], on_terminal: bool, in_file: bool) -> None:
    assert take_style(["tune", *arguments, "model.onnx"]) == ["tune", "model.onnx"]
    assert wants_colour(Terminal()) is on_terminal
    assert wants_colour(io.StringIO()) is in_file


def test_options_are_stronger_than_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("TERM", "dumb")
    take_style(["--color", "always"])
    assert wants_colour(io.StringIO())
    monkeypatch.setenv("FORCE_COLOR", "1")
    take_style(["--color", "never"])
    assert not wants_colour(Terminal())


def test_what_follows_two_dashes_is_no_option() -> None:
    assert take_style(["explain", "--", "--plain"]) == ["explain", "--", "--plain"]


@pytest.mark.parametrize("arguments", [["--color", "blue"], ["--color="], ["--color"]], ids=str)
def test_unknown_colour_is_refused(arguments: list[str]) -> None:
    with pytest.raises(ConfigError, match=r"--color.*auto, always, never"):
        take_style(arguments)


def test_nothing_is_drawn_twice_on_a_plain_terminal() -> None:
    assert is_live(Terminal())
    take_style(["--plain"])
    assert not is_live(Terminal())
    assert not is_live(io.StringIO())


def test_only_the_first_word_is_painted() -> None:
    assert painted("error: a: b", Terminal()) == "\x1b[1;31merror:\x1b[0m a: b"
    assert painted("warning: x", Terminal()) == "\x1b[1;33mwarning:\x1b[0m x"
    assert painted("an error: x", Terminal()) == "an error: x"
    assert painted("error: a", io.StringIO()) == "error: a"


def test_errors_and_warnings(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(monkeypatch, "profiles", "show", "no-such-device", "--color", "always") == 2
    say("warning: mind")
    error = capsys.readouterr().err
    assert error.startswith("\x1b[1;31merror:\x1b[0m ")
    assert "\x1b[1;33mwarning:\x1b[0m mind" in error
    assert run(monkeypatch, "profiles", "show", "no-such-device", "--plain") == 2
    assert "\x1b" not in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [["profiles", "list"], ["--help"], ["tune", "--help"]], ids=" ".join)
def test_help_and_tables(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    assert run(monkeypatch, *arguments, "--plain") == 0
    plain = capsys.readouterr().out
    assert "\x1b" not in plain
    assert plain.strip()


def test_tables_in_colour(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(monkeypatch, "profiles", "list", "--color", "always") == 0
    assert "\x1b[1m" in capsys.readouterr().out


def test_json_has_no_colour(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(monkeypatch, "profiles", "list", "--json", "--color", "always") == 0
    assert "\x1b" not in capsys.readouterr().out


def test_a_bad_colour_ends_the_program(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(monkeypatch, "plugins", "--color", "blue") == 2
    assert "error: --color: cannot be read" in capsys.readouterr().err


def test_help_of_each_place_tells_of_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run(monkeypatch, "--help", "--plain")
    assert {"--plain", "--color"} <= set(capsys.readouterr().out.replace("│", " ").split())


def test_this_module_leaves_the_environment_alone() -> None:
    assert os.environ["TERM"] == "xterm-256color"  # of the fixture, not of another test
    assert Path.cwd().exists()
