"""`prune-engine whitelist add`: a schedule is checked, and listed if it holds."""

from __future__ import annotations

import json
import sys
import time
from contextlib import redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from prune_engine.cli.whitelist_options import (
    ByOption,
    JsonOption,
    ProfileOption,
    StoreOption,
    TargetOption,
    ThreadsOption,
)
from prune_engine.cli.whitelist_store import REDIRECTED, listed_in, opened_store, user_name
from prune_engine.display.streams import say, writing_to_stdout

if TYPE_CHECKING:
    from prune_engine.errors import ConfigError
    from prune_engine.metaschedule.whitelist_source import Offer
    from prune_engine.store.base import Store
    from prune_engine.whitelist.entries import Whitelist, WhitelistEntry


def add(
    task: Annotated[
        str,
        typer.Argument(
            help="The kernel: a workload such as gemm:512x512x512 or a model file; with --from its name, number or "
            "id in that folder.",
            metavar="KERNEL",
            show_default=False,
        ),
    ],
    candidate: Annotated[
        str, typer.Argument(metavar="CANDIDATE", help="The schedule: a candidate's id, or best.")
    ] = "best",
    note: Annotated[str, typer.Option(help="Why it is listed, for the record.")] = "",
    folder: Annotated[
        Path | None,
        typer.Option(
            "--from",
            metavar="FOLDER",
            help="Folder of a result, or a MetaSchedule database.",
            show_default="the store",
        ),
    ] = None,
    kernel: Annotated[
        str | None, typer.Option("--task", help="Which kernel of a model: its name, number or id.")
    ] = None,
    by: ByOption = None,
    threads: ThreadsOption = None,
    target: TargetOption = "native",
    profile: ProfileOption = "auto",
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Check a measured schedule on this machine, and whitelist it if it is legal, correct and fast."""
    from prune_engine.cli.whitelist_tables import entry_record, evidence_line
    from prune_engine.errors import ConfigError, WhitelistError
    from prune_engine.metaschedule.targets import resolve_target
    from prune_engine.metaschedule.whitelist_check import examining
    from prune_engine.metaschedule.whitelist_kernels import entry_for
    from prune_engine.option_values import threads_or_default
    from prune_engine.whitelist.events import added
    from prune_engine.whitelist.placing import Schedule

    if folder is not None and kernel is not None:
        raise ConfigError("without effect with --from", who="--task", remedy=f"Name the kernel in place of {task}.")
    n_threads = threads_or_default(threads)
    author = by or user_name()
    with opened_store(store, may_make=folder is not None) as opened:
        with redirect_stdout(sys.stderr):
            resolved = resolve_target(target, n_threads)
            offer = _offer(opened, task, candidate, folder, kernel, resolved, n_threads)
            listed = listed_in(opened)
            _refuse_known(listed, offer)
            with examining(n_threads, target=resolved, profile=profile) as examiner:
                say(f"checking {offer.source} on {examiner.device_name}")
                schedule = Schedule(offer.sketch_id, offer.decisions, offer.trace_json)
                finding = examiner.examine_schedule(offer.task, schedule)
            if not finding.check.is_passed or finding.sketch is None:
                raise WhitelistError(
                    "is not whitelisted",
                    who=offer.source,
                    got="; ".join(finding.check.problems),
                    expected="a schedule that is legal, correct and faster than the untuned kernel",
                )
            entry = entry_for(
                offer.task,
                finding.sketch,
                finding.decisions,
                offer.trace_json,
                [finding.check],
                by=author,
                at=time.time(),
                note=note,
                source=offer.source,
            )
            if entry.entry_id in listed.entries:  # by another text
                raise _known(listed.entries[entry.entry_id], offer)
            event = added(entry, at=entry.added_at, by=author, reason=note)
            revision = opened.add_whitelist_events([event], after=listed.revision)
        with writing_to_stdout(REDIRECTED):
            if as_json:
                typer.echo(json.dumps({"store": opened.url, "revision": revision, "entry": entry_record(entry)}))
            else:
                typer.echo(f"entry {entry.entry_id} of {entry.task_name} is whitelisted, revision {revision}")
                typer.echo(evidence_line(finding.check))


def _offer(
    store: Store,
    task: str,
    candidate: str,
    folder: Path | None,
    kernel: str | None,
    target: str,
    n_threads: int,
) -> Offer:
    from prune_engine.hardware.host import cpu_model
    from prune_engine.metaschedule.whitelist_source import offer_in_folder, offer_in_store

    if folder is not None:
        return offer_in_folder(folder, task, candidate, target=target)
    return offer_in_store(store, task, kernel, candidate, target=target, device=cpu_model(), n_threads=n_threads)


def _refuse_known(listed: Whitelist, offer: Offer) -> None:
    """Raise ConfigError for a schedule that is listed, before it is checked again."""
    from prune_engine.loop.harvest import without_postprocessing

    trace_json = without_postprocessing(offer.trace_json)
    for one in listed.of(offer.task):
        is_same = one.sketch_id == offer.sketch_id and tuple(c.values for c in one.choices) == offer.decisions
        if is_same or one.trace_json == trace_json:
            raise _known(one, offer)


def _known(one: WhitelistEntry, offer: Offer) -> ConfigError:
    from prune_engine.errors import ConfigError

    return ConfigError(
        "is whitelisted already",
        who=offer.source,
        got=f"entry {one.entry_id}, added by {one.added_by}",
        remedy="`prune-engine whitelist verify` checks it again.",
    )
