"""`prune-engine plugins`: what is installed, what it hooks into, and why something is not loaded."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from prune_engine.cli.streams import writing_to_stdout

if TYPE_CHECKING:
    from prune_engine.config import EngineConfig
    from prune_engine.plugins import PluginHost

_STRATEGY_HOOKS = (
    "register_rules",
    "register_explorers",
    "register_draft_scorers",
    "register_verifiers",
    "register_selectors",
    "register_transfers",
)


@writing_to_stdout("Redirect it to a place with room.")
def plugins(
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for machines.")] = False,
    block: Annotated[list[str] | None, typer.Option(help="Plugin not to load; may be repeated.")] = None,
    plugin: Annotated[list[Path] | None, typer.Option(help="Plugin file to load too; may be repeated.")] = None,
    strict: Annotated[bool, typer.Option(help="Fail if any plugin cannot be loaded.")] = False,
) -> None:
    """List plugins with version, hooks and status."""
    from prune_engine.cli.options import check_blocked
    from prune_engine.config import EngineConfig
    from prune_engine.plugins import PluginHost

    check_blocked(block or (), plugin or ())
    config = EngineConfig.of(blocked_plugins=tuple(block or ()), plugin_files=tuple(plugin or ()), strict=strict)
    host = PluginHost(config)
    host.load()
    strategies_of = _strategies_of(host, config)
    rows = [
        {
            "name": record.name,
            "version": record.version,
            "distribution": record.distribution,
            "status": record.status.value,
            "detail": record.detail,
            "hooks": list(record.hooks),
            "strategies": strategies_of.get(record.name, []),
        }
        for record in host.records
    ]
    if as_json:
        typer.echo(json.dumps(rows, indent=2))
        return
    from prune_engine.cli.console import result_console
    from prune_engine.cli.tables import add_row, make_table, print_line, print_table

    console = result_console()
    table = make_table("plugin", "version", "status", "hooks and strategies", prose=["hooks and strategies"])
    for record in host.records:
        lists = (record.hooks, strategies_of.get(record.name, []))
        registered = "\n".join(", ".join(names) for names in lists if names)
        add_row(table, record.name, record.version or "-", record.status.value, registered)
    print_table(console, table)
    for record in host.records:
        if record.detail:
            print_line(console, f"{record.name}: {record.detail}")


def _strategies_of(host: PluginHost, config: EngineConfig) -> dict[str, list[str]]:
    """Names of the strategies that each plugin registers, whatever the options would choose."""
    found: dict[str, list[str]] = {}
    for hook in _STRATEGY_HOOKS:
        for plugin, strategy in host.collect(hook, config=config):
            found.setdefault(plugin, []).append(str(getattr(strategy, "name", strategy)))
    return {plugin: sorted(names) for plugin, names in found.items()}
