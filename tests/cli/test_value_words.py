"""Help names the values of options by the same words in every verb, and fits a terminal of 80 columns."""

from __future__ import annotations

import inspect
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import pytest
import typer.main
from typer.testing import CliRunner

from prune_engine.cli.app import make_app


def walked(group: Any, context: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any, Any]]:
    """Every command below a group as help shows it."""
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        below = command.make_context(name, [], parent=context, resilient_parsing=True)
        yield (*path, name), command, below
        if hasattr(command, "commands"):
            yield from walked(command, below, (*path, name))


ROOT: Any = typer.main.get_command(make_app())
COMMANDS = {
    path: (command, context)
    for path, command, context in walked(ROOT, ROOT.make_context("prune-engine", [], resilient_parsing=True))
}


def options_of(path: tuple[str, ...]) -> Iterator[Any]:
    command, context = COMMANDS[path]
    return (p for p in command.get_params(context) if p.param_type_name == "option")


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_help_has_no_types_of_python_and_cuts_nothing_off(path: tuple[str, ...]) -> None:
    done = CliRunner().invoke(make_app(), [*path, "--help"], env={"COLUMNS": "80", "TERMINAL_WIDTH": "80"})
    assert done.exit_code == 0, done.output
    for kind in ("<bool>", "<str>", "<path>", "<int", "<float", "list[", "…"):
        assert kind not in done.output, done.output
    assert max(map(len, done.output.splitlines())) <= 80


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_switches_have_no_value_and_all_else_has_a_word(path: tuple[str, ...]) -> None:
    for option in options_of(path):
        if option.is_flag:
            assert option.metavar == "", option.opts
        else:
            assert option.metavar or "|" in option.display_type(COMMANDS[path][1]), option.opts


def test_arguments_are_in_capitals() -> None:
    for command, _ in COMMANDS.values():
        for argument in (p for p in command.params if p.param_type_name == "argument"):
            assert argument.metavar == argument.metavar.upper()


def test_one_option_has_one_word_in_all_verbs() -> None:
    words = defaultdict(set)
    for path in COMMANDS:
        for option in options_of(path):
            words[max(option.opts, key=len)].add(option.metavar)
    various = {name: found for name, found in words.items() if len(found) > 1}
    # A folder or a file is written; sources are folders or more; devices and plugins have kinds of their own.
    assert set(various) == {"--out", "--from", "--kind"}, various
    assert words["--block"] == {"PLUGIN"}


def test_paragraphs_are_filled_whatever_the_lines_of_the_source() -> None:
    for path, (command, _) in COMMANDS.items():
        assert all("\n" not in paragraph for paragraph in (command.help or "").split("\n\n")), path
    source = inspect.getdoc(COMMANDS[("report",)][0].callback) or ""
    assert COMMANDS[("report",)][0].help.split() == source.split()


def test_commands_of_plugins_are_worded_too() -> None:
    app = make_app()

    @app.command("extra")
    def extra(speed: float = 1.0, is_fast: bool = False) -> None:
        """Go."""

    done = CliRunner().invoke(app, ["extra", "--help"], env={"COLUMNS": "80", "TERMINAL_WIDTH": "80"})
    assert "--speed" in done.output
    assert "<float>" not in done.output
    assert "<bool>" not in done.output
