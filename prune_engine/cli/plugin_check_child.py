"""The process in which a plugin is loaded and checked: it may hang, crash or end itself, and only this ends.

Called as ``python -m prune_engine.cli.plugin_check_child REQUEST EVENTS FOLDER``: two JSON files, the second of
which grows by a line for each event, and an empty folder.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import TYPE_CHECKING, cast

from prune_engine import call_guard
from prune_engine._plugin_loading import (
    OWN_DISTRIBUTION,
    PluginSource,
    describe,
    find_plugins,
    missing_dependency,
)
from prune_engine.cli.plugin_check_targets import CheckTarget
from prune_engine.config import EngineConfig
from prune_engine.plugin_versions import requirement_misfit, says_for_which
from prune_engine.plugins import PluginHost, PluginStatus
from prune_engine.symbols.table import SymbolDef

if TYPE_CHECKING:
    from prune_engine.testing.run_contract import Tell

LOADS, VERSIONS, NAME = "loads", "says_which_versions_it_is_for", "its_name_is_not_taken"
_VERSIONS_TEXT = "a requirement such as prune-engine>=0.1,<1, or PRUNE_ENGINE_API = 1 in the module"


def main(request_file: str, events_file: str, folder: str) -> None:
    """Load the plugin, check it, and tell of it."""
    request = json.loads(Path(request_file).read_text(encoding="utf-8"))
    target = CheckTarget.of_json(request["target"])
    sys.path[:0] = target.paths
    with Path(events_file).open("a", encoding="utf-8") as events:

        def tell(event: Mapping[str, object]) -> None:
            events.write(json.dumps(event) + "\n")
            events.flush()

        plugin = _loaded(target, tell)
        if plugin is not None:
            _check(plugin, target, folder, request["done"], tell)
        tell({"event": "end"})


def _loaded(target: CheckTarget, tell: Tell) -> object | None:
    """The plugin, if it can be had; what is wrong with it is told."""
    source = _source(target)

    def row(check: str, status: str, got: str = "", expected: str = "", remedy: str = "") -> None:
        who = f"plugin {target.name}"
        case = {"event": "case", "id": check, "subject": target.name, "kind": "plugin", "check": check, "case": ""}
        tell({**case, "status": status, "who": who, "got": got, "expected": expected, "remedy": remedy})

    tell({"event": "start", "id": LOADS})
    misfit = requirement_misfit(target.distribution, target.requires)
    if misfit:
        row(VERSIONS, "failed", misfit, "made for this prune-engine", "Correct the requirement, or the plugin.")
        return None
    config = EngineConfig()
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
    _tell_of_names(host, target, tell)
    return plugin


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


def _tell_of_names(host: PluginHost, target: CheckTarget, tell: Tell) -> None:
    from prune_engine.testing.plugin_contract import strategies_of

    (record,) = host.records
    names = [name for name, _ in strategies_of(host)]
    tell({"event": "plugin", "name": target.name, "hooks": list(record.hooks), "strategies": names})


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
