"""`prune-engine profiles`: the hardware profiles there are, what they say, and a measured one of this machine."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from prune_engine.cli.profiles_check import check
from prune_engine.cli.profiles_new import new
from prune_engine.display.streams import say, writing_to_stdout

if TYPE_CHECKING:
    from prune_engine.hardware import HardwareProfile, ProfileEntry, ProfileRegistry

profiles = typer.Typer(
    name="profiles",
    help="Hardware profiles: list, show, write, check and compare them, or measure this machine.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)

_Json = Annotated[bool, typer.Option("--json", help="Print JSON for machines.")]
_Threads = Annotated[
    int | None, typer.Option(min=1, help="Threads that kernels run on.", show_default="usable cores")
]
_REDIRECTED = "Redirect it to a place with room."
_NAME = "Name or alias of a profile, a YAML file, or auto."


@profiles.command("list")
@writing_to_stdout(_REDIRECTED)
def list_profiles(as_json: _Json = False) -> None:
    """List all profiles in search order: the first of a name hides those after it."""
    from prune_engine.cli.profile_tables import print_entries

    entries = registry_with_plugins().entries()
    if as_json:
        typer.echo(json.dumps([_entry_record(entry) for entry in entries], indent=2))
    else:
        print_entries(entries)


@profiles.command("show")
@writing_to_stdout(_REDIRECTED)
def show(
    name: Annotated[str, typer.Argument(help=_NAME, show_default=False)],
    threads: _Threads = None,
    as_json: _Json = False,
) -> None:
    """Print every number of a profile with unit and source; what nobody published is unknown."""
    from prune_engine.cli.profile_tables import print_profile
    from prune_engine.option_values import threads_or_default

    choice = registry_with_plugins().choose(name, n_threads=threads_or_default(threads))
    if as_json:
        record = choice.profile.model_dump(mode="json")
        typer.echo(json.dumps({**record, "digest": choice.profile.digest(), "found": choice.reason}, indent=2))
    else:
        print_profile(choice)


profiles.command("check")(check)
profiles.command("new")(new)


@profiles.command("diff")
@writing_to_stdout(_REDIRECTED)
def diff(
    a: Annotated[str, typer.Argument(help=_NAME, show_default=False)],
    b: Annotated[str, typer.Argument(help=_NAME, show_default=False)],
    threads: _Threads = None,
    as_json: _Json = False,
) -> None:
    """Compare two profiles: each field that differs, both values, and B divided by A."""
    from prune_engine.cli.profile_tables import print_differences
    from prune_engine.hardware.fields import differences
    from prune_engine.option_values import threads_or_default

    registry, n_threads = registry_with_plugins(), threads_or_default(threads)
    first, second = (registry.resolve(name, n_threads=n_threads) for name in (a, b))
    rows = differences(first, second)
    if as_json:
        typer.echo(json.dumps([asdict(row) for row in rows], indent=2))
    else:
        print_differences(first.name, second.name, rows)


@profiles.command("probe")
def probe(
    threads: _Threads = None,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="File to write; `auto` does not look for it there.",
            show_default="in the user's profile folder",
        ),
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print the result only.")] = False,
    as_json: _Json = False,
) -> None:
    """Measure this machine (about 10 seconds; leave it idle) and write a profile.

    Without --out it is written where `auto` finds it; a file elsewhere is named by --profile FILE, or its folder by
    the environment variable PRUNE_ENGINE_PROFILE_PATH.

    Measured are the peak rates of float32, float64 and int8, the read bandwidth of each memory level and the
    cost of a parallel region, all with kernels that TVM compiles.
    """
    from datetime import datetime, timezone

    from prune_engine.cli.profile_tables import print_profile
    from prune_engine.hardware import Choice, host_profile
    from prune_engine.hardware.host import cpu_model
    from prune_engine.hardware.probe import probe_host, probe_name
    from prune_engine.hardware.registry import user_folder
    from prune_engine.hardware.writer import check_place, write_profile
    from prune_engine.metaschedule.probe_kernels import ProbeKernels
    from prune_engine.option_values import threads_or_default
    from prune_engine.output_file import check_replaceable

    n_threads = threads_or_default(threads)
    host = host_profile(n_threads)  # before TVM binds this thread to one processor
    path = out or user_folder() / f"{probe_name(cpu_model(), n_threads)}.yaml"
    check_replaceable(path)
    check_place(path)  # before a minute of measuring, not after it
    profile = probe_host(
        host,
        ProbeKernels(
            n_threads,
            vector_bytes=host.value("limits.vector_bytes"),
            vector_registers=host.value("limits.vector_registers"),
        ),
        measured_at=datetime.now(timezone.utc).isoformat(timespec="seconds"),
        say=(lambda _: None) if quiet else say,
    )
    write_profile(profile, path, "Written by `prune-engine profiles probe`. Delete it to forget the measurement.")
    if as_json:
        record = profile.model_dump(mode="json")
        with writing_to_stdout(_REDIRECTED):
            typer.echo(json.dumps({**record, "digest": profile.digest(), "file": str(path)}, indent=2))
    else:
        with writing_to_stdout(_REDIRECTED):
            print_profile(Choice(profile, f"measured now, written to {path}"))


def registry_with_plugins() -> ProfileRegistry:
    """All profiles, those that plugins compute too; a plugin that fails is told and left out."""
    from prune_engine.config import EngineConfig
    from prune_engine.hardware import HardwareProfile, ProfileRegistry
    from prune_engine.plugins import PluginHost

    host = PluginHost(EngineConfig())
    host.load()
    collected = host.collect("register_hardware_profiles")
    for record in host.records:
        if record.status.value == "failed":
            say(f"plugin {record.name} is left out: {record.detail}")
    return ProfileRegistry([(name, item) for name, item in collected if isinstance(item, HardwareProfile)])


def _entry_record(entry: ProfileEntry) -> dict[str, object]:
    profile: HardwareProfile | None = entry.profile
    return {
        "name": entry.name,
        "layer": entry.layer,
        "origin": entry.origin,
        "kind": profile.kind.value if profile else None,
        "description": profile.description if profile else None,
        "aliases": list(profile.aliases) if profile else [],
        "digest": profile.digest() if profile else None,
        "error": str(entry.error) if entry.error else None,
    }
