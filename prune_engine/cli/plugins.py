"""`prune-engine plugins`: what is installed, what it hooks into, and why something is not loaded."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer


def plugins(
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for machines.")] = False,
    block: Annotated[list[str] | None, typer.Option(help="Plugin not to load; may be repeated.")] = None,
    plugin: Annotated[list[Path] | None, typer.Option(help="Plugin file to load too; may be repeated.")] = None,
    strict: Annotated[bool, typer.Option(help="Fail if any plugin cannot be loaded.")] = False,
) -> None:
    """List plugins with version, hooks and status."""
    from prune_engine.config import EngineConfig
    from prune_engine.plugins import PluginHost
    from prune_engine.strategy_set import load_strategies

    config = EngineConfig.of(blocked_plugins=tuple(block or ()), plugin_files=tuple(plugin or ()), strict=strict)
    host = PluginHost(config)
    host.load()
    owners = load_strategies(host, config).owners
    strategies_of = {
        record.name: sorted(s for s, owner in owners.items() if owner == record.name) for record in host.records
    }
    rows = [
        {
            "name": record.name,
            "version": record.version,
            "distribution": record.distribution,
            "status": record.status.value,
            "detail": record.detail,
            "hooks": list(record.hooks),
            "strategies": strategies_of[record.name],
        }
        for record in host.records
    ]
    if as_json:
        typer.echo(json.dumps(rows, indent=2))
        return
    from rich.console import Console
    from rich.table import Table

    table = Table("plugin", "version", "status", "hooks", "strategies", title=None, box=None, pad_edge=False)
    for record in host.records:
        table.add_row(
            record.name,
            record.version or "-",
            record.summary,
            ", ".join(record.hooks),
            ", ".join(strategies_of[record.name]),
        )
    Console().print(table)
