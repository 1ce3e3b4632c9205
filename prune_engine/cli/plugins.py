"""`prune-engine plugins`: what is installed, what it hooks into, why something is not loaded; new ones, checks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from prune_engine.cli.plugin_check import check
from prune_engine.cli.plugin_new import new
from prune_engine.display.streams import writing_to_stdout

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


plugins = typer.Typer(
    name="plugins",
    help="Plugins: list them, write a new one, check one.",
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)
plugins.command("new")(new)
plugins.command("check")(check)


@plugins.callback()
def list_plugins(
    context: typer.Context,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for machines.")] = False,
    block: Annotated[list[str] | None, typer.Option(help="Plugin not to load; may be repeated.")] = None,
    plugin: Annotated[list[Path] | None, typer.Option(help="Plugin file to load too; may be repeated.")] = None,
    strict: Annotated[bool, typer.Option(help="Fail if any plugin cannot be loaded.")] = False,
) -> None:
    """List plugins with version, hooks and status. Commands write a new one or check one."""
    from prune_engine.cli.options import refuse_without_effect

    if context.invoked_subcommand is None:
        with writing_to_stdout("Redirect it to a place with room."):
            _list(as_json, block, plugin, strict)
    else:
        refuse_without_effect(
            context, ("as_json", "block", "plugin", "strict"), f"in front of {context.invoked_subcommand}"
        )


def _list(as_json: bool, block: list[str] | None, plugin: list[Path] | None, strict: bool) -> None:
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
    from prune_engine.display.tables import add_row, make_table, print_line, print_table

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
