"""`prune-engine whitelist verify`: what is listed is checked again."""

from __future__ import annotations

import json
import sys
from contextlib import redirect_stdout
from typing import Annotated, Any

import typer

from prune_engine.cli.whitelist_options import (
    ByOption,
    JsonOption,
    ProfileOption,
    StoreOption,
    TargetOption,
    ThreadsOption,
)
from prune_engine.cli.whitelist_store import REDIRECTED, listed_in, one_of, opened_store, tell_broken, user_name
from prune_engine.display.streams import say, writing_to_stdout


def verify(
    entry: Annotated[
        list[str] | None, typer.Argument(help="Only these entries, by id.", show_default="all of them")
    ] = None,
    max_slowdown: Annotated[
        float, typer.Option(min=1, help="What an entry may lose of its speedup over the untuned kernel.")
    ] = 1.1,
    by: ByOption = None,
    threads: ThreadsOption = None,
    target: TargetOption = "native",
    profile: ProfileOption = "auto",
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Check all entries again on this machine: legality, numbers and speed. Exit code 1 if any fails."""
    from prune_engine.cli.whitelist_tables import check_record, evidence_line
    from prune_engine.metaschedule.whitelist_check import examining
    from prune_engine.option_values import threads_or_default
    from prune_engine.whitelist.events import checked

    n_threads = threads_or_default(threads)
    author = by or user_name()
    with opened_store(store) as opened:
        listed = listed_in(opened)
        wanted = [one_of([*listed.entries, *listed.broken], one, opened.url) for one in entry or ()]
        entries = [one for name, one in listed.entries.items() if not wanted or name in wanted]
        broken = {name: why for name, why in listed.broken.items() if not wanted or name in wanted}
        records: list[dict[str, Any]] = []
        if entries:
            with redirect_stdout(sys.stderr), examining(n_threads, target=target, profile=profile) as examiner:
                for one in entries:
                    check = examiner.examine(one, max_slowdown=max_slowdown).check
                    # At once: what was found is not lost to what comes after.
                    opened.add_whitelist_events([checked(one, check, by=author, reason="verify")])
                    records.append({"entry_id": one.entry_id, "task_name": one.task_name, **check_record(check)})
                    say(f"{one.entry_id} {one.task_name}: {evidence_line(check)}")
        n_failed = sum(not record["is_passed"] for record in records) + len(broken)
        tell_broken(listed)
        with writing_to_stdout(REDIRECTED):
            if as_json:
                found = {"store": opened.url, "n_failed": n_failed, "broken": broken, "entries": records}
                typer.echo(json.dumps(found, indent=2))
            else:
                n = len(records) + len(broken)
                typer.echo(f"{n - n_failed} of {n} whitelisted schedules are legal, correct and fast here")
        if n_failed:
            raise typer.Exit(1)
