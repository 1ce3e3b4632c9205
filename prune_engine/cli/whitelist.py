"""`prune-engine whitelist`: schedules proven correct and fast that no guess may drop."""

from __future__ import annotations

import json
import time
from typing import Annotated

import typer

from prune_engine.cli.whitelist_add import add
from prune_engine.cli.whitelist_files import export, import_entries
from prune_engine.cli.whitelist_options import ByOption, JsonOption, StoreOption
from prune_engine.cli.whitelist_store import (
    REDIRECTED,
    listed_in,
    one_of,
    opened_store,
    strict_of,
    tell_broken,
    user_name,
)
from prune_engine.cli.whitelist_verify import verify
from prune_engine.display.streams import writing_to_stdout

whitelist = typer.Typer(
    name="whitelist",
    help="Schedules proven correct and fast, which no guess may drop: list, add, check and share them.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@whitelist.command("list")
@writing_to_stdout(REDIRECTED)
def list_entries(
    removed: Annotated[bool, typer.Option("--removed", help="List what was removed, and why, instead.")] = False,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """List what is whitelisted, how fast it is, and whether it counts on this machine."""
    from prune_engine.cli.whitelist_tables import entry_record, print_entries, print_removed, removal_record

    with opened_store(store) as opened:
        listed = listed_in(opened)
        tell_broken(listed)
        if as_json:
            found = (
                [removal_record(one) for one in listed.removed.values()]
                if removed
                else [entry_record(one) for one in listed.entries.values()]
            )
            record = {"store": opened.url, "revision": listed.revision, "removed" if removed else "entries": found}
            typer.echo(json.dumps({**record, "broken": dict(listed.broken)}, indent=2))
        elif removed:
            print_removed(listed, opened.url)
        else:
            print_entries(listed, opened.url)


whitelist.command("add")(add)


@whitelist.command("remove")
def remove(
    entry: Annotated[str, typer.Argument(help="The entry's id, or its first letters.", show_default=False)],
    reason: Annotated[str, typer.Option(help="Why it goes, for the record.", show_default=False)],
    by: ByOption = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """End an entry. What was known of it stays on record, with the reason."""
    from prune_engine.errors import ConfigError
    from prune_engine.whitelist.events import removed

    if not reason.strip():
        raise ConfigError("a removal needs a reason", who="--reason", got=repr(reason))
    with opened_store(store) as opened:
        listed = listed_in(opened)
        names = [*listed.entries, *listed.broken]
        name = one_of(names, entry, opened.url)
        strict = listed.entries[name].kernel_class.strict if name in listed.entries else strict_of(opened, name)
        event = removed(name, strict, at=time.time(), by=by or user_name(), reason=reason)
        revision = opened.add_whitelist_events([event], after=listed.revision)
        with writing_to_stdout(REDIRECTED):
            if as_json:
                typer.echo(json.dumps({"store": opened.url, "revision": revision, "removed": name}))
            else:
                typer.echo(f"entry {name} is removed, revision {revision}")


whitelist.command("verify")(verify)
whitelist.command("export")(export)
whitelist.command("import")(import_entries)
