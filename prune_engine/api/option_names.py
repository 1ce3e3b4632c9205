"""Errors that call options as Python does: `threads`, not `--threads`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from prune_engine.errors import PruneEngineError

#: An option as the command line spells it.
_OPTION = re.compile(r"(?<![\w/-])--(?P<no>no-)?(?P<name>[a-z]+(?:-[a-z]+)*)")
#: Fields of EngineConfig whose option has another name.
_FIELDS = {
    "n_trials": "trials",
    "budget_secs": "seconds",
    "batch_size": "batch",
    "plateau_trials": "plateau",
    "draft_scorer": "draft",
    "transfer_trials": "measurements",
    "transfer_search_share": "search",
    "source_form": "choose_by",
}
#: Options whose argument has another name.
_RENAMED = {
    "from": "source",
    "number": "n",
    "disable_rule": "disabled_rules",
    "block": "blocked_plugins",
    "plugin": "plugin_files",
}


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


def as_python(text: str) -> str:
    """A message in which options are called as arguments."""
    text = _OPTION.sub(_argument, text)
    for field, option in _FIELDS.items():
        text = re.sub(rf"(?<![\w./-]){field}(?=: )", option, text)
    return text.replace("engine configuration: invalid options: ", "")


def _argument(match: re.Match[str]) -> str:
    name = match["name"].replace("-", "_")
    name = _RENAMED.get(name, name)
    return f"{name}=False" if match["no"] else name
