"""How `--help` names the values of options: one word for one thing in every verb, and none for a switch.

Typer would show Python's types, such as ``<list[str]>``, and ``<bool>`` beside each switch. It would also end lines
where a docstring does, whatever the terminal's width.
"""

from __future__ import annotations

import re
from typing import Any

from typer.core import TyperGroup

#: Options by name; where one means another thing in some verb, that verb says its own word.
_BY_NAME = {
    "--shape": "NAME=SHAPE",
    "--dim": "NAME=SIZE",
    "--input": "NAME=FILE",
    "--disable-rule": "RULE",
    "--block": "PLUGIN",
    "--plugin": "FILE",
    "--policy": "FILE",
    "--output": "FILE",
    "--store": "FILE|URL",
    "--prior": "NAME|FILE",
    "--replay": "FOLDER",
    "--modules": "FOLDER",
    "--folder": "FOLDER",
    "--profile": "PROFILE",
    "--like": "PROFILE",
    "--target": "TARGET",
    "--task": "TASK",
    "--model": "MODEL",
    "--run": "ID",
    "--entry": "ID",
    "--explorer": "NAME",
    "--draft": "NAME",
    "--verifier": "NAME",
    "--selector": "NAME",
    "--device": "NAME",
    "--source": "NAME",
    "--choose-by": "NAME",
    "--by": "NAME",
    "--memory": "SIZE",
    "--decisions-size": "SIZE",
    "--seconds": "SECONDS",
    "--build-timeout": "SECONDS",
    "--run-timeout": "SECONDS",
    "--max-slowdown": "FACTOR",
}
#: All others by the kind that Typer shows, without its brackets.
_BY_KIND = {"str": "TEXT", "path": "PATH", "file": "FILE", "directory": "FOLDER", "int": "N", "float": "X"}


class WordedGroup(TyperGroup):
    """A group of commands; its help and theirs name values by the words of this file, and fill their lines."""

    def get_params(self, ctx: Any) -> Any:
        """The options of the group itself."""
        return [name_value(parameter, ctx) for parameter in super().get_params(ctx)]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command of this name, also one of a plugin."""
        command = super().get_command(ctx, cmd_name)
        if command is not None:
            command.help = re.sub(r"(?<!\n)\n(?!\n)", " ", command.help or "") or None
            for parameter in command.get_params(ctx):
                name_value(parameter, ctx)
        return command


def name_value(parameter: Any, context: Any) -> Any:
    """Give a parameter the word for its value, unless it has one or is a choice, which says what there is."""
    if parameter.param_type_name == "argument":
        parameter.metavar = parameter.metavar or parameter.name.upper()
        # Beside its word Typer shows an argument's type, which no option of its own turns off.
        parameter.display_type_rich = _nothing
    elif parameter.metavar is not None:
        pass
    elif parameter.is_flag:
        parameter.metavar = ""
    else:
        name = max(parameter.opts, key=len)
        parameter.metavar = _BY_NAME.get(name) or _BY_KIND.get(_kind(parameter, context))
    return parameter


def _nothing(ctx: Any) -> None:
    """What is shown of a type."""
    del ctx


def _kind(parameter: Any, context: Any) -> str:
    """``int`` of ``<int range>`` and of ``<list[int]>``, which older versions of Typer call an integer range."""
    if hasattr(parameter, "display_type"):
        shown = str(parameter.display_type(context))
    else:
        shown = str(getattr(parameter.type, "name", ""))
    word = shown.strip("<>").removeprefix("list[").split("]")[0].split(" ")[0].lower()
    return {"text": "str", "integer": "int"}.get(word, word)
