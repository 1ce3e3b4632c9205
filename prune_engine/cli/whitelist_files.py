"""`prune-engine whitelist export` and `import`: the whitelist as a file."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Annotated

import typer

from prune_engine.cli.whitelist_options import ByOption, JsonOption, StoreOption
from prune_engine.cli.whitelist_store import REDIRECTED, listed_in, opened_store, tell_broken, user_name
from prune_engine.display.streams import say, writing_to_stdout


def export(
    file: Annotated[Path, typer.Argument(help="File to write.", show_default=False)],
    skip_unreadable: Annotated[
        bool, typer.Option("--skip-unreadable", help="Leave out entries that cannot be read.")
    ] = False,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace a whitelist that has entries which this one has not.")
    ] = False,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Write the whitelist to a text file, for version control and for `whitelist import` elsewhere."""
    from prune_engine import __version__
    from prune_engine.cli.whitelist_export import check_all_readable, check_nothing_lost
    from prune_engine.display.tables import counted
    from prune_engine.output_file import check_place, write_whole
    from prune_engine.whitelist.files import whitelist_text

    check_place(file, head=b"{")
    with opened_store(store) as opened:
        listed = listed_in(opened)
        tell_broken(listed)
        if not skip_unreadable:
            check_all_readable(listed, opened.url)
        check_nothing_lost(file, listed, overwrite=overwrite)
        write_whole(file, whitelist_text(listed, f"prune-engine {__version__}"))
        n = len(listed.entries)
        say(f"{counted(n, 'schedule')}, revision {listed.revision}, written to {file}")
        if as_json:
            record = {"file": str(file), "store": opened.url, "revision": listed.revision, "n_entries": n}
            with writing_to_stdout(REDIRECTED):
                typer.echo(json.dumps(record))


def import_entries(
    file: Annotated[Path, typer.Argument(help="File that `whitelist export` wrote.", show_default=False)],
    restore: Annotated[bool, typer.Option("--restore", help="Take in again what was removed here, too.")] = False,
    by: ByOption = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Take in a whitelist. Entries of another machine or compiler count here once `whitelist verify` passed."""
    from prune_engine.cli.whitelist_tables import counts_here
    from prune_engine.whitelist.files import read_whitelist
    from prune_engine.whitelist.merging import merged

    contents = read_whitelist(file)
    with opened_store(store, may_make=True) as opened:
        listed = listed_in(opened)
        merge = merged(listed, contents, at=time.time(), by=by or user_name(), source=str(file), restore=restore)
        for remark in merge.remarks:
            say(f"warning: {remark}")
        revision = opened.add_whitelist_events(merge.events, after=listed.revision)
        n_unchecked = sum(not counts_here(one) for one in listed_in(opened).entries.values())
        record = {
            "source": str(file),
            "store": opened.url,
            "revision": revision,
            "n_new": merge.n_new,
            "n_known": merge.n_known,
            "n_left_out": merge.n_left_out,
            "n_unverified": n_unchecked,
        }
        with writing_to_stdout(REDIRECTED):
            if as_json:
                typer.echo(json.dumps(record))
            else:
                typer.echo(
                    f"{merge.n_new} new, {merge.n_known} known, {merge.n_left_out} left out; revision {revision}"
                )
                if n_unchecked:
                    typer.echo(f"{n_unchecked} do not count here until `prune-engine whitelist verify` passed them")
