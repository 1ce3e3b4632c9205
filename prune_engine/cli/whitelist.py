"""`prune-engine whitelist`: schedules proven correct and fast that no guess may drop."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from prune_engine.cli.streams import say, writing_to_stdout

if TYPE_CHECKING:
    from prune_engine.errors import ConfigError
    from prune_engine.metaschedule.whitelist_source import Offer
    from prune_engine.store.base import Store
    from prune_engine.whitelist.entries import Whitelist, WhitelistEntry, WhitelistEvent

whitelist = typer.Typer(
    name="whitelist",
    help="Schedules proven correct and fast, which no guess may drop: list, add, check and share them.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)

_Json = Annotated[bool, typer.Option("--json", help="Print JSON for machines.")]
_Store = Annotated[
    str | None, typer.Option(help="Where the whitelist is kept: file or URL.", show_default="user data folder")
]
_By = Annotated[str | None, typer.Option(help="Who does it, for the record.", show_default="the user's name")]
_Threads = Annotated[int | None, typer.Option(min=1, help="Threads a kernel runs on.", show_default="usable cores")]
_Target = Annotated[str, typer.Option(help="TVM target of this machine: native, 'llvm -mcpu=...', or JSON.")]
_Profile = Annotated[str, typer.Option(help="Hardware profile: auto, a name, or a YAML file.")]
_REDIRECTED = "Redirect it to a place with room."
_MIN_PREFIX = 4


@whitelist.command("list")
@writing_to_stdout(_REDIRECTED)
def list_entries(
    removed: Annotated[bool, typer.Option("--removed", help="List what was removed, and why, instead.")] = False,
    store: _Store = None,
    as_json: _Json = False,
) -> None:
    """List what is whitelisted, how fast it is, and whether it counts on this machine."""
    from prune_engine.cli.whitelist_tables import entry_record, print_entries, print_removed, removal_record

    with _opened(store) as opened:
        listed = _listed(opened)
        _tell_broken(listed)
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


@whitelist.command("add")
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
    by: _By = None,
    threads: _Threads = None,
    target: _Target = "native",
    profile: _Profile = "auto",
    store: _Store = None,
    as_json: _Json = False,
) -> None:
    """Check a measured schedule on this machine, and whitelist it if it is legal, correct and fast."""
    from prune_engine.cli.options import threads_or_default
    from prune_engine.cli.whitelist_tables import entry_record, evidence_line
    from prune_engine.errors import ConfigError, WhitelistError
    from prune_engine.metaschedule.targets import resolve_target
    from prune_engine.metaschedule.whitelist_check import examining
    from prune_engine.metaschedule.whitelist_kernels import entry_for
    from prune_engine.whitelist.events import added
    from prune_engine.whitelist.placing import Schedule

    if folder is not None and kernel is not None:
        raise ConfigError("without effect with --from", who="--task", remedy=f"Name the kernel in place of {task}.")
    n_threads = threads_or_default(threads)
    author = by or _user()
    with _opened(store, may_make=folder is not None) as opened:
        with redirect_stdout(sys.stderr):
            resolved = resolve_target(target, n_threads)
            offer = _offer(opened, task, candidate, folder, kernel, resolved, n_threads)
            listed = _listed(opened)
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
        with writing_to_stdout(_REDIRECTED):
            if as_json:
                typer.echo(json.dumps({"store": opened.url, "revision": revision, "entry": entry_record(entry)}))
            else:
                typer.echo(f"entry {entry.entry_id} of {entry.task_name} is whitelisted, revision {revision}")
                typer.echo(evidence_line(finding.check))


@whitelist.command("remove")
def remove(
    entry: Annotated[str, typer.Argument(help="The entry's id, or its first letters.", show_default=False)],
    reason: Annotated[str, typer.Option(help="Why it goes, for the record.", show_default=False)],
    by: _By = None,
    store: _Store = None,
    as_json: _Json = False,
) -> None:
    """End an entry. What was known of it stays on record, with the reason."""
    from prune_engine.errors import ConfigError
    from prune_engine.whitelist.events import removed

    if not reason.strip():
        raise ConfigError("a removal needs a reason", who="--reason", got=repr(reason))
    with _opened(store) as opened:
        listed = _listed(opened)
        names = [*listed.entries, *listed.broken]
        name = _one_of(names, entry, opened.url)
        strict = listed.entries[name].kernel_class.strict if name in listed.entries else _strict_of(opened, name)
        event = removed(name, strict, at=time.time(), by=by or _user(), reason=reason)
        revision = opened.add_whitelist_events([event], after=listed.revision)
        with writing_to_stdout(_REDIRECTED):
            if as_json:
                typer.echo(json.dumps({"store": opened.url, "revision": revision, "removed": name}))
            else:
                typer.echo(f"entry {name} is removed, revision {revision}")


@whitelist.command("verify")
def verify(
    entry: Annotated[
        list[str] | None, typer.Argument(help="Only these entries, by id.", show_default="all of them")
    ] = None,
    max_slowdown: Annotated[
        float, typer.Option(min=1, help="What an entry may lose of its speedup over the untuned kernel.")
    ] = 1.1,
    by: _By = None,
    threads: _Threads = None,
    target: _Target = "native",
    profile: _Profile = "auto",
    store: _Store = None,
    as_json: _Json = False,
) -> None:
    """Check all entries again on this machine: legality, numbers and speed. Exit code 1 if any fails."""
    from prune_engine.cli.options import threads_or_default
    from prune_engine.cli.whitelist_tables import check_record, evidence_line
    from prune_engine.metaschedule.whitelist_check import examining
    from prune_engine.whitelist.events import checked

    n_threads = threads_or_default(threads)
    author = by or _user()
    with _opened(store) as opened:
        listed = _listed(opened)
        wanted = [_one_of([*listed.entries, *listed.broken], one, opened.url) for one in entry or ()]
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
        _tell_broken(listed)
        with writing_to_stdout(_REDIRECTED):
            if as_json:
                found = {"store": opened.url, "n_failed": n_failed, "broken": broken, "entries": records}
                typer.echo(json.dumps(found, indent=2))
            else:
                n = len(records) + len(broken)
                typer.echo(f"{n - n_failed} of {n} whitelisted schedules are legal, correct and fast here")
        if n_failed:
            raise typer.Exit(1)


@whitelist.command("export")
def export(
    file: Annotated[Path, typer.Argument(help="File to write.", show_default=False)],
    skip_unreadable: Annotated[
        bool, typer.Option("--skip-unreadable", help="Leave out entries that cannot be read.")
    ] = False,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace a whitelist that has entries which this one has not.")
    ] = False,
    store: _Store = None,
    as_json: _Json = False,
) -> None:
    """Write the whitelist to a text file, for version control and for `whitelist import` elsewhere."""
    from prune_engine import __version__
    from prune_engine.cli.output_file import check_place, write_whole
    from prune_engine.cli.tables import counted
    from prune_engine.cli.whitelist_export import check_all_readable, check_nothing_lost
    from prune_engine.whitelist.files import whitelist_text

    check_place(file, head=b"{")
    with _opened(store) as opened:
        listed = _listed(opened)
        _tell_broken(listed)
        if not skip_unreadable:
            check_all_readable(listed, opened.url)
        check_nothing_lost(file, listed, overwrite=overwrite)
        write_whole(file, whitelist_text(listed, f"prune-engine {__version__}"))
        n = len(listed.entries)
        say(f"{counted(n, 'schedule')}, revision {listed.revision}, written to {file}")
        if as_json:
            record = {"file": str(file), "store": opened.url, "revision": listed.revision, "n_entries": n}
            with writing_to_stdout(_REDIRECTED):
                typer.echo(json.dumps(record))


@whitelist.command("import")
def import_entries(
    file: Annotated[Path, typer.Argument(help="File that `whitelist export` wrote.", show_default=False)],
    restore: Annotated[bool, typer.Option("--restore", help="Take in again what was removed here, too.")] = False,
    by: _By = None,
    store: _Store = None,
    as_json: _Json = False,
) -> None:
    """Take in a whitelist. Entries of another machine or compiler count here once `whitelist verify` passed."""
    from prune_engine.cli.whitelist_tables import counts_here
    from prune_engine.whitelist.files import read_whitelist
    from prune_engine.whitelist.merging import merged

    contents = read_whitelist(file)
    with _opened(store, may_make=True) as opened:
        listed = _listed(opened)
        merge = merged(listed, contents, at=time.time(), by=by or _user(), source=str(file), restore=restore)
        for remark in merge.remarks:
            say(f"warning: {remark}")
        revision = opened.add_whitelist_events(merge.events, after=listed.revision)
        n_unchecked = sum(not counts_here(one) for one in _listed(opened).entries.values())
        record = {
            "source": str(file),
            "store": opened.url,
            "revision": revision,
            "n_new": merge.n_new,
            "n_known": merge.n_known,
            "n_left_out": merge.n_left_out,
            "n_unverified": n_unchecked,
        }
        with writing_to_stdout(_REDIRECTED):
            if as_json:
                typer.echo(json.dumps(record))
            else:
                typer.echo(
                    f"{merge.n_new} new, {merge.n_known} known, {merge.n_left_out} left out; revision {revision}"
                )
                if n_unchecked:
                    typer.echo(f"{n_unchecked} do not count here until `prune-engine whitelist verify` passed them")


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


@contextmanager
def _opened(url: str | None, *, may_make: bool = False) -> Iterator[Store]:
    """The store, closed at the end. One that is named but missing is only made for what comes from elsewhere."""
    from prune_engine.store.open import open_existing_store, open_store

    opened = open_store(url) if may_make else open_existing_store(url)
    try:
        yield opened
    finally:
        opened.close()


def _listed(store: Store) -> Whitelist:
    from prune_engine.whitelist.events import whitelist_of

    return whitelist_of(store.whitelist_events())


def _strict_of(store: Store, name: str) -> str:
    """The class under which an entry that cannot be read is filed."""
    found: list[WhitelistEvent] = [event for event in store.whitelist_events() if event.entry_id == name]
    return found[-1].strict_class


def _tell_broken(listed: Whitelist) -> None:
    for name, why in listed.broken.items():
        say(f"warning: entry {name} cannot be read and does not count ({why})")


def _one_of(names: list[str], wanted: str, place: str) -> str:
    """The id that begins with some letters. Raises ConfigError if none does, or several do."""
    from prune_engine.errors import ConfigError

    found = [one for one in names if one == wanted or (len(wanted) >= _MIN_PREFIX and one.startswith(wanted))]
    if len(found) != 1:
        raise ConfigError(
            "several entries begin so" if found else "no such entry",
            who=place,
            got=repr(wanted),
            expected=f"one of: {', '.join(names[:8])}" if names else "an entry: the whitelist is empty",
        )
    return found[0]


def _user() -> str:
    """Who gives the command; a container may have no name for its user."""
    import getpass
    import os

    try:
        return getpass.getuser()
    except (KeyError, OSError, ImportError):
        return f"user {os.getuid()}"
