"""Errors call options as whoever reads them does: `--threads` on the command line, `threads` in Python.

Messages are written with the options of the command line, or with the fields of EngineConfig in front of a colon.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from prune_engine.errors import PruneEngineError

#: Fields of EngineConfig whose values come from an option.
FIELD_OPTIONS = {
    "n_trials": "--trials",
    "budget_secs": "--seconds",
    "batch_size": "--batch",
    "plateau_trials": "--plateau",
    "seed": "--seed",
    "explorer": "--explorer",
    "draft_scorer": "--draft",
    "verifier": "--verifier",
    "selector": "--selector",
    "prior": "--prior",
    "disabled_rules": "--disable-rule",
    "blocked_plugins": "--block",
    "plugin_files": "--plugin",
    "transfer_trials": "--measurements",
    "transfer_search_share": "--search",
    "source_form": "--choose-by",
}
#: Options whose argument of Python's functions has another name.
_ARGUMENTS = {
    "from": "source",
    "number": "n",
    "disable_rule": "disabled_rules",
    "block": "blocked_plugins",
    "plugin": "plugin_files",
}
#: An option as the command line spells it.
_OPTION = re.compile(r"(?<![\w/-])--(?P<no>no-)?(?P<name>[a-z]+(?:-[a-z]+)*)")


def as_options(message: str) -> str:
    """A message in which options are called as on the command line, not as in EngineConfig."""
    for field, option in FIELD_OPTIONS.items():
        # A field is named in front of a colon: as what an error is about, or in a list of them.
        message = re.sub(rf"(?<![\w./-]){field}(?=: )", option, message)
    return message.replace("engine configuration: invalid options: ", "")


def as_python(message: str) -> str:
    """A message in which options are called as arguments of Python's functions."""
    return _OPTION.sub(_argument, as_options(message))


@contextmanager
def python_names() -> Iterator[None]:
    """Rewrite the text of what is raised inside for somebody who calls functions."""
    try:
        yield
    except PruneEngineError as error:
        error.who = error.who and as_python(error.who)
        error.remedy = error.remedy and as_python(error.remedy)
        error.args = (as_python(str(error)), *error.args[1:])
        raise


def _argument(match: re.Match[str]) -> str:
    name = match["name"].replace("-", "_")
    name = _ARGUMENTS.get(name, name)
    return f"{name}=False" if match["no"] else name
