"""The process in which a plugin is loaded and checked: it may hang, crash or end itself, and only this ends.

Called as ``python -m prune_engine.cli.plugin_check_child REQUEST EVENTS FOLDER``: two JSON files, the second of
which grows by a line for each event, and an empty folder.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Mapping
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import TYPE_CHECKING, cast

from prune_engine.cli.plugin_check_targets import CheckTarget
from prune_engine.config import EngineConfig
from prune_engine.errors import PluginError, PluginTimeoutError
from prune_engine.plugin_host import call_guard
from prune_engine.plugin_host.loading import (
    OWN_DISTRIBUTION,
    PluginSource,
    describe,
    find_plugins,
    missing_dependency,
)
from prune_engine.plugin_host.versions import requirement_misfit, says_for_which
from prune_engine.plugins import PluginHost, PluginStatus
from prune_engine.symbols.table import SymbolDef

if TYPE_CHECKING:
    from prune_engine.testing.run_contract import Tell

LOADS, VERSIONS, NAME = "loads", "says_which_versions_it_is_for", "its_name_is_not_taken"
REGISTERS, FORKS = "registers_something", "ends_the_processes_it_forks"
_VERSIONS_TEXT = "a requirement such as prune-engine>=0.1,<1, or PRUNE_ENGINE_API = 1 in the module"


def main(request_file: str, events_file: str, folder: str) -> None:
    """Load the plugin, check it, and tell of it."""
    request = json.loads(Path(request_file).read_text(encoding="utf-8"))
    target = CheckTarget.of_json(request["target"])
    sys.path[:0] = target.paths
    config, own_process = _config(request["limit_secs"]), os.getpid()
    with Path(events_file).open("a", encoding="utf-8") as events:

        def write(event: Mapping[str, object]) -> None:
            events.write(json.dumps(event) + "\n")
            events.flush()

        def leave_if_forked() -> None:
            if os.getpid() != own_process:
                write(_case_of_fork(target))
                os._exit(0)

        def tell(event: Mapping[str, object]) -> None:
            leave_if_forked()  # it came out of the plugin, and would check all the rest, too
            write(event)

        if hasattr(os, "register_at_fork"):  # each call would double the processes
            os.register_at_fork(before=leave_if_forked)

        plugin = _loaded(target, config, tell)
        if plugin is not None:
            _check(plugin, target, folder, request["done"], tell)
        tell({"event": "end"})


def _config(limit_secs: float) -> EngineConfig:
    """Hooks may take no longer than a check."""
    usual = EngineConfig().hook_limit_secs
    return EngineConfig.of(hook_limit_secs=min(limit_secs, usual) if usual else limit_secs)


def _case(
    target: CheckTarget, check: str, status: str, got: str = "", expected: str = "", remedy: str = ""
) -> dict[str, object]:
    who = f"plugin {target.name}"
    case = {"event": "case", "id": check, "subject": target.name, "kind": "plugin", "check": check, "case": ""}
    return {**case, "status": status, "who": who, "got": got, "expected": expected, "remedy": remedy}


def _case_of_fork(target: CheckTarget) -> dict[str, object]:
    got = "a process that it forked came out of it, and went on in the engine"
    remedy = "End it where its work is done, by os._exit; or use concurrent.futures."
    return _case(target, FORKS, "failed", got, "one process that returns", remedy)


def _loaded(target: CheckTarget, config: EngineConfig, tell: Tell) -> object | None:
    """The plugin, if it can be had; what is wrong with it is told."""
    source = _source(target)

    def row(check: str, status: str, got: str = "", expected: str = "", remedy: str = "") -> None:
        tell(_case(target, check, status, got, expected, remedy))

    tell({"event": "start", "id": LOADS})
    misfit = requirement_misfit(target.distribution, target.requires)
    if misfit:
        row(VERSIONS, "failed", misfit, "made for this prune-engine", "Correct the requirement, or the plugin.")
        return None
    try:
        plugin = call_guard.call(f"plugin {target.name!r}", config.hook_limit_secs, source.load)
    except (Exception, SystemExit) as error:  # noqa: BLE001  # the plugin boundary: told, not swallowed
        install = missing_dependency(source, error)
        remedy = f"{install}." if install else f"Correct it: {_entry_text(target)} has to import."
        row(LOADS, "failed", describe(error), "a module that can be imported", remedy)
        return None
    host = PluginHost(config)
    host.register(plugin, target.name)
    (record,) = host.records
    if record.status is not PluginStatus.LOADED:
        row(LOADS, "failed", record.summary, "hooks that are known, of a plugin for this engine", "Correct it.")
        return None
    row(LOADS, "passed")
    if target.distribution == OWN_DISTRIBUTION or says_for_which(plugin, target.requires):
        row(VERSIONS, "passed")
    else:
        row(VERSIONS, "warning", "nothing", _VERSIONS_TEXT, "Say it: another major version may call it otherwise.")
    owner = next((s for s in find_plugins(()) if s.name == target.name and not _is_it(s, target)), None)
    if owner:
        got = f"{target.name!r} is also what {owner.distribution or owner.module} calls its plugin, which is used"
        row(NAME, "failed", got, "the name of no other installed plugin", "Rename yours, or uninstall the other.")
    else:
        row(NAME, "passed")
    from prune_engine.testing.plugin_contract import STRATEGY_HOOKS

    tell({"event": "start", "id": "hooks"})
    names = _tell_of_names(host, target, tell)
    hanging = _hanging_hook(plugin, target.name, config) if host.failed else None
    if hanging:  # each check would wait for it
        row(REGISTERS, "failed", hanging, "hooks that return at once", "Look for a loop without an end.")
        return None
    (record,) = host.records
    if not host.failed and not names and set(record.hooks) <= set(STRATEGY_HOOKS):
        row(REGISTERS, "warning", "none of its hooks returned anything", "a strategy", "Return a list of objects.")
    return plugin


def _hanging_hook(plugin: object, name: str, config: EngineConfig) -> str | None:
    """What is said of a hook that does not return, if one does not."""
    from prune_engine.testing.plugin_contract import strategies_of

    host = PluginHost(config.model_copy(update={"strict": True}))
    host.register(plugin, name)
    try:
        list(strategies_of(host))
    except PluginError as error:
        return str(error.__cause__) if isinstance(error.__cause__, PluginTimeoutError) else None
    return None


def _check(plugin: object, target: CheckTarget, folder: str, done: list[str], tell: Tell) -> None:
    tell({"event": "start", "id": "spaces"})
    from prune_engine.cli.plugin_check_spaces import settings
    from prune_engine.testing.registered_contract import contract_classes
    from prune_engine.testing.run_contract import run_contracts

    host = PluginHost(EngineConfig())
    host.register(plugin, target.name)
    symbols = [cast(SymbolDef, item) for _, item in host.collect("register_symbols", config=EngineConfig())]
    chosen = settings({symbol.name: symbol for symbol in symbols})
    classes = contract_classes(plugin, target.name, chosen)
    run_contracts(classes, Path(folder), done, tell)


def _tell_of_names(host: PluginHost, target: CheckTarget, tell: Tell) -> list[str]:
    from prune_engine.testing.plugin_contract import strategies_of

    (record,) = host.records
    names = [name for name, _ in strategies_of(host)]
    tell({"event": "plugin", "name": target.name, "hooks": list(record.hooks), "strategies": names})
    return names


def _is_it(source: PluginSource, target: CheckTarget) -> bool:
    """Whether an installed plugin is the one that is checked, or may be."""
    is_installed = not (target.file or target.entry)
    return is_installed or (bool(target.entry) and _plain(source.distribution) == _plain(target.distribution))


def _plain(distribution: str | None) -> str:
    """A distribution's name as installers compare it."""
    return re.sub(r"[-_.]+", "-", distribution or "").lower()


def _source(target: CheckTarget) -> PluginSource:
    if target.file:
        *_, source = find_plugins((Path(target.file),))
        return source
    if target.entry:
        point = EntryPoint(target.name, target.entry, "prune_engine.plugins")
        return PluginSource(target.name, point.module, target.version, target.distribution, point.load)
    return next(source for source in find_plugins(()) if source.name == target.name)


def _entry_text(target: CheckTarget) -> str:
    if target.file:
        return target.file
    return f'the entry point {target.name} = "{target.entry}"' if target.entry else f"plugin {target.name}"


if __name__ == "__main__":
    main(*sys.argv[1:])
