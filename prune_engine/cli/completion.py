"""What the shell offers on the Tab key for values: names of profiles, plugins, strategies, rules, tasks, workloads.

Attached to all verbs, plugins' too, by the name of a parameter, and only when a shell asks.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, get_type_hints

import typer
from typer.models import ParameterInfo

#: How the shell's script asks; typer makes it of the program's name.
VARIABLE = "_PRUNE_ENGINE_COMPLETE"

Completer = Callable[[typer.Context], Iterable[str]]


def is_completing() -> bool:
    """Whether a shell asks what could come next."""
    return VARIABLE in os.environ


def words_so_far() -> list[str]:
    """Return the words on the command line that is completed, the program's name left out."""
    text = os.environ.get("COMP_WORDS") or os.environ.get("_TYPER_COMPLETE_ARGS") or ""
    return text.split()[1:]


def attach(app: typer.Typer, group_name: str = "") -> None:
    """Give every parameter of every verb that has a known name its completions."""
    completers = {**_COMPLETERS, **_OF_GROUPS.get(group_name, {})}
    for command in app.registered_commands:
        if command.callback is not None:
            _attach_to(command.callback, completers)
    for group in app.registered_groups:
        if group.typer_instance is not None:
            attach(group.typer_instance, str(group.name))


def _attach_to(callback: Callable[..., Any], completers: Mapping[str, Completer]) -> None:
    hints = get_type_hints(callback, include_extras=True)
    for function in (callback, inspect.unwrap(callback)):
        function.__annotations__ = hints  # read as text, each would be another object next time
    for name, hint in hints.items():
        completer = completers.get(name)
        for info in getattr(hint, "__metadata__", ()):
            if completer is not None and isinstance(info, ParameterInfo) and info.autocompletion is None:
                info.autocompletion = _starting(completer)


def _starting(completer: Completer) -> Callable[[typer.Context, str], list[str]]:
    def complete(ctx: typer.Context, incomplete: str) -> list[str]:
        try:
            return sorted({word for word in completer(ctx) if word.startswith(incomplete)})
        except Exception:  # noqa: BLE001  # a shell's prompt is no place for errors; the command itself will tell
            return []

    return complete


def _profiles(_: typer.Context) -> Iterator[str]:
    from prune_engine.hardware import ProfileRegistry

    yield "auto"
    for name, profile in ProfileRegistry().profiles().items():
        yield from (name, *profile.aliases)


def _plugins(_: typer.Context) -> Iterator[str]:
    from prune_engine.plugin_host.loading import find_plugins

    for source in find_plugins(()):
        yield source.name


def _strategies(hook: str, *more: str) -> Completer:
    def names(ctx: typer.Context) -> Iterator[str]:
        from prune_engine.config import EngineConfig
        from prune_engine.plugins import PluginHost

        yield from more
        files = tuple(ctx.params.get("plugin") or ())
        config = EngineConfig.of(plugin_files=files)
        host = PluginHost(config)
        host.load()
        for _, strategy in host.collect(hook, config=config):
            yield str(getattr(strategy, "name", ""))

    return names


def _targets(_: typer.Context) -> Iterator[str]:
    from prune_engine.hardware import ProfileRegistry

    yield from ("native", "llvm", "cuda")
    for name, profile in ProfileRegistry().profiles().items():
        if (profile.compiler_cpu or "").startswith("sm_"):
            yield from (f"cuda/{known}" for known in (name, *profile.aliases))


def _tasks(ctx: typer.Context) -> Iterator[str]:
    """Names of the tasks of a result folder, by default of all in ``./tuned``."""
    from prune_engine.explain.known_tasks import known_tasks

    out = ctx.params.get("out")
    for task in known_tasks(Path(out) if out else None, None):
        yield task.name


def _workloads(_: typer.Context) -> Iterator[str]:
    """Names of operators up to the colon; where none begins so, shells complete files."""
    from prune_engine.metaschedule.workloads.operators import OPERATORS

    for name in OPERATORS:
        yield f"{name}:"


_COMPLETERS: dict[str, Completer] = {
    "profile": _profiles,
    "block": _plugins,
    "target": _targets,
    "task": _tasks,
    "model": _workloads,
    "workload": _workloads,
    "prior": lambda _: ("builtin", "none"),
    "disable_rule": _strategies("register_rules"),
    "explorer": _strategies("register_explorers"),
    "draft": _strategies("register_draft_scorers", "none"),
    "verifier": _strategies("register_verifiers", "none"),
    "selector": _strategies("register_selectors"),
}

_OF_GROUPS: dict[str, dict[str, Completer]] = {"profiles": dict.fromkeys(("name", "a", "b"), _profiles)}
