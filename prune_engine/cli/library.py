"""`prune-engine library`: the tuned kernels that later tasks begin with: list, import, export and prune them."""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from prune_engine.display.streams import say, writing_to_stdout

if TYPE_CHECKING:
    from prune_engine.hardware import HardwareProfile
    from prune_engine.library.entries import LibraryEntry, LibraryQuery
    from prune_engine.metaschedule.library_import import ImportedLibrary
    from prune_engine.store.base import Store

library = typer.Typer(
    name="library",
    help="Tuned kernels that later tasks begin with: list, import, export and prune them.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)

_Json = Annotated[bool, typer.Option("--json", help="Print JSON for machines.")]
_Store = Annotated[
    str | None, typer.Option(help="Where the library is kept: file or URL.", show_default="user data folder")
]
_Model = Annotated[str | None, typer.Option(help="Only kernels of this model.")]
_Device = Annotated[str | None, typer.Option(help="Only what was measured on this device.")]
_REDIRECTED = "Redirect it to a place with room."
_KEPT_OF_A_KERNEL = 3
#: Parameters of `import` that library files leave no room for.
_OF_DATABASES = ("keep", "device", "threads", "model")


@library.command("list")
@writing_to_stdout(_REDIRECTED)
def list_library(
    file: Annotated[
        Path | None, typer.Argument(help="Library file to list instead of the store's.", show_default=False)
    ] = None,
    builtin: Annotated[bool, typer.Option("--builtin", help="List what plugins ship instead.")] = False,
    model: _Model = None,
    device: _Device = None,
    store: _Store = None,
    as_json: _Json = False,
) -> None:
    """List tuned kernels by model and device, each with its fastest schedule, the slowest kernel first."""
    from prune_engine.cli.library_tables import grouped, kernel_record, print_kernels
    from prune_engine.errors import ConfigError
    from prune_engine.library.entries import LibraryQuery

    if file is not None and builtin:
        raise ConfigError("two libraries to list", who="--builtin", got=str(file), expected="one of them")
    query = LibraryQuery(model=model, device_name=device)
    if builtin:
        entries, place = _shipped(query), "what plugins ship"
    elif file is not None:
        entries, place = _entries_in(file, query), str(file)
    else:
        with _opened(store) as opened:
            entries, place = list(opened.find(query)), opened.url
    kernels = grouped(entries)
    if as_json:
        typer.echo(json.dumps([kernel_record(kernel) for kernel in kernels], indent=2))
    else:
        print_kernels(kernels, place)


@library.command("import")
def import_library(
    context: typer.Context,
    source: Annotated[
        Path,
        typer.Argument(help="Folder or file of a MetaSchedule database, or a library file.", show_default=False),
    ],
    keep: Annotated[
        int, typer.Option(min=1, help="Fastest schedules to keep of each kernel in a database.")
    ] = _KEPT_OF_A_KERNEL,
    device: Annotated[
        str | None,
        typer.Option(
            help="What the kernels of a database ran on.",
            show_default="this processor if they are compiled for it, else the target's",
        ),
    ] = None,
    threads: Annotated[
        int | None, typer.Option(min=1, help="Threads that they ran on.", show_default="the cores of their target")
    ] = None,
    model: Annotated[
        str | None, typer.Option(help="What the kernels of a database are part of.", show_default="its folder")
    ] = None,
    store: _Store = None,
    as_json: _Json = False,
) -> None:
    """Take in the fastest schedules of a MetaSchedule database, or all of a file that `export` wrote."""
    from prune_engine.cli.library_tables import import_record, print_import
    from prune_engine.cli.options import refuse_without_effect
    from prune_engine.errors import ConfigError
    from prune_engine.library.files import read_library

    if _is_database(source):
        with redirect_stdout(sys.stderr):
            found = _from_database(source, keep, device, threads, model)
        entries, remarks, n_records = found.entries, found.remarks, found.n_records
    else:
        refuse_without_effect(
            context, ("keep", "device", "threads", "model"), "on a library file, whose entries say it"
        )
        contents = read_library(source)
        entries, remarks, n_records = contents.entries, contents.remarks, len(contents.entries)
    for remark in remarks:
        say(f"warning: {remark}")
    if not entries:
        raise ConfigError(
            "holds no schedule that can be used here",
            who=str(source),
            got=f"{n_records} records",
            expected="measured schedules of the design spaces that this TVM generates",
        )
    with _opened(store, may_make=True) as opened:
        n_new = opened.add_entries(entries)
        record = import_record(source, entries, remarks, n_records, n_new, opened.url)
    with writing_to_stdout(_REDIRECTED):
        if as_json:
            typer.echo(json.dumps(record))
        else:
            print_import(record)


@library.command("export")
def export(
    file: Annotated[Path, typer.Argument(help="File to write; .gz at the end compresses it.", show_default=False)],
    model: _Model = None,
    device: _Device = None,
    store: _Store = None,
    as_json: _Json = False,
) -> None:
    """Write tuned kernels to a file, one JSON object a line, for `library import` elsewhere."""
    from prune_engine import __version__
    from prune_engine.display.tables import counted
    from prune_engine.errors import ConfigError
    from prune_engine.library.entries import LibraryQuery
    from prune_engine.library.files import write_library
    from prune_engine.output_file import check_place

    check_place(file)
    with _opened(store) as opened:
        entries = opened.find(LibraryQuery(model=model, device_name=device))
        if not entries:
            raise ConfigError(
                "no entry of the library to export",
                who=opened.url,
                got=f"model {model or 'any'}, device {device or 'any'}",
                remedy="`prune-engine library list` shows what there is.",
            )
        place = opened.url
    n_written = write_library(file, entries, {"written_by": f"prune-engine {__version__}"})
    say(f"{counted(n_written, 'schedule')} written to {file}")
    if as_json:
        with writing_to_stdout(_REDIRECTED):
            typer.echo(json.dumps({"file": str(file), "store": place, "n_entries": n_written}))


@library.command("prune")
def prune_library(
    older_than: Annotated[
        float | None, typer.Option(min=0, metavar="DAYS", help="Remove what was measured longer ago.")
    ] = None,
    keep: Annotated[
        int | None, typer.Option(min=1, help="Remove all but the fastest schedules of each kernel on each device.")
    ] = None,
    entry: Annotated[
        list[str] | None, typer.Option(help="Remove the entry of this id, readable or not; may be repeated.")
    ] = None,
    model: _Model = None,
    device: _Device = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would go, and remove nothing.")] = False,
    store: _Store = None,
    as_json: _Json = False,
) -> None:
    """Remove entries: old ones, all but the fastest, those of a model or device, or single ones.

    --model and --device limit what --older-than and --keep look at; alone they remove all they name.
    """
    import time

    from prune_engine.cli.library_tables import to_remove
    from prune_engine.display.tables import counted
    from prune_engine.errors import ConfigError
    from prune_engine.library.entries import LibraryQuery

    filters = (older_than, keep, model, device)
    if not entry and all(value is None for value in filters):
        raise ConfigError(
            "nothing says what to remove",
            who="library prune",
            expected="one of --older-than, --keep, --model, --device and --entry",
        )
    with _opened(store) as opened:
        ids = list(dict.fromkeys(entry or ()))
        if any(value is not None for value in filters):
            found = opened.find(LibraryQuery(model=model, device_name=device))
            before = None if older_than is None else time.time() - older_than * 86_400
            ids += [one.entry_id for one in to_remove(found, before=before, keep=keep)]
        n_removed = len(set(ids)) if dry_run else opened.remove_entries(sorted(set(ids)))
        place = opened.url
    with writing_to_stdout(_REDIRECTED):
        if as_json:
            typer.echo(json.dumps({"store": place, "n_removed": n_removed, "is_dry_run": dry_run}))
        else:
            verb = "would be removed" if dry_run else "removed"
            typer.echo(f"{counted(n_removed, 'schedule')} {verb} from {place}")


@contextmanager
def _opened(url: str | None, *, may_make: bool = False) -> Iterator[Store]:
    """The store; what it warns of is told as everything else is. Only an import makes one that is named."""
    from prune_engine.store.open import open_existing_store, open_store

    opened = open_store(url) if may_make else open_existing_store(url)
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            yield opened
        for warning in caught:
            say(f"warning: {warning.message}")
    finally:
        opened.close()


def _shipped(query: LibraryQuery) -> list[LibraryEntry]:
    """What plugins bring along; what cannot be read of it is told."""
    from prune_engine.config import EngineConfig
    from prune_engine.library.files import LibraryFile
    from prune_engine.plugins import PluginHost
    from prune_engine.strategies import Library
    from prune_engine.transfers.joined_library import JoinedLibrary

    config = EngineConfig()
    host = PluginHost(config)
    host.load()
    items = [item for _, item in host.collect("register_libraries", config=config)]
    entries = JoinedLibrary([item for item in items if isinstance(item, Library)]).find(query)
    for problem in (p for item in items if isinstance(item, LibraryFile) for p in item.problems):
        say(f"warning: {problem}")
    return list(entries)


def _entries_in(file: Path, query: LibraryQuery) -> list[LibraryEntry]:
    from prune_engine.library.files import read_library

    contents = read_library(file)
    for remark in contents.remarks:
        say(f"warning: {remark}")
    return [
        entry
        for entry in contents.entries
        if query.model in (None, entry.model) and query.device_name in (None, entry.device_name)
    ]


def _is_database(source: Path) -> bool:
    """Whether a MetaSchedule database is meant: its folder, or one of its two files."""
    return source.is_dir() or source.suffix == ".json"


def _from_database(
    source: Path, keep: int, device: str | None, threads: int | None, model: str | None
) -> ImportedLibrary:
    from prune_engine.hardware.host import cpu_model, usable_cpus
    from prune_engine.hardware.registry import ProfileRegistry
    from prune_engine.hardware.slice import with_threads
    from prune_engine.metaschedule.library_import import import_database

    registry = ProfileRegistry()

    def profile_of(device_name: str, n_threads: int) -> HardwareProfile | None:
        if device_name != cpu_model() or n_threads > len(usable_cpus()):
            return None
        return with_threads(registry.resolve("auto", n_threads=n_threads), n_threads)

    return import_database(
        source, keep=keep, device_name=device, n_threads=threads, model=model, profile_of=profile_of
    )
