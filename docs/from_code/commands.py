"""The page of the command line, written from the program itself: every verb, argument, option and default."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

import typer.main

from prune_engine.cli.app import make_app
from prune_engine.cli.value_words import name_value

_HEAD = """\
# Command line

Every verb with its arguments, options and defaults, as `prune-engine VERB --help` has them. Plugins may add verbs.
[Colours, plain output and shell completion](../command-line.md) are the same for all.

"""


def commands_page() -> str:
    """Return the page in Markdown."""
    root: Any = typer.main.get_command(make_app())
    return _HEAD + "\n".join(_section(path, command) for path, command in walk("prune-engine", root))


def walk(path: str, command: Any) -> Iterator[tuple[str, Any]]:
    """Yield a command and all below it, each with the words that call it."""
    yield path, command
    for name in getattr(command, "commands", {}):
        yield from walk(f"{path} {name}", command.commands[name])


def options_of(command: Any) -> list[Any]:
    """Return the options of a command that its help shows."""
    return [p for p in command.params if p.param_type_name == "option" and not getattr(p, "hidden", False)]


def _section(path: str, command: Any) -> str:
    parts = [f"## {path}\n\n{_prose(command.help)}\n"]
    arguments = [p for p in command.params if p.param_type_name == "argument"]
    words = " ".join(_metavar(p) for p in arguments)
    below = getattr(command, "commands", {})
    usage = f"{path} {'VERB ...' if below else '[OPTIONS] ' + words}".rstrip()
    parts.append(f"```text\n{usage}\n```\n")
    if below:
        rows = [(f"[`{name}`](#{_anchor(path, name)})", _first(below[name].help)) for name in below]
        parts.append(_table(("verb", "what it does"), rows))
    if arguments:
        parts.append(
            _table(("argument", "meaning"), [(f"`{_metavar(p)}`", _cell(p.help or "")) for p in arguments])
        )
    if options := options_of(command):
        parts.append(_table(("option", "meaning", "default, limits"), [_row(command, p) for p in options]))
    return "\n".join(parts)


def _row(command: Any, option: Any) -> tuple[str, str, str]:
    """What help says of an option: names and kind, meaning, and the default and limits in brackets after it."""
    context = command.make_context("", [], resilient_parsing=True)
    names, text = name_value(option, context).get_help_record(context)
    matched = re.fullmatch(r"(.*?)(?:\s*\[([^\[\]]*(?:\[[^\]]*\][^\[\]]*)*)\])?", text, re.DOTALL)
    assert matched is not None
    extra = re.sub(r"^default: |(?<=; )default: ", "", matched[2] or "")
    if option.is_flag and extra in {"False", "no-" + option.name.replace("_", "-")}:
        extra = ""
    names = re.sub(r"<(?:list\[)?(\w+)\]?(?: range)?>", lambda kind: kind[1].upper(), names)
    return f"`{_cell(names)}`", _cell(matched[1]), _cell(re.sub(r"\(([^()]*)\)", r"\1", extra))


def _metavar(argument: Any) -> str:
    name = (argument.metavar or argument.name.upper()) + ("" if argument.nargs == 1 else " ...")
    return name if argument.required or name.startswith("[") else f"[{name}]"


def _anchor(*words: str) -> str:
    return "-".join(words).replace(" ", "-")


def _prose(text: str | None) -> str:
    return re.sub(r"\n(?!\n)(?<!\n\n)", " ", (text or "").strip()).replace("``", "`")


def _first(text: str | None) -> str:
    return _cell((text or "").strip().split("\n\n")[0])


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;").replace("``", "`")


def _table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    lines = [head, tuple("---" for _ in head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)
