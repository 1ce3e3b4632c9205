"""The page of hooks, written from prune_engine.hookspecs: signatures, kinds and sentences are the code's."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any

from prune_engine import hookspecs

_HEAD = """\
# Hooks

Every hook that a plugin can implement, from `prune_engine.hookspecs`. [Plugins](../plugins.md) shows them at work.

A hook is a function of the plugin, marked with `hookimpl`:

```text
from prune_engine.hookspecs import hookimpl
```

- **Arguments** are passed by name. A plugin takes those that it wants, in any order; new ones may come, none goes
  within a major version of the plugin interface ([compatibility](../compatibility.md)).
- **Collected** hooks: what all plugins return is put together. **First result**: plugins are asked, the one that
  was loaded last first, until one returns something else than None. **Told** hooks return nothing; those that are
  told **with the past** reach plugins that are registered later, too.

"""
_KINDS = {"register": "collected", "explain": "collected"}


def hooks() -> Iterator[tuple[str, Callable[..., Any], dict[str, Any]]]:
    """Yield name, function and options of every hook, in the order of the source."""
    for name, hook in vars(hookspecs).items():
        options = getattr(hook, f"{hookspecs.PROJECT}_spec", None)
        if options is not None:
            yield name, hook, options


def signature(hook: Callable[..., Any]) -> str:
    """Return a hook with its arguments and types as in the source."""
    returned = inspect.signature(hook).return_annotation
    arguments = [str(argument).replace("'", "") for argument in inspect.signature(hook).parameters.values()]
    return f"{hook.__name__}({', '.join(arguments)}) -> {returned}".replace("'", "")


def hooks_page() -> str:
    """Return the page in Markdown."""
    parts = [_HEAD]
    for name, hook, options in hooks():
        kind = _KINDS.get(name.split("_")[0], "told")
        if name == "register_commands":
            kind = "told, when a verb is not known or help is asked for"
        if options.get("firstresult"):
            kind = "first result"
        if options.get("historic"):
            kind = "told, with the past"
        text = " ".join((inspect.getdoc(hook) or "").split()).replace("``", "`")
        parts.append(f"## {name}\n\n```text\n{signature(hook)}\n```\n\n*{kind[0].upper()}{kind[1:]}.* {text}\n\n")
    return "".join(parts)
